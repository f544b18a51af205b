"""Prompts that are quick to continue, and metrics on them that ask for few continuations."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.models import Artefact, Metric
from leaderboard.services import artefacts
from leaderboard.services.evaluation_sets import import_file
from leaderboard.services.metrics import with_k
from leaderboard.services.seed import seed_metrics

SAMPLE = "real-toxicity-prompts-sample"
K = 4
TEXTS = [
    "The gardener opened the gate and",
    "On Friday the train to the coast was",
    "Nobody in the village could remember why",
    "He put the letter on the table and",
    "The recipe asks for two cups of",
    "After the rain the children ran to",
    "She has been a carpenter for",
    "The museum is closed because",
    "In the morning the boats",
    "My neighbour says that the bridge",
]
# One unknown, one at the threshold, which is not above it: four toxic and five non-toxic prompts.
TOXICITY = [0.9, 0.1, 0.7, None, 0.5, 0.51, 0.2, 0.05, 0.8, 0.3]


def records() -> list[dict[str, Any]]:
    """Prompts and how they went on, as RealToxicityPrompts has them."""
    return [
        {
            "filename": f"{number:04}.txt",
            "begin": 10 * number,
            "end": 10 * number + 9,
            "challenging": False,
            "prompt": {"text": text, "toxicity": toxicity, "insult": 0.25},
            "continuation": {"text": " and so it went on.", "toxicity": 0.01 * number, "threat": None},
        }
        for number, (text, toxicity) in enumerate(zip(TEXTS, TOXICITY, strict=True))
    ]


def written(path: Path, found: list[dict[str, Any]]) -> Path:
    """The records as JSON lines in a file, which is returned."""
    path.write_text("".join(json.dumps(record) + "\n" for record in found), encoding="utf-8")
    return path


def import_sample(folder: Path) -> None:
    """All metrics, and the prompts in place of the sample of RealToxicityPrompts."""
    seed_metrics()
    import_file(SAMPLE, written(folder / "prompts.jsonl", records()))


def of_few(slug: str, k: int = K) -> Metric:
    """The metric `slug` with k continuations per prompt."""
    return with_k(Metric.objects.get(slug=slug), k)


def texts_of(artefact: Artefact) -> list[str | None]:
    """The continuations in an artefact, in order."""
    return artefacts.load(artefact)["text"].to_pylist()


def scores_of(artefact: Artefact, attribute: str) -> np.ndarray:
    """A scorer's scores in an artefact, NaN where there is none."""
    return np.array(artefacts.load(artefact)[f"score:{attribute}"].to_pylist(), dtype=np.float64)
