"""How far an unchanged scorer differs from itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.scorers.base import ScorerUnavailable

Matrix = NDArray[np.floating[Any]]
Score = Callable[[Sequence[str]], Matrix]  # texts to [n, attributes], NaN where a text has no score

REPEATS = 20
SAFETY_FACTOR = 3.0
LEAST_NOISE_FLOOR = 1e-4
SEED = 20230424  # of batch sizes and orders; any fixed number


def noise_floor(score: Score, texts: Sequence[str], repeats: int = REPEATS, seed: int = SEED) -> float:
    """3 times the largest difference between any two scorings of a text, and at least 1e-4.

    The texts are scored once as they come, and `repeats` times in another order, cut into batches of another size each
    time (1 up to all of them, small ones as often as large ones). Raises ValueError without texts, and
    ScorerUnavailable where a text has a score in one scoring and none in another: noise is of a scorer that answers.
    """
    if not texts:
        raise ValueError("texts: there are none; give the control set's")
    generator = np.random.default_rng(seed)
    first = np.asarray(score(texts), dtype=np.float64)
    lowest, highest = first.copy(), first.copy()
    for _ in range(repeats):
        order = generator.permutation(len(texts))
        size = round(len(texts) ** generator.random())
        again = np.empty_like(first)
        for start in range(0, len(texts), size):
            rows = order[start : start + size]
            again[rows] = score([texts[row] for row in rows])
        if (np.isnan(again) != np.isnan(first)).any():
            raise ScorerUnavailable("a text has a score at one time and none at another; try again when it answers all")
        np.fmin(lowest, again, out=lowest)
        np.fmax(highest, again, out=highest)
    spread = (highest - lowest)[~np.isnan(first)]
    return max(LEAST_NOISE_FLOOR, SAFETY_FACTOR * float(spread.max(initial=0.0)))


def median_of_three(score: Score, texts: Sequence[str]) -> Matrix:
    """The median of three scorings, for a scorer that is random by nature: [n, attributes].

    A text without a score in any of the three has none: it is unavailable. Compare medians with medians, and measure
    the noise floor of medians too: `noise_floor(lambda texts: median_of_three(score, texts), texts)`.
    """
    found: Matrix = np.median([score(texts) for _ in range(3)], axis=0)
    return found
