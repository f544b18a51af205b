"""Fine-tunes a pair of models on two corpora, as Snoswell et al. 2023 (arXiv 2312.03330, appendix C) do.

Each corpus: texts below a length are left out; of those that are nearly the same the first stays; what repeats itself
for too long is cut; 70% are to train, 20% to test, 10% to validate. The same base then learns each corpus by language
modelling. The report says how far the two lie apart in parameters and in what they predict.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from scoring.language_models import LoadedModel, ResolvedModel, load, resolve
from scoring.refusals import Refused
from scoring.text_files import read_texts
from scoring.training.cards import HeldOut, measure_model, write_finetuning_card
from scoring.training.examples import Examples, pack_documents
from scoring.training.loop import Batch, train
from scoring.training.near_duplicates import drop_near_duplicates
from scoring.training.pretraining import IGNORED
from scoring.training.saving import CHECKPOINTS, hash_file, keep_settings, save_model
from scoring.training.settings import FineTuning

PARTS = {"train": 0.7, "test": 0.2, "validation": 0.1}
REPORT = "report.json"
_REPEAT = re.compile(r"(.{1,8}?)\1{2,}", re.DOTALL)


@dataclass(frozen=True)
class CleanCorpus:
    """A corpus in parts, and how many texts each step of cleaning left; `repeats` counts texts that were shortened."""

    path: Path
    count: int
    long: int
    distinct: int
    repeats: int
    train: list[str]
    test: list[str]
    validation: list[str]

    def describe(self) -> dict[str, Any]:
        """Its numbers, for the report and the card."""
        counts = {field: getattr(self, field) for field in ("count", "long", "distinct", "repeats")}
        parts = {part: len(getattr(self, part)) for part in PARTS}
        return {"corpus": self.path.name, "sha256": hash_file(self.path), **counts, **parts}


def finetune_pair(
    model: str,
    corpora: Sequence[Path],
    output: Path,
    settings: FineTuning,
    *,
    revision: str | None = None,
    report: Callable[[str], None] = tqdm.write,
) -> Path:
    """Make both models, those that `output` lacks, and write report.json; returns its path.

    A run that was killed goes on from its last checkpoint, and ends with the weights that it would have had. Raises
    Refused, before it trains anything, for what cannot be done, and as `resolve` and `load` do.
    """
    if len(corpora) != 2:
        raise Refused.of_value("corpus", len(corpora), "give --corpus twice, once for each model of the pair")
    if corpora[0].stem == corpora[1].stem:
        raise Refused.of_value("corpus", corpora[0].stem, "names both; rename a file, as models are named by them")
    origin = resolve(model, revision=revision)
    if origin.architecture.kind != "causal":
        raise Refused.of_value("model", model, f"is a {origin.architecture.kind} language model; give a causal one")
    clean_corpora = [clean_corpus(path, settings) for path in corpora]
    hashes = {path.name: hash_file(path) for path in corpora}
    keep_settings(output, {"command": "finetune", "model": origin.revision, "corpora": hashes, **asdict(settings)})
    base = load(origin.source, origin.location, origin.revision)
    base_name = Path(origin.location).name
    held_out = {base_name: {corpus.path.stem: measure_model(base, corpus.test) for corpus in clean_corpora}}
    folders = []
    for corpus in clean_corpora:
        folder = output / f"{base_name}-{corpus.path.stem}"
        folders.append(folder)
        if folder.exists():
            report(f"{folder.name}: is made")
        else:
            report(f"{folder.name}: {len(corpus.train)} texts to learn from")
            _make_model(origin, corpus, folder, settings, held_out[base_name][corpus.path.stem])
    models = [_load_folder(folder) for folder in folders]
    for folder, one in zip(folders, models, strict=True):
        held_out[folder.name] = {corpus.path.stem: measure_model(one, corpus.test) for corpus in clean_corpora}
    validation = {
        folder.name: measure_model(one, corpus.validation).log_perplexity
        for folder, one, corpus in zip(folders, models, clean_corpora, strict=True)
    }
    content = {
        "model": origin.location if origin.source == "hub" else base_name,
        "revision": origin.revision,
        "settings": json.loads(json.dumps(asdict(settings), default=str)),
        "corpora": [corpus.describe() for corpus in clean_corpora],
        "models": [folder.name for folder in folders],
        **compare_parameters(base.model, *(one.model for one in models)),
        "test_log_perplexity": {
            name: {part: one.log_perplexity for part, one in row.items()} for name, row in held_out.items()
        },
        "test_documents": {part: one.documents for part, one in held_out[base_name].items()},
        "validation_log_perplexity": validation,
    }
    (output / REPORT).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return output / REPORT


def clean_corpus(path: Path, settings: FineTuning) -> CleanCorpus:
    """Read, clean and divide a corpus. Raises Refused where too few texts are left for three parts."""
    texts = list(read_texts(path))
    long_texts = [text for text in texts if len(text) >= settings.shortest]
    distinct = [long_texts[place] for place in drop_near_duplicates(long_texts, settings.similarity)]
    cut_texts = [cut_repeats(text, settings.longest_repeat) for text in distinct]
    bounds = np.round(np.cumsum([0.0, *PARTS.values()]) * len(cut_texts)).astype(int)
    if (np.diff(bounds) < 1).any():
        raise Refused.of_value(
            "corpus",
            str(path),
            f"{len(cut_texts)} of its {len(texts)} texts are left, too few for three parts; give more, or texts of "
            f"{settings.shortest} characters or more",
        )
    order = np.random.default_rng(settings.seed).permutation(len(cut_texts))
    parts = {
        part: [cut_texts[place] for place in order[start:end]]
        for part, (start, end) in zip(PARTS, pairwise(bounds), strict=True)
    }
    repeats = sum(text != cut_text for text, cut_text in zip(distinct, cut_texts, strict=True))
    return CleanCorpus(path, len(texts), len(long_texts), len(distinct), repeats, **parts)


def cut_repeats(text: str, longest: int) -> str:
    """The text with every run of one short piece (up to 8 characters, three times or more) cut at `longest`."""
    return _REPEAT.sub(lambda match: match.group()[: max(longest, len(match.group(1)))], text)


def language_modelling_loss(model: PreTrainedModel, batch: Batch, _step: int) -> torch.Tensor:
    """Mean cross-entropy of the next token, in nats."""
    is_target = batch["labels"] != IGNORED
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False).logits
    return cross_entropy(logits[is_target].float(), batch["labels"][is_target])


def compare_parameters(
    base: PreTrainedModel, first: PreTrainedModel, second: PreTrainedModel
) -> dict[str, float | None]:
    """Cosines of the parameter vectors: of the pair, of each with the base, and of what each learnt (None if nothing).

    The vectors are all parameters end to end, tied ones once.
    """
    vectors = zip(*(dict(model.named_parameters()).values() for model in (base, first, second)), strict=True)
    products = np.zeros((5, 5))
    for parts in vectors:
        start, end, other_end = (part.detach().double().flatten() for part in parts)
        rows = torch.stack([start, end, other_end, end - start, other_end - start])
        products += (rows @ rows.T).numpy()

    def cosine(one: int, other: int) -> float | None:
        length = np.sqrt(products[one, one] * products[other, other])
        return float(products[one, other] / length) if length > 0 else None

    return {
        "cosine": cosine(1, 2),
        "cosine_first_base": cosine(1, 0),
        "cosine_second_base": cosine(2, 0),
        "cosine_updates": cosine(3, 4),
    }


def _make_model(
    origin: ResolvedModel, corpus: CleanCorpus, folder: Path, settings: FineTuning, base_held_out: HeldOut
) -> None:
    base = load(origin.source, origin.location, origin.revision)
    context = min(settings.context or origin.architecture.context, origin.architecture.context)
    rows = pack_documents(corpus.train, base.tokenizer, context)
    loop = settings.loop(len(rows))
    checkpoints = folder.parent / CHECKPOINTS / folder.name
    train(
        base.model,
        Examples(rows, loop.examples, settings.seed),
        language_modelling_loss,
        loop,
        folder=checkpoints,
        padding=base.tokenizer.pad_token_id or 0,
    )

    def describe(draft: Path) -> None:
        write_finetuning_card(
            draft,
            origin,
            name=folder.name,
            **corpus.describe(),
            shortest=settings.shortest,
            epochs=settings.epochs,
            steps=loop.steps,
            effective_batch=loop.batch * loop.accumulation,
            learnt_context=context,
            learning_rate=settings.learning_rate,
            seed=settings.seed,
            held_out=measure_model(_load_folder(draft), corpus.test).log_perplexity,
            base_held_out=base_held_out.log_perplexity,
        )

    save_model(base.model, base.tokenizer, folder, describe)
    shutil.rmtree(checkpoints)


def _load_folder(folder: Path) -> LoadedModel:
    resolved_model = resolve(str(folder))
    return load(resolved_model.source, resolved_model.location, resolved_model.revision)
