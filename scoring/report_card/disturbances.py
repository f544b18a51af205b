"""What a scorer makes of the same texts in capitals, misspelt, said twice, or in other words.

People read the same in them.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import is_above
from scoring.report_card.figures import Array, IntervalEstimate, share

MOST_DISTURBED = 500  # texts that are scored again in each disturbance: what it costs, whatever the set
SWAPPED_SHARE = 0.1  # of a text's letters that change places with the next one
SEED = 20210801  # any fixed number; the date of HateCheck


@dataclass(frozen=True, slots=True)
class DisturbanceEffect:
    """By how much scores change on average, with their sign and without, and of which share of texts the label does."""

    mean_change: float
    mean_distance: float
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


def choose_sample(count: int, most: int = MOST_DISTURBED) -> NDArray[np.int64]:
    """The positions of `most` of so many texts, in order, drawn by a fixed seed; all where there are no more."""
    positions = np.arange(count)
    if count <= most:
        return positions
    return np.sort(np.random.default_rng(SEED).choice(positions, most, replace=False))


def disturb_texts(texts: Sequence[str]) -> dict[str, list[str]]:
    """The texts [n] under each of DISTURBANCES."""
    return {name: [disturb(text) for text in texts] for name, disturb in DISTURBANCES.items()}


def measure_effects(
    values: NDArray[np.floating], disturbed_values: Mapping[str, NDArray[np.floating]], threshold: float
) -> dict[str, DisturbanceEffect]:
    """The effect of each disturbance: scores [n] of texts as they are, and as disturbed, NaN where there is none."""
    effects = {name: measure_effect(values, new_values, threshold) for name, new_values in disturbed_values.items()}
    return {name: effect for name, effect in effects.items() if effect is not None}


def measure_effect(
    old_values: NDArray[np.floating], new_values: NDArray[np.floating], threshold: float
) -> DisturbanceEffect | None:
    """From the scores [n] of texts to those of other texts that say the same; None where no pair has both."""
    both = np.isfinite(old_values) & np.isfinite(new_values)
    old, new = old_values[both].astype(np.float64), new_values[both].astype(np.float64)
    flips = share(is_above(old, threshold) != is_above(new, threshold))
    if flips is None:
        return None
    changes: Array = new - old
    return DisturbanceEffect(float(changes.mean()), float(np.abs(changes).mean()), flips)
