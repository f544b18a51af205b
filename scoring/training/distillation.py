"""Distils a grid of students from a teacher, as Hosseini et al. 2023 (arXiv 2301.09211, section 4.7 and A.5) do.

Every student has the teacher's family, tokenizer and context, and one head for each 64 of its width. From its family's
random start it learns in two stages on the same texts: language modelling alone (the paper: one epoch), then the
teacher's soft targets alone, by cross-entropy (the paper: one epoch). Masked models learn both at masked tokens.

The paper adds no other loss. Two can be added here to the second stage, both by a weight that is 0 unless given:
language modelling, and the mean squared error of hidden states, of layers at the same share of the depth, where a
student's states are first projected to the teacher's width by a matrix that is learnt and thrown away.
"""

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, softmax
from tqdm import tqdm
from transformers import PreTrainedModel

from scoring.language_models import LoadedModel, ResolvedModel, load, resolve
from scoring.refusals import Refused
from scoring.text_files import read_texts
from scoring.training.cards import write_distillation_card
from scoring.training.corpus import HELD_OUT_SHARE
from scoring.training.examples import Examples, cut_documents, pack_documents
from scoring.training.loop import Batch, train
from scoring.training.pretraining import IGNORED
from scoring.training.saving import CHECKPOINTS, hash_file, keep_settings, save_model
from scoring.training.settings import Distillation
from scoring.training.students import build_student, configure_student

PROJECTION = "distillation_projection"


def distil(
    teacher: str,
    depths: Sequence[int],
    widths: Sequence[int],
    texts: Sequence[Path],
    output: Path,
    settings: Distillation,
    *,
    revision: str | None = None,
    report: Callable[[str], None] = tqdm.write,
) -> list[Path]:
    """Make every student that `output` lacks, and return the folders of all.

    A run that was killed goes on from its last checkpoint, and ends with the weights that it would have had. Raises
    Refused, before it trains anything, for what cannot be done, and as `resolve` and `load` do.
    """
    resolved_teacher = resolve(teacher, revision=revision)
    kind = resolved_teacher.architecture.kind
    if kind == "permutation":
        raise Refused.of_value("teacher", teacher, "is a permutation language model; give a causal or a masked one")
    documents, held_out = split_documents(read_documents(texts), settings.seed)
    keep_settings(
        output,
        {
            "command": "distill",
            "teacher": resolved_teacher.revision,
            "texts": {path.name: hash_file(path) for path in texts},
            **asdict(settings),
        },
    )
    loaded_teacher = load(resolved_teacher.source, resolved_teacher.location, resolved_teacher.revision)
    grid = [(depth, width) for depth in sorted(set(depths)) for width in sorted(set(widths))]
    for depth, width in grid:
        configure_student(loaded_teacher.model.config, depth, width)
    longest = resolved_teacher.architecture.context
    settings = replace(settings, context=min(settings.context or longest, longest))
    rows = (pack_documents if kind == "causal" else cut_documents)(
        documents, loaded_teacher.tokenizer, settings.context or longest
    )
    name = Path(resolved_teacher.location).name
    folders = []
    for number, (depth, width) in enumerate(grid, start=1):
        folder = output / f"{name}-distilled-l{depth}-h{width}"
        folders.append(folder)
        if folder.exists():
            report(f"{folder.name} ({number} of {len(grid)}): is made")
            continue
        report(f"{folder.name} ({number} of {len(grid)})")
        _make_student(loaded_teacher, resolved_teacher, rows, held_out, folder, (depth, width), settings, texts, report)
    return folders


def _make_student(
    teacher: LoadedModel,
    origin: ResolvedModel,
    rows: Sequence[Any],
    held_out: Sequence[str],
    folder: Path,
    shape: tuple[int, int],
    settings: Distillation,
    texts: Sequence[Path],
    report: Callable[[str], None],
) -> None:
    loop = settings.loop(max(1, len(rows) // settings.batch))
    student = build_student(teacher.model, teacher.architecture, *shape, settings.seed)
    if settings.hidden_weight:
        projection = nn.Linear(student.config.hidden_size, teacher.model.config.hidden_size, bias=False)
        student.add_module(PROJECTION, projection)
    tokenizer = teacher.tokenizer
    masks = {
        "mask_id": tokenizer.mask_token_id,
        "special_ids": tokenizer.all_special_ids,
        "masked_share": settings.masked_share,
    }
    examples = Examples(rows, loop.examples, settings.seed, **(masks if teacher.architecture.kind == "masked" else {}))
    checkpoints = folder.parent / CHECKPOINTS / folder.name
    objective = DistillationLoss(teacher.model, loop.stages[0], settings)
    log = train(student, examples, objective, loop, folder=checkpoints, padding=tokenizer.pad_token_id or 0)
    if settings.hidden_weight:
        delattr(student, PROJECTION)

    def describe(draft: Path) -> None:
        value = write_distillation_card(
            draft, folder.name, list(held_out), origin, settings, loop, len(rows), texts, log
        )
        report(f"{folder.name}: {value:.3f} nats a token on held-out texts")

    save_model(student, tokenizer, folder, describe)
    shutil.rmtree(checkpoints)


class DistillationLoss:
    """The objective: language modelling up to step `pretraining_steps`, then what `settings` weigh."""

    def __init__(self, teacher: PreTrainedModel, pretraining_steps: int, settings: Distillation) -> None:
        self.teacher, self.pretraining_steps, self.settings = teacher, pretraining_steps, settings

    def __call__(self, student: PreTrainedModel, batch: Batch, step: int) -> torch.Tensor:
        """Mean over the tokens to predict, in nats."""
        targets = batch["labels"][is_target := batch["labels"] != IGNORED]
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        if step < self.pretraining_steps:
            return cross_entropy(student(**inputs).logits[is_target].float(), targets)
        with_states = self.settings.hidden_weight > 0
        prediction = student(**inputs, output_hidden_states=with_states)
        with torch.no_grad():
            lesson = self.teacher(**inputs, output_hidden_states=with_states)
        logits = prediction.logits[is_target].float()
        loss = soft_target_loss(logits, lesson.logits[is_target].float(), self.settings.temperature)
        if self.settings.language_modelling_weight:
            loss = loss + self.settings.language_modelling_weight * cross_entropy(logits, targets)
        if with_states:
            is_seen = batch["attention_mask"].bool()
            projection = getattr(student, PROJECTION)
            loss = loss + self.settings.hidden_weight * hidden_state_loss(
                [projection(states[is_seen]).float() for states in prediction.hidden_states],
                [states[is_seen].float() for states in lesson.hidden_states],
            )
        return loss


def soft_target_loss(logits: torch.Tensor, teacher_logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Cross-entropy of the student's distribution under the teacher's, [tokens, vocabulary] each, mean over tokens.

    Times the temperature squared, so that the size of the gradient does not depend on it (Hinton et al. 2015).
    """
    if temperature != 1:  # which would only cost two passes over memory
        logits, teacher_logits = logits / temperature, teacher_logits / temperature
    return cross_entropy(logits, softmax(teacher_logits, dim=-1)) * temperature**2


def hidden_state_loss(states: Sequence[torch.Tensor], teacher_states: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean squared error, over layers of states [tokens, width], embeddings first, at the same share of the depth."""
    depth, teacher_depth = len(states) - 1, len(teacher_states) - 1
    places = [round(layer * teacher_depth / depth) for layer in range(depth + 1)]
    return torch.stack([mse_loss(own, teacher_states[place]) for own, place in zip(states, places, strict=True)]).mean()


def read_documents(paths: Sequence[Path]) -> list[str]:
    """The distinct texts of files, in their order, without blank ones. Raises as `read_texts`, and Refused."""
    documents = list(dict.fromkeys(text for path in paths for text in read_texts(path) if text.strip()))
    if len(documents) < 2:
        raise Refused.of_value(
            "texts", ", ".join(map(str, paths)), "hold fewer than two texts; give files with one a line"
        )
    return documents


def split_documents(documents: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """(training, held-out) texts, shuffled by `seed`; at least one is held out."""
    order = list(documents)
    random.Random(seed).shuffle(order)  # noqa: S311 (a shuffle, not a secret)
    held_out = max(1, round(len(order) * HELD_OUT_SHARE))
    return order[held_out:], order[:held_out]
