"""The order of entries under the old scorer, under its successor, and under the successor mapped to the old scale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.correlations import Correlation, kendall
from scoring.statistics.ranks import Direction, competition_ranks

Array = NDArray[np.float64]
Signs = NDArray[np.int8]
Pairs = frozenset[tuple[int, int]]  # positions of two entries, the one that is ahead under the old scorer first


@dataclass(frozen=True, slots=True)
class ScorerValue:
    """A measure's value of an entry under one scorer, with its 95% interval where that is known."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class EntryValues:
    """An entry's value under the old scorer, the successor, and the successor mapped; None without a mapping."""

    name: str
    old: ScorerValue
    new: ScorerValue
    mapped: ScorerValue | None

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The entry as JSON held it: of `asdict`."""
        return cls(content["name"], *(content[key] and ScorerValue(**content[key]) for key in ("old", "new", "mapped")))


@dataclass(frozen=True, slots=True)
class ReversedPair:
    """Two entries whose order the successor reverses, by itself or after the mapping.

    `ahead` is better under the old scorer. Differences are the value of `behind` minus that of `ahead`. settled: the
    intervals of both lie apart under the old scorer; settled_new, settled_mapped: under the others. by_new, by_mapped:
    which of them reverses the order. impossible: no monotone mapping of the successor's scores can give the old order.
    """

    ahead: str
    behind: str
    old_difference: float
    new_difference: float
    mapped_difference: float | None
    settled: bool
    settled_new: bool
    settled_mapped: bool
    by_new: bool
    by_mapped: bool
    impossible: bool

    def as_json(self) -> dict[str, Any]:
        """The pair as values that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class OrderComparison:
    """The ranks of entries under the three, in the order of the entries, and how far the orders agree.

    pairs: of different value under the old scorer; settled_pairs: of intervals apart. reversals count pairs in the
    opposite order, settled ones and all. mapped_*: None without a mapping. impossible: reversed pairs whose old order
    no monotone mapping can give.
    """

    old_ranks: tuple[int, ...]
    new_ranks: tuple[int, ...]
    mapped_ranks: tuple[int, ...] | None
    new_tau: Correlation
    mapped_tau: Correlation | None
    pairs: int
    settled_pairs: int
    new_reversals: int
    new_settled_reversals: int
    mapped_reversals: int | None
    mapped_settled_reversals: int | None
    impossible: int

    def as_json(self) -> dict[str, Any]:
        """The comparison as values that JSON can hold."""
        return asdict(self)


def compare_orders(
    entries: Sequence[EntryValues], direction: Direction, impossible: Pairs = frozenset()
) -> OrderComparison:
    """The ranks of `entries` under the three, and how many pairs change their order. direction: which is better.

    impossible: of `dominated_pairs`.
    """
    old, new = ([getattr(entry, name).value for entry in entries] for name in ("old", "new"))
    mapped_values = values_after_mapping(entries)
    board = _Orders(entries, direction)
    settled_pairs = np.triu(np.abs(board.settled["old"]), 1) > 0
    reversals = {name: np.triu(board.signs["old"] * signs, 1) < 0 for name, signs in board.signs.items()}
    ranks = [tuple(competition_ranks(np.array(values), direction).tolist()) for values in (old, new)]
    has_mapping = mapped_values is not None
    return OrderComparison(
        ranks[0],
        ranks[1],
        tuple(competition_ranks(mapped_values, direction).tolist()) if mapped_values is not None else None,
        new_tau=kendall(np.array(old), np.array(new)),
        mapped_tau=kendall(np.array(old), mapped_values) if mapped_values is not None else None,
        pairs=int((np.triu(board.signs["old"], 1) != 0).sum()),
        settled_pairs=int(settled_pairs.sum()),
        new_reversals=int(reversals["new"].sum()),
        new_settled_reversals=int((reversals["new"] & settled_pairs).sum()),
        mapped_reversals=int(reversals["mapped"].sum()) if has_mapping else None,
        mapped_settled_reversals=int((reversals["mapped"] & settled_pairs).sum()) if has_mapping else None,
        impossible=len(impossible),
    )


def find_reversals(
    entries: Sequence[EntryValues], direction: Direction, impossible: Pairs = frozenset()
) -> Iterator[ReversedPair]:
    """The pairs whose order the successor reverses, by itself or mapped: settled ones first, then by old difference."""
    board = _Orders(entries, direction)
    signs = board.signs
    is_reversed = {name: signs["old"] * signs[name] < 0 for name in ("new", "mapped")}
    leaders, followers = np.nonzero((signs["old"] > 0) & (is_reversed["new"] | is_reversed["mapped"]))
    distances = np.abs(board.values["old"][followers] - board.values["old"][leaders])
    for place in np.lexsort((-distances, board.settled["old"][leaders, followers] == 0)):
        pair = int(leaders[place]), int(followers[place])
        first, second = (entries[number] for number in pair)
        yield ReversedPair(
            first.name,
            second.name,
            second.old.value - first.old.value,
            second.new.value - first.new.value,
            second.mapped.value - first.mapped.value if first.mapped and second.mapped else None,
            settled=bool(board.settled["old"][pair]),
            settled_new=bool(board.settled["new"][pair]),
            settled_mapped=bool(board.settled["mapped"][pair]),
            by_new=bool(is_reversed["new"][pair]),
            by_mapped=bool(is_reversed["mapped"][pair]),
            impossible=pair in impossible,
        )


def values_after_mapping(entries: Sequence[EntryValues]) -> Array | None:
    """The mapped values [n]; None where the entries have none."""
    values = [entry.mapped.value for entry in entries if entry.mapped]
    return np.array(values) if values and len(values) == len(entries) else None


class _Orders:
    """Which entry is ahead of which, [n, n] of -1, 0 and 1 under each of the three; settled: where intervals are apart.

    Without a mapping, and without an interval, nothing is ahead.
    """

    def __init__(self, entries: Sequence[EntryValues], direction: Direction) -> None:
        better = 1 if direction == "higher" else -1
        nothing = ScorerValue(np.nan, None, None)
        self.values: dict[str, Array] = {}
        self.signs: dict[str, Signs] = {}
        self.settled: dict[str, Signs] = {}
        for name in ("old", "new", "mapped"):
            sides = [getattr(entry, name) or nothing for entry in entries]
            value, low, high = (
                np.array([np.nan if end is None else end for end in ends], dtype=np.float64)
                for ends in ([getattr(side, part) for side in sides] for part in ("value", "low", "high"))
            )
            self.values[name] = value
            self.signs[name] = (better * _compare(value, value)).astype(np.int8)
            is_above = (low[:, None] > high[None, :]).astype(np.int8)
            self.settled[name] = (better * (is_above - is_above.T)).astype(np.int8)


def _compare(first: Array, second: Array) -> Signs:
    """The sign of each first value minus each second one, [n, m]; 0 where one is missing."""
    return (first[:, None] > second[None, :]).astype(np.int8) - (first[:, None] < second[None, :]).astype(np.int8)


def exceedance(scores: NDArray[np.floating[Any]], grid: Array) -> Array:
    """The share of scores [n] above each point of `grid`, ascending; scores that are NaN are left out."""
    sorted_scores = np.sort(scores[~np.isnan(scores)])
    return 1 - np.searchsorted(sorted_scores, grid, side="right") / max(1, len(sorted_scores))


def dominated_pairs(entries: Sequence[EntryValues], direction: Direction, curves: Mapping[str, Array]) -> Pairs:
    """The pairs whose old order no monotone mapping of the successor's scores can give.

    curves: `exceedance` of the successor's scores of each entry, by name, on one grid. Where the scores of one entry
    exceed every point of the grid at least as often as those of another, and one of them more often, then so does the
    mean of any non-decreasing function of them that rises at these points (first-order stochastic dominance; Hadar &
    Russell 1969, Am. Econ. Rev. 59:25). So the pair keeps that order whatever the mapping, or becomes a tie.
    """
    board = _Orders(entries, direction)
    rows = np.array([curves[entry.name] for entry in entries])
    pairs = set()
    for leader, follower in zip(*np.nonzero((board.signs["old"] > 0) & (board.signs["new"] < 0)), strict=True):
        differences = rows[leader] - rows[follower] if direction == "lower" else rows[follower] - rows[leader]
        if differences.min() >= 0 and differences.max() > 0:
            pairs.add((int(leader), int(follower)))
    return frozenset(pairs)
