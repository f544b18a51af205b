"""What a scorer makes of the same texts in capitals, misspelt, or said twice: people read the same in them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.report_card.figures import Array, IntervalEstimate, share

SWAPPED_SHARE = 0.1  # of a text's letters that change places with the next one
SEED = 20210801  # any fixed number; the date of HateCheck


@dataclass(frozen=True, slots=True)
class DisturbanceEffect:
    """By how much scores change on average, and of which share of texts the label changes."""

    mean_change: float
    flips: IntervalEstimate


def swap_letters(text: str) -> str:
    """The text with about a tenth of its letters swapped with the next letter, alike in each run."""
    generator = random.Random(f"{SEED}:{text}")  # noqa: S311 (no secret)
    letters = list(text)
    position = 0
    while position < len(letters) - 1:
        is_pair = letters[position].isalpha() and letters[position + 1].isalpha()
        if is_pair and generator.random() < SWAPPED_SHARE:
            letters[position : position + 2] = letters[position + 1], letters[position]
            position += 1
        position += 1
    return "".join(letters)


def say_twice(text: str) -> str:
    """The text, and once more."""
    return f"{text} {text}"


DISTURBANCES: dict[str, Callable[[str], str]] = {
    "upper case": str.upper,
    "lower case": str.lower,
    "swapped letters": swap_letters,
    "said twice": say_twice,
}


def measure_effects(
    score: Callable[[Sequence[str]], Array], texts: Sequence[str], values: Array, threshold: float
) -> dict[str, DisturbanceEffect]:
    """The effect of each disturbance on texts whose scores [n] are `values`; those without a score are left out.

    `score` gives the scores [n] of texts, NaN where there is none.
    """
    effects = {}
    for name, disturb in DISTURBANCES.items():
        disturbed_values = score([disturb(text) for text in texts])
        both = np.isfinite(values) & np.isfinite(disturbed_values)
        old_values, new_values = values[both].astype(np.float64), disturbed_values[both].astype(np.float64)
        flips = share((old_values > threshold) != (new_values > threshold))
        if flips is not None:
            effects[name] = DisturbanceEffect(float((new_values - old_values).mean()), flips)
    return effects
