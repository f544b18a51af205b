"""The bump chart: ranks over the versions of a metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy

from leaderboard.charts.figure import Axis, Chart, Ink, Line, Mark, Panel, Ribbon, Spot, Tick

ROW, CLOSE_ROW, MANY_ROWS = 20, 16, 40  # pixels a name needs; where there are more than MANY_ROWS, CLOSE_ROW
LEAST_HEIGHT = 160  # pixels
LEAD = 0.07  # of the width of all columns: from a point to its name
FEW_COLUMNS, FEW_LINES = 3, 12  # all lines are in colour where there are no more of either
LEADERS = 3  # lines in colour at the top of many, and as many that moved most
FEW_WIDE = 4  # columns that a chart of usual width has room for


@dataclass(frozen=True)
class BumpLine:
    """A model's ranks, one a column, None where it has none.

    moves: ranks gained from each column to the next among the models of both, None where it is not on both. ranges: the
    ranks that cannot be excluded, a pair a column, None where nothing is known. link: the page of the model.
    """

    key: str
    name: str
    ranks: Sequence[int | None]
    moves: Sequence[int | None]
    ranges: Sequence[tuple[int, int] | None] = ()
    link: str = ""

    @cached_property
    def last(self) -> int:
        """The last column that has a rank of it."""
        return max(number for number, rank in enumerate(self.ranks) if rank is not None)

    @property
    def distance(self) -> int:
        """All ranks gained and lost."""
        return sum(abs(move or 0) for move in self.moves)


@dataclass(frozen=True, slots=True)
class BumpColumn:
    """A version: its number, what stands under it (its date, and why it was opened), and whom its ranks are among.

    among: as in "5 causal models". title: what it is called where it is no version. renewed: whether another scorer
    judges from here on.
    """

    number: int
    captions: tuple[str, ...]
    among: str = ""
    title: str = ""
    renewed: bool = False

    @property
    def words(self) -> str:
        """What the ranks are under, as in "version 2"."""
        return f"“{self.title}”" if self.title else f"version {self.number}"


def bump_chart(
    name: str, columns: Sequence[BumpColumn], lines: Sequence[BumpLine], alternative: str, front: str = ""
) -> Chart:
    """Ranks over versions, the best on top; a line a model, with names at both ends that lead to its page.

    Each stretch of a line is coloured by the movement between its two versions, and its point has the shape of it:
    upwards, downwards, or a circle; a cross ends a line that later versions do not go on with. Of many lines over many
    versions only `focus_lines` are coloured. The ranks that cannot be excluded are shaded, of as many as that stays
    legible for. Points stand at ranks as they are, so models of equal rank share one; their names are spread.

    front: the key of a line to draw in front.
    """
    panel = _draw_board(columns, lines, front)
    return Chart(name, alternative, (panel,), long_names=len(columns) > FEW_WIDE)


def bump_charts(
    name: str, columns: Sequence[BumpColumn], boards: Mapping[str, Sequence[BumpLine]], alternative: str
) -> Chart:
    """Small multiples: a bump chart as of `bump_chart` for each board, one under another, called by its key.

    All have the same columns; each ranks lines of its own.
    """
    panels = tuple(_draw_board(columns, lines, title=title) for title, lines in boards.items())
    return Chart(name, alternative, panels, long_names=len(columns) > FEW_WIDE)


def _draw_board(columns: Sequence[BumpColumn], lines: Sequence[BumpLine], front: str = "", title: str = "") -> Panel:
    """The panel of a bump chart."""
    ranks = [rank for line in lines for rank in line.ranks if rank is not None]
    top, bottom = min(ranks, default=1), max(ranks, default=1)
    rows = min(bottom - top + 1, 2 * len(lines))
    row = ROW if rows <= MANY_ROWS else CLOSE_ROW
    height = max(LEAST_HEIGHT, row * rows, row * len(lines))
    gap = row * (bottom - top + 1) / height  # in ranks: how far apart two names must be
    lead = LEAD * max(1, len(columns) - 1)
    focus = focus_lines(lines, len(columns), front)
    ends = [_place_names(lines, end, gap, (top, bottom)) for end in (0, len(columns) - 1)]
    marks: list[Mark] = [*_mark_renewals(columns, (top, bottom))]
    marks += _lead_names(ends, len(columns) - 1, lead)
    in_order = sorted(lines, key=lambda line: (line.key in focus, line.key == front))
    ranged_lines = [line for line in lines if line.key == front] or [line for line in lines if line.key in focus][
        :LEADERS
    ]
    for line in ranged_lines:
        marks += _shade_ranges(line)
    for line in in_order:
        marks += _draw_line(line, columns, line.key in focus, line.key == front)
    x = Axis(-lead, len(columns) - 1 + lead, tuple(map(_head, range(len(columns)), columns)), on_top=True, upright=True)
    left_ticks, right_ticks = (
        tuple(Tick(slot, (line.name,), str(rank), line.key == front, line.link, line.key) for line, rank, slot in names)
        for names in ends
    )
    y = Axis(bottom + 0.75 * gap, top - 0.75 * gap, left_ticks, title, grid=False)
    return Panel(x, y, tuple(marks), height, right_ticks)


def focus_lines(lines: Sequence[BumpLine], columns: int, front: str = "") -> set[str]:
    """The keys of the lines in colour: all of few; else those that lead, that moved most, and the one in front."""
    if columns <= FEW_COLUMNS or len(lines) <= FEW_LINES:
        return {line.key for line in lines}
    leaders = lines[:LEADERS]
    movers = sorted(lines, key=lambda line: -line.distance)[:LEADERS]
    return {front, *(line.key for line in (*leaders, *movers))}


def spread(targets: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart within low..high, the nearest to `targets` (ascending) by least squares.

    Where low..high cannot hold them all they are evenly closer.
    """
    if len(targets) < 2:
        return list(targets)
    steps = np.arange(len(targets)) * min(gap, (high - low) / (len(targets) - 1))
    # Less their steps, places at least a gap apart are places that ascend.
    free = scipy.optimize.isotonic_regression(np.asarray(targets, dtype=np.float64) - steps).x
    places: list[float] = (np.clip(free, low, high - steps[-1]) + steps).round(4).tolist()
    return places


def _head(place: int, column: BumpColumn) -> Tick:
    return Tick(place, (str(column.number), *column.captions), strong=True)


def _draw_line(line: BumpLine, columns: Sequence[BumpColumn], in_focus: bool, is_chosen: bool) -> Iterator[Mark]:
    """The stretches of a line, those of one colour joined, and over them its points."""
    width = 3.5 if is_chosen else 2.0 if in_focus else 1.0
    places: list[tuple[int, int]] = []
    colour = Ink.FAINT
    for (start, first), (end, second) in pairwise(enumerate(line.ranks)):
        if first is None or second is None:
            yield from _join(places, colour, width, line.key)
            places = []
            continue
        stretch = _colour(line.moves[start]) if in_focus else Ink.FAINT
        if places and stretch != colour:
            yield from _join(places, colour, width, line.key)
            places = []
        colour, places = stretch, [*(places or [(start, first)]), (end, second)]
    yield from _join(places, colour, width, line.key)
    for number, rank in enumerate(line.ranks):
        if rank is not None:
            yield _draw_rank(line, number, rank, columns, in_focus)


def _join(places: Sequence[tuple[int, int]], colour: Ink, width: float, key: str) -> Iterator[Line]:
    if len(places) > 1:
        yield Line([x for x, _ in places], [y for _, y in places], colour, width, key=key)


def _draw_rank(line: BumpLine, number: int, rank: int, columns: Sequence[BumpColumn], in_focus: bool) -> Spot:
    move = line.moves[number - 1] if number else None
    symbol = "circle" if not move or not in_focus else "triangle-up" if move > 0 else "triangle-down"
    if number == line.last < len(columns) - 1:
        symbol = "x"
    colour = _colour(move) if in_focus else Ink.FAINT
    title = describe_rank(line, number, columns)
    return Spot(number, rank, symbol, colour, 4.0 if in_focus else 2.0, title, line.link, line.key)


def _colour(move: int | None) -> Ink:
    return Ink.QUIET if not move else Ink.FIRST if move > 0 else Ink.SECOND


def describe_rank(line: BumpLine, number: int, columns: Sequence[BumpColumn]) -> str:
    """A rank in words, with those that cannot be excluded and how it moved."""
    column = columns[number]
    words = (
        f"{line.name}: rank {line.ranks[number]}{f' of {column.among}' if column.among else ''} under {column.words}"
    )
    limits = line.ranges[number] if line.ranges else None
    if limits and limits[0] != limits[1]:
        words += f", anywhere from {limits[0]} to {limits[1]}"
    move = line.moves[number - 1] if number else None
    return f"{words}; {'up' if move > 0 else 'down'} {abs(move)}" if move else words


def _shade_ranges(line: BumpLine) -> Iterator[Ribbon]:
    """The ranks that cannot be excluded, between neighbouring columns that both know them."""
    for (start, first), (end, second) in pairwise(enumerate(line.ranges)):
        if first and second:
            yield Ribbon([start, end], [first[1], second[1]], [first[0], second[0]], Ink.QUIET, 0.14, line.key)


def _place_names(
    lines: Sequence[BumpLine], end: int, gap: float, limits: tuple[int, int]
) -> list[tuple[BumpLine, int, float]]:
    """The lines with a rank in column `end`, that rank, and where their name stands."""
    ranks = [(rank, line) for line in lines if (rank := line.ranks[end]) is not None]
    ranks.sort(key=lambda pair: (pair[0], pair[1].name))
    slots = spread([rank for rank, _ in ranks], gap, limits[0], limits[1])
    return [(line, rank, slot) for (rank, line), slot in zip(ranks, slots, strict=True)]


def _lead_names(ends: Sequence[list[tuple[BumpLine, int, float]]], last: int, lead: float) -> Iterator[Line]:
    """From the first and last points to the names."""
    for names, place, edge in zip(ends, (0, last), (-lead, last + lead), strict=True):
        for line, rank, slot in names:
            yield Line([place, edge], [rank, slot], Ink.RULE, 1, key=line.key)


def _mark_renewals(columns: Sequence[BumpColumn], limits: tuple[int, int]) -> Iterator[Line]:
    """A dotted line before each column from which another scorer judges."""
    for number, column in enumerate(columns):
        if column.renewed:
            yield Line([number - 0.5] * 2, list(limits), Ink.INK, 1, "dot")
