"""Texts to learn from, and tiny teachers."""

import random
from pathlib import Path

import pytest

from tests.scoring.families import tiny_folder

SUBJECTS = ["The river", "A mill", "The council", "Rain", "An old road", "The harvest", "A small town", "The sea"]
VERBS = ["rises in", "flows past", "was built near", "divides", "remembers", "surrounds", "looks over", "belongs to"]
OBJECTS = ["the mountains", "the fields", "two villages", "the northern plain", "a long valley", "the old harbour"]


def sentences(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)  # noqa: S311 (no secrets)
    return [
        f"{generator.choice(SUBJECTS)} {generator.choice(VERBS)} {generator.choice(OBJECTS)}, and {number} times more "
        f"it {generator.choice(VERBS)} {generator.choice(OBJECTS)} where {generator.choice(SUBJECTS).lower()} ends."
        for number in range(count)
    ]


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A file of 60 sentences."""
    return write_lines(tmp_path / "texts.txt", sentences(60, seed=1))


@pytest.fixture
def causal_teacher() -> Path:
    """A GPT-2 of two layers with dropout."""
    return tiny_folder("GPT-2")


@pytest.fixture
def masked_teacher() -> Path:
    """A BERT of two layers with dropout."""
    return tiny_folder("BERT")
