"""Two samples side by side: quantiles of each, and histograms over the same bins."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FEWEST, MOST = 8, 60  # bins


def quantiles(values: Array) -> list[float]:
    """The QUANTILES of `values` [n], interpolated linearly. Raises ValueError where there is no value."""
    if not len(values):
        raise ValueError("values: quantiles need at least one; leave out what has none")
    cuts: list[float] = np.quantile(values, QUANTILES).tolist()
    return cuts


def shared_edges(samples: Sequence[Array]) -> Array:
    """Edges of bins of equal width that hold all `samples`, float64 [bins + 1].

    Their width follows Freedman and Diaconis (1981) for the smallest sample, with FEWEST to MOST bins.
    """
    everything = np.concatenate(samples)
    low, high = float(everything.min()), float(everything.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    smallest = min(samples, key=len)
    lower, upper = np.quantile(smallest, [0.25, 0.75])
    width = 2 * (upper - lower) / np.cbrt(len(smallest))
    bins = FEWEST if width <= 0 else int(np.clip(np.ceil((high - low) / width), FEWEST, MOST))
    return np.linspace(low, high, bins + 1)


def shares(values: Array, edges: Array) -> Array:
    """The share of `values` in each bin, float64 [bins]; they add up to 1."""
    counts, _ = np.histogram(values, edges)
    return counts / len(values)
