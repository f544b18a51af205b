"""Box plots: the five numbers of a sample, and what lies outside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

REACH = 1.5  # interquartile ranges from the box to the farthest value that a whisker reaches


@dataclass(frozen=True, slots=True)
class Box:
    """Ends of whiskers, quartiles and median of a sample; `outside` holds positions of values beyond the whiskers."""

    low: float
    lower: float
    median: float
    upper: float
    high: float
    outside: tuple[int, ...]


def box(values: ArrayLike) -> Box:
    """Describe `values` [n] as a box plot of Tukey's (1977).

    Quartiles are interpolated linearly between order statistics (type 7 of Hyndman & Fan 1996); whiskers end at the
    farthest values within 1.5 interquartile ranges of the box. Raises ValueError where there is no value.
    """
    sample: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if not len(sample):
        raise ValueError("values: a box plot needs at least one; leave out what has none")
    lower, median, upper = np.quantile(sample, [0.25, 0.5, 0.75])
    reach = REACH * (upper - lower)
    is_within_reach = (sample >= lower - reach) & (sample <= upper + reach)
    ends = sample[is_within_reach]
    return Box(
        # A quartile of a small sample may lie beyond the last value within reach: then its whisker has no length.
        low=float(min(ends.min(), lower)),
        lower=float(lower),
        median=float(median),
        upper=float(upper),
        high=float(max(ends.max(), upper)),
        outside=tuple(int(position) for position in np.flatnonzero(~is_within_reach)),
    )
