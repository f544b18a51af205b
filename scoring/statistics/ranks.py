"""Ranks, and their range by simultaneous paired comparisons (after Mogstad et al. 2023)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.auc import holm
from scoring.statistics.differences import p_values, pairwise

Array = NDArray[np.float64]
Direction = Literal["higher", "lower"]
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Rank:
    """A competition rank (equal values share it) and, where known, the best and worst rank that cannot be excluded."""

    rank: int
    low: int | None
    high: int | None


def competition_ranks(values: Array, direction: Direction) -> NDArray[np.int64]:
    """1 for the best; equal values share the better rank, and the next one is skipped."""
    costs = -values if direction == "higher" else values
    shared_ranks: NDArray[np.int64] = scipy.stats.rankdata(costs, method="min").astype(np.int64)
    return shared_ranks


def ranks(values: Array, covariance: Array, direction: Direction, alpha: float = ALPHA) -> list[Rank]:
    """Rank `values` [k] with covariance [k, k], and give the range of ranks that each may have.

    Two-sided z tests compare the paired difference of every pair, Holm-adjusted over the k (k - 1) / 2 pairs;
    low = 1 + number significantly better, high = k - number significantly worse. A pair whose covariance is unknown
    (NaN) counts as indistinguishable.
    """
    count = len(values)
    first, second, difference, error = pairwise(values, covariance)
    p = np.where(np.isnan(error), 1.0, p_values(difference, error))
    significant = holm(p) < alpha
    better = np.zeros((count, count), dtype=bool)
    ahead = (difference > 0) if direction == "higher" else (difference < 0)
    better[first, second] = significant & ahead
    better[second, first] = significant & ~ahead
    low = 1 + better.sum(axis=0)
    high = count - better.sum(axis=1)
    places = competition_ranks(values, direction)
    return [Rank(int(p), int(a), int(b)) for p, a, b in zip(places, low, high, strict=True)]
