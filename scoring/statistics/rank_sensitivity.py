"""How far a ranking depends on its judge: the ranks of the same entries under each of several scorers."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.ranks import Direction, competition_ranks

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankSensitivity:
    """The ranks [judges, entries] of the same entries under each judge, and how far the judges agree.

    lowest, highest: the best and the worst rank [entries]; median: the middle one. robust: the pairs of entries that
    every judge orders alike and strictly, of `pairs`. concordance: Kendall's W, from 0 (no agreement) to 1 (one order);
    None where there are not two entries and two judges, or a judge finds all entries equal.
    """

    ranks: NDArray[np.int64]
    robust: int
    pairs: int
    concordance: float | None

    @property
    def lowest(self) -> NDArray[np.int64]:
        """The best rank of each entry."""
        return np.asarray(self.ranks.min(axis=0), dtype=np.int64)

    @property
    def highest(self) -> NDArray[np.int64]:
        """The worst rank of each entry."""
        return np.asarray(self.ranks.max(axis=0), dtype=np.int64)

    @property
    def median(self) -> Array:
        """The median rank of each entry."""
        return np.asarray(np.median(self.ranks, axis=0), dtype=np.float64)


def rank_sensitivity(values: Array, direction: Direction) -> RankSensitivity:
    """Rank the finite `values` [judges, entries] under each judge. Raises ValueError for another shape or for NaN."""
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"values: their shape is {values.shape}; give finite numbers [judges, entries]")
    count = values.shape[1]
    first, second = np.triu_indices(count, 1)
    orders = np.sign(values[:, first] - values[:, second])
    robust = (orders == orders[:1]).all(axis=0) & (orders[0] != 0)
    ranks = np.stack([competition_ranks(row, direction) for row in values])
    return RankSensitivity(ranks, int(robust.sum()), len(first), kendall_w(values))


def kendall_w(values: Array) -> float | None:
    """Kendall's coefficient of concordance of the orders of `values` [judges, entries]; None where it does not exist.

    W = 12 S / (m² (n³ - n) - m T), with S the sum of squared deviations of the entries' rank sums, equal values sharing
    their mean rank, and T the sum of t³ - t over the groups of t equal values of all judges (Kendall & Babington Smith
    1939, Ann. Math. Stat. 10:275; Kendall 1948, Rank Correlation Methods, chapter 6, for ties).
    """
    judges, count = values.shape
    if judges < 2 or count < 2 or (np.ptp(values, axis=1) == 0).any():
        return None
    mean_ranks = scipy.stats.rankdata(values, axis=1)
    deviations = mean_ranks.sum(axis=0) - judges * (count + 1) / 2
    ties = sum(int((sizes**3 - sizes).sum()) for sizes in (np.unique(row, return_counts=True)[1] for row in values))
    return float(12 * (deviations**2).sum() / (judges**2 * (count**3 - count) - judges * ties))
