"""What changed between two boards of the same models: ranks, values, and how far the two orders agree."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.correlations import Correlation, kendall, spearman
from scoring.statistics.ranks import Direction, competition_ranks

Array = NDArray[np.float64]
TieRule = Literal["equal", "first"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A model's value on a board; `rank` where the source gives exact ranks beside rounded values.

    source_name: what its source calls the model, where that is another name; equal values are ordered by it.
    """

    value: float
    rank: int | None = None
    source_name: str = ""


@dataclass(frozen=True, slots=True)
class ModelChange:
    """A model that is on both boards.

    `from_rank` and `to_rank` count only models on both boards, so that neither a model on one board alone nor a gap in
    the ranks that a source prints moves another. `from_board_rank` and `to_board_rank` are the ranks that the whole
    boards show. If the boards have the same models and their ranks no gaps, both pairs agree.
    """

    model: str
    from_rank: int
    to_rank: int
    from_value: float
    to_value: float
    from_board_rank: int
    to_board_rank: int

    @property
    def change(self) -> int:
        """Ranks gained: positive for a model that rose."""
        return self.from_rank - self.to_rank

    @property
    def difference(self) -> float:
        """The new value minus the old one."""
        return self.to_value - self.from_value


@dataclass(frozen=True, slots=True)
class ModelApart:
    """A model that is on one of the boards only, with its rank there."""

    model: str
    rank: int
    value: float


@dataclass(frozen=True)
class RankChanges:
    """The record of what changed from one board to another.

    `models` are those on both boards, by new rank and then by name. `changed_values` counts values that differ when
    printed with `decimals` digits, or at all where that is None; differences are of the values as given.
    """

    direction: Direction
    tie_rule: TieRule
    decimals: int | None
    models: tuple[ModelChange, ...]
    only_before: tuple[ModelApart, ...]
    only_after: tuple[ModelApart, ...]
    orders: tuple[Array, Array] = field(repr=False, compare=False)  # of the models on both boards: lower is better

    @cached_property
    def kendall(self) -> Correlation:
        """Kendall's tau-b of the two orders, computed when somebody reads it: most pages show moves alone."""
        return _compare_orders(kendall, *(order.tobytes() for order in self.orders))

    @cached_property
    def spearman(self) -> Correlation:
        """Spearman's rho of the two orders."""
        return _compare_orders(spearman, *(order.tobytes() for order in self.orders))

    @cached_property
    def share_alike(self) -> float | None:
        """The share of pairs of models of which both orders say the same: which is better, or neither.

        From Kendall's tau-b (C - D) / sqrt((n - a) (n - b)) of n pairs, of which a and b are tied in an order and c in
        both: C of the others are ordered alike, D not, and C + D = n - a - b + c. None without a tau.
        """
        if self.kendall.value is None:
            return None
        pairs = math.comb(len(self.models), 2)
        first, second, both = (
            int(sum(math.comb(count, 2) for count in np.unique(orders, axis=1, return_counts=True)[1].tolist()))
            for orders in (self.orders[0][None], self.orders[1][None], np.array(self.orders))
        )
        excess = self.kendall.value * math.sqrt((pairs - first) * (pairs - second))
        return (round((pairs - first - second + both + excess) / 2) + both) / pairs

    @property
    def changed_ranks(self) -> int:
        """The number of models whose rank among the models of both boards differs."""
        return sum(model.change != 0 for model in self.models)

    @property
    def changed_values(self) -> int:
        """The number of models whose value differs at `decimals` digits."""
        return sum(
            _as_printed(model.from_value, self.decimals) != _as_printed(model.to_value, self.decimals)
            for model in self.models
        )

    @property
    def mean_abs_difference(self) -> float | None:
        """Mean over models of the absolute difference of their values; None without a model on both boards."""
        if not self.models:
            return None
        return math.fsum(abs(model.difference) for model in self.models) / len(self.models)

    @property
    def largest_difference(self) -> ModelChange | None:
        """The model whose value changed most, ties going to the first by name; None without a model on both boards."""
        return min(self.models, key=lambda model: (-abs(model.difference), model.model), default=None)

    def as_json(self) -> dict[str, Any]:
        """The record as values that JSON can hold. `change` is positive for a model that rose."""
        largest = self.largest_difference
        return {
            "n_models": len(self.models),
            "changed_ranks": self.changed_ranks,
            "changed_values": self.changed_values,
            "mean_abs_difference": self.mean_abs_difference,
            "largest_difference": largest and {"model": largest.model, "difference": largest.difference},
            "kendall_tau": self.kendall.value,
            "kendall_tau_interval": self.kendall.interval,
            "spearman": self.spearman.value,
            "spearman_interval": self.spearman.interval,
            "direction": self.direction,
            "tie_rule": self.tie_rule,
            "decimals": self.decimals,
            "models": [
                asdict(model) | {"change": model.change, "difference": model.difference} for model in self.models
            ],
            "only_before": [asdict(model) for model in self.only_before],
            "only_after": [asdict(model) for model in self.only_after],
        }


def rank_changes(
    old_board: Mapping[str, Entry],
    new_board: Mapping[str, Entry],
    direction: Direction,
    tie_rule: TieRule = "equal",
    decimals: int | None = None,
) -> RankChanges:
    """Compare two boards, each a mapping from the model's name to its entry.

    direction: which values are better.
    tie_rule: "equal" gives equal values the same rank, as everywhere on the board; "first" orders them by name (that
      of the source, in code points), as Pozzobon et al. 2023 did by pandas' rank(method="first"). A board that carries
      ranks has these under either rule.
    decimals: the number of digits that the values were printed with; it decides which values count as changed. None
      where the values are exact.

    The correlations compare the orders before ties are broken by name: the ranks that a board carries, else its
    values. Both treat pairs tied on a board as ties (tau-b; mean ranks). Raises ValueError for a value that is not
    finite, a rank below 1, a board with ranks for some models only, and an unknown direction or tie rule.
    """
    for name, option, allowed_options in (("direction", direction, Direction), ("tie_rule", tie_rule, TieRule)):
        if option not in get_args(allowed_options):
            raise ValueError(f"{name} = {option!r}: use one of {', '.join(get_args(allowed_options))}")
    _check("before", old_board)
    _check("after", new_board)
    places = [_board_ranks(board, direction, tie_rule) for board in (old_board, new_board)]
    common = sorted(old_board.keys() & new_board.keys())
    models_apart = [
        tuple(
            ModelApart(name, rank, board[name].value)
            for name, rank in sorted(ranks.items(), key=lambda item: (item[1], item[0]))
            if name not in other_board
        )
        for board, other_board, ranks in ((old_board, new_board, places[0]), (new_board, old_board, places[1]))
    ]
    common_ranks = [_ranks_among(common, ranks) for ranks in places]
    models = [
        ModelChange(name, first, second, old_board[name].value, new_board[name].value, places[0][name], places[1][name])
        for name, first, second in zip(common, *common_ranks, strict=True)
    ]
    old_order, new_order = (_order([board[name] for name in common], direction) for board in (old_board, new_board))
    return RankChanges(
        direction,
        tie_rule,
        decimals,
        tuple(sorted(models, key=lambda model: model.to_rank)),  # stable: then by name
        models_apart[0],
        models_apart[1],
        (old_order, new_order),
    )


@lru_cache(maxsize=64)
def _compare_orders(coefficient: Callable[[Array, Array], Correlation], first: bytes, second: bytes) -> Correlation:
    """The coefficient of two orders of float64, remembered: many pages show that of the same two versions."""
    return coefficient(np.frombuffer(first), np.frombuffer(second))


def _check(board_name: str, board: Mapping[str, Entry]) -> None:
    for name, entry in board.items():
        if not math.isfinite(entry.value):
            raise ValueError(f"{board_name}: the value of {name} is {entry.value}; leave out a model without a value")
        if entry.rank is not None and entry.rank < 1:
            raise ValueError(f"{board_name}: the rank of {name} is {entry.rank}; ranks begin at 1")
    unranked_names = sorted(name for name, entry in board.items() if entry.rank is None)
    if unranked_names and len(unranked_names) < len(board):
        raise ValueError(
            f"{board_name}: {unranked_names[0]} has no rank and others have one; give all of a board's ranks, or none"
        )


def _order(entries: list[Entry], direction: Direction) -> Array:
    """Numbers [models] that are lower for better models: the ranks that the board carries, else its signed values."""
    ranks = [entry.rank for entry in entries if entry.rank is not None]
    if ranks:
        return np.array(ranks, dtype=np.float64)
    values = np.array([entry.value for entry in entries], dtype=np.float64)
    return -values if direction == "higher" else values


def _board_ranks(board: Mapping[str, Entry], direction: Direction, tie_rule: TieRule) -> dict[str, int]:
    """The rank of each model on the whole board."""
    own_ranks = {name: entry.rank for name, entry in board.items() if entry.rank is not None}
    if own_ranks:
        return own_ranks
    names = sorted(board, key=lambda name: board[name].source_name or name)
    order = _order([board[name] for name in names], direction)
    board_ranks = (
        competition_ranks(order, "lower") if tie_rule == "equal" else scipy.stats.rankdata(order, method="ordinal")
    )
    return dict(zip(names, (int(rank) for rank in board_ranks), strict=True))


def _ranks_among(common: list[str], ranks: Mapping[str, int]) -> list[int]:
    """Ranks of the `common` models among themselves: 1 and the number of those ahead."""
    common_ranks = sorted(ranks[name] for name in common)
    return [1 + bisect_left(common_ranks, ranks[name]) for name in common]


def _as_printed(value: float, decimals: int | None) -> float:
    return value if decimals is None else round(value, decimals)
