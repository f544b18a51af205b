"""The forest chart: values or differences with their intervals, one a line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leaderboard.charts.figure import Axis, Chart, Ink, Line, Mark, Panel, Spot, Tick
from leaderboard.charts.ticks import UNLIMITED, Limits, fit_axis

ROW, CAP, TICK = 36, 0.12, 0.35  # pixels a line; of a line: half of a whisker's end, and of a tick


@dataclass(frozen=True, slots=True)
class ForestLine:
    """One line: what it is of, its value and interval (None where there is none), and all of that in words.

    firm: drawn filled; else hollow, as what may be nothing. tick: where an indifferent model would be, if that is
    another place on each line.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    title: str
    firm: bool = True
    tick: float | None = None
    link: str = ""


def forest_chart(
    name: str,
    lines: Sequence[ForestLine],
    title: str,
    alternative: str,
    reference: float | None = None,
    limits: Limits = UNLIMITED,
) -> Chart:
    """Values with whiskers, the first on top, on an axis called `title`; `reference` is marked by a line.

    Filled points stand for what is firm and hollow ones for what is not: shape and fill say it, and colour repeats it.
    limits: the least and the largest value that there can be.
    """
    values = [line.value for line in lines]
    ends = [end for line in lines for end in (line.low, line.high, line.tick, reference) if end is not None]
    marks: list[Mark] = []
    if reference is not None:
        marks.append(Line([reference] * 2, [len(lines) - 0.5, -0.5], Ink.INK, 1, "dot"))
    for place, line in enumerate(lines):
        marks += _draw_line(line, place)
    rows = tuple(Tick(place, tuple(line.label.split("\n")), link=line.link) for place, line in enumerate(lines))
    y = Axis(len(lines) - 0.5, -0.5, rows, grid=False)
    x = fit_axis([*values, *ends], title, limits)
    return Chart(name, alternative, (Panel(x, y, tuple(marks), ROW * len(lines)),))


def _draw_line(line: ForestLine, place: int) -> Iterator[Mark]:
    colour = Ink.FIRST if line.firm else Ink.QUIET
    if line.low is not None and line.high is not None:
        yield Line([line.low, line.high], [place] * 2, colour, 2, title=line.title)
        for end in (line.low, line.high):
            yield Line([end] * 2, [place - CAP, place + CAP], colour, 2)
    if line.tick is not None:
        yield Line([line.tick] * 2, [place - TICK, place + TICK], Ink.INK, 2, "dot", "If it were indifferent")
    symbol = "square" if line.firm else "square-open"
    yield Spot(line.value, place, symbol, colour, 5, line.title, line.link)
