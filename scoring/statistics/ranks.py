"""Ranks, and their range by simultaneous paired comparisons (after Mogstad et al. 2023)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
Direction = Literal["higher", "lower"]
ALPHA = 0.05
BLOCK = 512  # values that are compared with all others at once


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


def ranks(values: Array, influences: Array, direction: Direction, alpha: float = ALPHA) -> list[Rank]:
    """Rank `values` [k], and give the range of ranks that each may have.

    influences [k, n]: how much each of n texts or draws moves each value; the product of two rows is the covariance of
    their values. Two-sided z tests compare the paired difference of every pair, Holm-adjusted over the k (k - 1) / 2
    pairs; low = 1 + number significantly better, high = k - number significantly worse. A pair of which an influence is
    unknown (NaN) counts as indistinguishable. Takes 2 k² bytes beside what it is given.
    """
    count = len(values)
    pairs = count * (count - 1) // 2
    blocks = list(_distances(-values if direction == "higher" else values, influences))
    significant, previous = 0, -1
    # Holm's step-down: each pair that is told apart leaves fewer to adjust for, until no other one follows.
    while significant != previous:
        previous = significant
        threshold = scipy.stats.norm.isf(alpha / 2 / max(pairs - significant, 1))
        low, high = _count_apart(blocks, count, threshold)
        significant = int(low.sum()) - count
    places = competition_ranks(values, direction)
    return [Rank(int(p), int(a), int(b)) for p, a, b in zip(places, low, high, strict=True)]


def _distances(costs: Array, influences: Array) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """By how many standard errors each cost [k] exceeds each later one: blocks of rows, from their first one on.

    0 where costs are equal or an influence is unknown, and before the later ones.
    """
    variances = np.einsum("kn,kn->k", influences, influences)
    for start in range(0, len(costs), BLOCK):
        rows = slice(start, start + BLOCK)
        variance = variances[rows, None] + variances[None, start:] - 2 * influences[rows] @ influences[start:].T
        difference = costs[rows, None] - costs[None, start:]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            distances = (difference / np.sqrt(np.maximum(variance, 0))).astype(np.float32)
        distances[(difference == 0) | np.isnan(distances)] = 0
        yield start, np.triu(distances, 1)


def _count_apart(
    blocks: list[tuple[int, NDArray[np.float32]]], count: int, threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The best and the worst rank of each of `count` values, where distances beyond the threshold tell them apart."""
    low, high = np.ones(count, dtype=np.int64), np.full(count, count)
    for start, distances in blocks:
        rows = slice(start, start + len(distances))
        worse, better = distances > threshold, distances < -threshold
        low[rows] += worse.sum(axis=1)
        high[rows] -= better.sum(axis=1)
        low[start:] += better.sum(axis=0)
        high[start:] -= worse.sum(axis=0)
    return low, high
