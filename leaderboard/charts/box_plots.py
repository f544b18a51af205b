"""Box plots: how the values of many models spread, a box a group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leaderboard.charts.figure import Axis, Block, Chart, Ink, Key, Line, Mark, Panel, Spot, Tick
from leaderboard.charts.ticks import UNLIMITED, Limits, fit_axis
from scoring.statistics.boxes import Box

ROW = 38  # pixels a group
HALF, CAP, TICK = 0.3, 0.14, 0.42  # of a row: half of a box, of the end of a whisker, and of a tick
MANY = 100  # models; where there are more, those within the whiskers are not drawn one by one
SYMBOLS = {"causal": "circle", "masked": "square", "permutation": "diamond"}
GOLDEN = 0.6180339887  # its multiples, whole parts left out, fill an interval evenly, and the same way each time


@dataclass(frozen=True, slots=True)
class BoxPoint:
    """A model in a group. link: its page."""

    name: str
    value: float
    kind: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class BoxColumn:
    """A group: what it is called, its five numbers, and of how many models they are.

    points: of these the ones to draw, by their position among the values, as of `drawn_positions`.
    indifferent: the median of what these models would have if they were indifferent, where each has a value of its own.
    """

    label: str
    box: Box
    count: int
    points: Mapping[int, BoxPoint]
    indifferent: float | None = None

    @property
    def outside(self) -> list[BoxPoint]:
        """The models beyond the whiskers."""
        return [self.points[position] for position in self.box.outside]


def drawn_positions(box: Box, count: int) -> Iterable[int]:
    """Which of the `count` models of a box are drawn as points: of many only those beyond the whiskers."""
    return range(count) if count <= MANY else box.outside


def box_plots(
    name: str,
    columns: Sequence[BoxColumn],
    title: str,
    digits: int,
    neutral: float | None,
    alternative: str,
    limits: Limits = UNLIMITED,
) -> Chart:
    """A box from quartile to quartile with the median in it, whiskers, and each model as a point that says its name.

    One row a group, as names of groups are long. title: of the axis of values. A dotted line at the `neutral` value,
    where there is one; else a dotted tick across each group that has an indifferent value. Points have the shape of the
    model's kind and are scattered over the height of the box, so that they do not hide one another. limits: the least
    and the largest value that there can be.
    """
    boxes = [column.box for column in columns]
    values = [point.value for column in columns for point in column.points.values()]
    values += [end for box in boxes for end in (box.low, box.high)]
    values += [tick for column in columns if (tick := column.indifferent) is not None]
    marks: list[Mark] = []
    if neutral is not None:
        values.append(neutral)
        marks.append(Line([neutral] * 2, [len(columns) - 0.5, -0.5], Ink.INK, 1, "dot"))
    for row, column in enumerate(columns):
        marks += _draw_box(column, row, digits)
    y = Axis(
        len(columns) - 0.5, -0.5, tuple(Tick(row, (column.label,)) for row, column in enumerate(columns)), grid=False
    )
    panel = Panel(fit_axis(values, title, limits), y, tuple(marks), ROW * len(columns))
    kinds = dict.fromkeys(point.kind for column in columns for point in column.points.values() if point.kind in SYMBOLS)
    legend = tuple(Key(f"{kind} models", Ink.FIRST, f"{SYMBOLS[kind]}-open") for kind in SYMBOLS if kind in kinds)
    return Chart(name, alternative, (panel,), legend if len(legend) > 1 else ())


def _draw_box(column: BoxColumn, row: int, digits: int) -> Iterator[Mark]:
    box = column.box
    for end, quartile in ((box.low, box.lower), (box.high, box.upper)):
        yield Line([end, quartile], [row] * 2, Ink.INK, 1.25)
        yield Line([end] * 2, [row - CAP, row + CAP], Ink.INK, 1.25)
    words = f"{column.label}: median {box.median:.{digits}f}, half of the models from {box.lower:.{digits}f} to "
    yield Block((box.lower, box.upper), (row - HALF, row + HALF), Ink.RAISED, Ink.INK, f"{words}{box.upper:.{digits}f}")
    yield Line([box.median] * 2, [row - HALF, row + HALF], Ink.INK, 3)
    if column.indifferent is not None:
        title = f"{column.label}: {column.indifferent:.{digits}f} if the models were indifferent"
        yield Line([column.indifferent] * 2, [row - TICK, row + TICK], Ink.INK, 2, "dot", title)
    positions_outside = set(box.outside)
    for position, point in column.points.items():
        yield _draw_model(point, column.label, row + _scatter(position), digits, position in positions_outside)


def _draw_model(point: BoxPoint, label: str, level: float, digits: int, is_outside: bool) -> Spot:
    symbol = SYMBOLS.get(point.kind, "circle") + ("" if is_outside else "-open")
    title = f"{point.name}, {label}: {point.value:.{digits}f}"
    ink, size = (Ink.INK, 4.0) if is_outside else (Ink.FIRST, 2.75)
    return Spot(point.value, level, symbol, ink, size, title, point.link)


def _scatter(position: int) -> float:
    """How far a point stands from the middle of its row."""
    return round((position * GOLDEN % 1 - 0.5) * 1.6 * HALF, 4)
