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


def rank_impact(old_values: Mapping[str, float], new_values: Mapping[str, float], direction: Direction) -> RankImpact:
    """Compare the rankings by two sets of values, by entry; entries that lack either are left out.

    Values after may be estimates from a sample of each entry's texts. Equal values share the better rank. Raises
    ValueError where a value is not finite.
    """
    entries = sorted(old_values.keys() & new_values.keys())
    values = np.array([[side[entry] for entry in entries] for side in (old_values, new_values)], dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values: one is not finite; leave out entries without a value")
    if not entries:
        return RankImpact(0, None, ())
    first, second = (competition_ranks(row, direction) for row in values)
    has_order = len(set(first.tolist())) > 1 and len(set(second.tolist())) > 1
    tau = float(scipy.stats.kendalltau(first, second).statistic) if has_order else None
    movers = np.flatnonzero(first != second)
    movers = movers[np.argsort(-np.abs(second - first)[movers], kind="stable")]
    moves = tuple(
        Move(entries[row], int(first[row]), int(second[row]), float(values[0, row]), float(values[1, row]))
        for row in movers
    )
    return RankImpact(len(entries), tau, moves)
