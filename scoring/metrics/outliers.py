"""Entries that stand out: better than their size or likelihoods suggest, or no better than chance at text.

A score far above those of models of its size, or of models that find texts as likely, may be a discovery; more often
the model was made for the test. People should look at it before it is ranked.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 8  # other entries: fewer do not determine a line
MOST_DEVIATIONS = 4.0  # robust standard deviations above the line
LEAST_DISTANCE = 0.05  # of the score, above the line: entries that all lie on it have no spread
MOST = 500  # others that a line is drawn through: all pairs of them are looked at
CHANCE = 0.97  # of the logarithm of the vocabulary: untrained weights are at 1 or above
MAD_TO_SD = 1.4826  # of a normal distribution


def expected_value(x: float, others_x: Sequence[float], others_y: Sequence[float]) -> tuple[float, float] | None:
    """The value of the others' Theil-Sen line at `x`, and the robust standard deviation around the line.

    None where there are fewer than FEWEST others, or all have the same x. Of more than MOST others the line is that of
    MOST, evenly spaced by x. Theil 1950; Sen 1968.
    """
    xs, ys = np.asarray(others_x, dtype=np.float64), np.asarray(others_y, dtype=np.float64)
    if len(xs) < FEWEST or np.ptp(xs) == 0:
        return None
    if len(xs) > MOST:
        places = np.lexsort((ys, xs))[np.linspace(0, len(xs) - 1, MOST).round().astype(int)]
        xs, ys = xs[places], ys[places]
    slope, intercept, *_ = scipy.stats.theilslopes(ys, xs)
    residuals = ys - (intercept + slope * xs)
    spread = MAD_TO_SD * float(np.median(np.abs(residuals - np.median(residuals))))
    return float(intercept + slope * x), spread


def stands_out(
    value: float, x: float, others_x: Sequence[float], others_y: Sequence[float], higher_is_better: bool
) -> float | None:
    """How far `value` is better than expected.

    None where that is within the spread of the others, or where they determine no line.
    """
    expectation = expected_value(x, others_x, others_y)
    if expectation is None:
        return None
    distance = value - expectation[0] if higher_is_better else expectation[0] - value
    return distance if distance > max(LEAST_DISTANCE, MOST_DEVIATIONS * expectation[1]) else None


def is_no_better_than_chance(log_perplexity: float, vocabulary: int) -> bool:
    """Whether a mean log-perplexity, in nats a token, is no better than a random guess over the vocabulary."""
    return log_perplexity >= CHANCE * math.log(max(2, vocabulary))
