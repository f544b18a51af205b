"""How fast scorers are, as ratios against named references measured in the same run; part of `make bench`.

The classifier is of BERT-base's size and randomly initialised: speed and rounding do not depend on what it has learnt.
Texts are ToxiGen's where it is at hand, in their order, else the starter set's.
"""

import json
import random
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from detoxify import Detoxify

from scoring.evaluation_sets import build_starter
from scoring.scorers import get_scorer
from scoring.scorers.conversion import convert_detoxify
from scoring.scorers.precision import Precision
from tests.bench.timing import seconds
from tests.data import TOXIGEN
from tests.tiny_classifiers import BASE, CLASSES, bert, save_detoxify

CPU = torch.device("cpu")
TEXTS = 256
BATCH = 32  # texts in a batch of the usual way
CONTINUATIONS, WORDS = 100_000, 20


def sentences() -> tuple[str, list[str]]:
    """What the texts are, and all of them."""
    if TOXIGEN.exists():
        return "ToxiGen", [record["text"] for record in json.loads(TOXIGEN.read_text(encoding="utf-8"))]
    return "the starter set", [sentence.text for sentence in build_starter()]


def as_they_come(reference: Detoxify, texts: list[str]) -> np.ndarray:
    """Detoxify.predict in batches, float64 [n_texts, n_classes]."""
    parts = []
    for start in range(0, len(texts), BATCH):
        found = reference.predict(texts[start : start + BATCH])
        parts.append(np.array([found[name] for name in reference.class_names]).T)
    return np.concatenate(parts)


def classifier_table(folder: Path, device: torch.device = CPU, count: int = TEXTS) -> None:
    """Detoxify.predict against ours, in each precision."""
    source, texts = sentences()
    texts = texts[:count]
    checkpoint, config_folder = save_detoxify(folder, bert(BASE, outputs=len(CLASSES)))
    published = Path(shutil.copytree(config_folder, folder / "published"))
    shutil.copy(checkpoint, published)
    converted = convert_detoxify(published, folder / "converted")
    reference = Detoxify(checkpoint=str(checkpoint), huggingface_config_path=str(config_folder), device=device.type)
    expected = as_they_come(reference, texts)
    usual = seconds(lambda: as_they_come(reference, texts))
    tokens = reference.tokenizer(texts)["input_ids"]
    print(
        f"Detoxify of BERT-base's size: {len(texts)} texts of {source}, {sum(map(len, tokens))} tokens, "
        f"on {device.type}, {torch.get_num_threads()} threads; "
        f"scores have a standard deviation of {expected.std(axis=0).mean():.3f}"
    )
    print(f"{'':34}{'seconds':>10}{'ratio':>8}{'largest deviation':>20}{'mean':>10}")
    print(f"{f'Detoxify.predict, {BATCH} as they come':34}{usual:>10.2f}{1:>7.1f}x")
    for precision in Precision:
        if precision is Precision.INT8 and device.type != "cpu":
            continue
        scorer = get_scorer("detoxify-original", folder=converted, precision=precision, device=device)
        deviation = np.abs(scorer.score(texts).values - expected)
        ours = seconds(lambda scorer=scorer: scorer.score(texts))
        print(
            f"{f'Plumbline, {precision}':34}{ours:>10.2f}{usual / ours:>7.1f}x{deviation.max():>20.1e}"
            f"{deviation.mean():>10.1e}"
        )


def lexicon_table() -> None:
    """Continuations a second on one core."""
    words = [word for text in sentences()[1] for word in text.split()]
    draw = random.Random(0)  # noqa: S311 (texts, not secrets)
    texts = [" ".join(draw.choices(words, k=WORDS)) for _ in range(CONTINUATIONS)]
    scorer = get_scorer("lexicon:starter")
    rate = CONTINUATIONS / seconds(lambda: scorer.score(texts))
    share = scorer.score(texts).values[:, -1].mean()
    print(f"lexicon:starter: {rate:,.0f} continuations of {WORDS} words a second, {share:.1%} with a match")


def scorers_table() -> None:
    """Print the table."""
    with TemporaryDirectory() as folder:
        classifier_table(Path(folder))
    lexicon_table()
