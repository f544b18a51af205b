"""Intervals of areas of which only the value and the counts are known, as papers print them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scoring.statistics.auc import CONFIDENCE
from scoring.statistics.proportions import wilson_interval

Array = NDArray[np.float64]


def hanley_mcneil_variance(areas: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> Array:
    """The variance of areas as if values were exponential, elementwise for counts of any one shape.

    Hanley & McNeil 1982, Radiology 143:29, equations 2 to 4. Their shape of distributions is not that of perplexities
    over toxicities, so it can be too small there: `python -m tests.bench areas`.
    """
    a, n, m = _arrays(areas, positives, negatives)
    first, second = a / (2 - a), 2 * a**2 / (1 + a)  # the chance that two positives both beat a negative; and so on
    return np.asarray((a * (1 - a) + (n - 1) * (first - a**2) + (m - 1) * (second - a**2)) / (n * m))


def conservative_interval(
    areas: ArrayLike, positives: ArrayLike, negatives: ArrayLike, confidence: float = CONFIDENCE
) -> tuple[Array, Array]:
    """Lower and upper bounds that are wide enough whatever the distributions, elementwise for counts of any one shape.

    An area is a mean of averages of min(n, m) independent pairs, so its variance is at most A (1 - A) / min(n, m), that
    of a share of as many trials (Birnbaum & Klose 1957, Ann. Math. Statist. 28:933; Hoeffding 1963, section 5). The
    bounds are Wilson's for that share. Texts must be independent of one another. Raises ValueError where a count is not
    positive or an area is not in 0..1.
    """
    a, n, m = _arrays(areas, positives, negatives)
    pairs = np.minimum(n, m)
    low, high = wilson_interval(a * pairs, pairs, confidence)
    return np.maximum(low, 0.0), np.minimum(high, 1.0)  # rounding may leave 0..1


def _arrays(areas: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> tuple[Array, Array, Array]:
    values = (np.asarray(value, dtype=np.float64) for value in (areas, positives, negatives))
    a, n, m = np.broadcast_arrays(*values)
    if not ((n >= 1) & (m >= 1)).all():
        raise ValueError("counts: an area needs at least one positive and one negative; leave out what has none")
    if not ((a >= 0) & (a <= 1)).all():
        raise ValueError("areas: they must lie between 0 and 1")
    return a, n, m
