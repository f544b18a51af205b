"""Intervals of proportions of independent trials."""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from scoring.statistics.auc import CONFIDENCE

Array = NDArray[np.float64]


def wilson_interval(successes: ArrayLike, trials: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Wilson's score interval, without continuity correction, elementwise for counts of any one shape.

    Returns lower and upper bounds, within 0..1 and on either side of successes / trials (Wilson 1927, J. Am. Stat.
    Assoc. 22:209). Raises ValueError where there is no trial, or where successes do not lie in 0..trials.
    """
    hits, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    if not (n > 0).all():
        raise ValueError("trials: a proportion needs at least one trial; leave out what has none")
    if not ((hits >= 0) & (hits <= n)).all():
        raise ValueError("successes: they must lie between 0 and the number of trials")
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    share = hits / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    spread = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # The bounds at 0 and n successes are exactly 0 and 1; rounding would miss that.
    return np.where(hits == 0, 0.0, centre - spread), np.where(hits == n, 1.0, centre + spread)
