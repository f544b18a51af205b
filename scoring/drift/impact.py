"""What a change of scores does to a ranking."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from scoring.statistics.ranks import Direction, competition_ranks


@dataclass(frozen=True, slots=True)
class Move:
    """An entry whose rank differs; ranks as in `competition_ranks`, among the entries with both values."""

    entry: str
    from_rank: int
    to_rank: int
    from_value: float
    to_value: float


@dataclass(frozen=True, slots=True)
class RankImpact:
    """Kendall's tau-b of the two rankings of `n` entries, None where one of them has no order; what moves, farthest
    first."""

    n: int
    kendall_tau: float | None
    moves: tuple[Move, ...]


def rank_impact(before: Mapping[str, float], after: Mapping[str, float], direction: Direction) -> RankImpact:
    """Compare the rankings by two sets of values, by entry; entries that lack either are left out.

    Values after may be estimates from a sample of each entry's texts. Equal values share the better rank. Raises
    ValueError where a value is not finite.
    """
    entries = sorted(before.keys() & after.keys())
    values = np.array([[of[entry] for entry in entries] for of in (before, after)], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values: one is not finite; leave out entries without a value")
    if not entries:
        return RankImpact(0, None, ())
    first, second = (competition_ranks(row, direction) for row in values)
    ordered = len(set(first.tolist())) > 1 and len(set(second.tolist())) > 1
    tau = float(scipy.stats.kendalltau(first, second).statistic) if ordered else None
    moved = np.flatnonzero(first != second)
    moved = moved[np.argsort(-np.abs(second - first)[moved], kind="stable")]
    moves = tuple(
        Move(entries[row], int(first[row]), int(second[row]), float(values[0, row]), float(values[1, row]))
        for row in moved
    )
    return RankImpact(len(entries), tau, moves)
