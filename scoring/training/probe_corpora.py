"""Corpora of which it is known how they differ: pairs that show what a metric tells apart.

They are texts of a file that have no term of a lexicon. `plain` and `half1` are the same texts, `marked` is these
with one term of one category put into each, and `half2` is as many others.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from scoring.refusals import Refused
from scoring.scorers import Lexicon, LexiconScorer
from scoring.text_files import read_texts

LONGEST = 400  # characters


def write_probe_corpora(
    path: Path, lexicon: Lexicon, category: str, output: Path, *, count: int, shortest: int, seed: int
) -> list[Path]:
    """Write plain.txt, marked.txt, half1.txt and half2.txt, a text a line, to `output`; returns their paths.

    count: texts of a corpus. shortest: characters. Raises Refused, and as `read_texts`.
    """
    if category not in lexicon.terms:
        raise Refused.of_value("category", category, f"use one of {', '.join(lexicon.categories)}")
    texts = choose_texts(path, lexicon, shortest)
    if len(texts) < 2 * count:
        raise Refused.of_value("count", count, f"{path} has texts for corpora of {len(texts) // 2} at most")
    generator = random.Random(seed)  # noqa: S311 (a draw, not a secret)
    generator.shuffle(texts)
    first, second = texts[:count], texts[count : 2 * count]
    marked_texts = [mark(text, lexicon.terms[category], generator) for text in first]
    output.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, lines in {"plain": first, "marked": marked_texts, "half1": first, "half2": second}.items():
        paths.append(output / f"{name}.txt")
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def choose_texts(path: Path, lexicon: Lexicon, shortest: int) -> list[str]:
    """The distinct texts of the file, of `shortest` to LONGEST characters, that have no term of the lexicon."""
    texts = [text for text in dict.fromkeys(read_texts(path)) if shortest <= len(text) <= LONGEST]
    if not texts:
        return []
    has_term = LexiconScorer(lexicon).score(texts).values[:, -1] > 0
    return [text for text, is_marked in zip(texts, has_term, strict=True) if not is_marked]


def mark(text: str, terms: Sequence[str], generator: random.Random) -> str:
    """The text with one of `terms` between two of its words."""
    words = text.split(" ")
    place = generator.randrange(1, max(2, len(words)))
    return " ".join([*words[:place], generator.choice(terms), *words[place:]])
