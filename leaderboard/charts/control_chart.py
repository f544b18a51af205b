"""The control chart: how far a scorer's scores of known texts had moved at each check, against what is let pass."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leaderboard.charts.figure import Axis, Chart, Ink, Key, Label, Line, Mark, Panel, Spot, Tick
from leaderboard.rankings.scales import round_up

HEIGHT, HEAD = 120, 14  # pixels of a panel, and over the first one for the numbers of versions
DECADES = 3  # below a bound; smaller differences, and 0, are drawn there
MOST_DATES = 6
SYMBOLS = {"stable": "circle", "changed": "triangle-up", "drifted": "diamond", "unavailable": "x"}
COLOURS = {"stable": Ink.QUIET, "changed": Ink.FIRST, "drifted": Ink.SECOND, "unavailable": Ink.INK}
WORDS = {"stable": "stable", "changed": "changed", "drifted": "drifted", "unavailable": "no answer"}


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """A check: its verdict, captions for the axis, all of it in words, and the version it watched.

    `values` and `bounds` are in the order of the panels, None where there is none.
    """

    verdict: str
    captions: tuple[str, ...]
    title: str
    version: int | None
    values: Sequence[float | None]
    bounds: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ControlPanel:
    """What is drawn, and what its bound is called. `counted`: whole numbers, on a scale from 0."""

    title: str
    bound: str
    counted: bool = False


def control_chart(name: str, panels: Sequence[ControlPanel], points: Sequence[ControlPoint], alternative: str) -> Chart:
    """Checks from left to right, the oldest first; a panel a quantity, with its bound as a dashed line.

    Verdicts differ by shape: circles are stable, triangles changed, diamonds drifted, crosses had no answer. A dotted
    line stands between checks of two versions, which have each a reference of their own.
    """
    changes = _find_changes(points)
    verdicts = {point.verdict for point in points}
    legend = [Key(WORDS[verdict], COLOURS[verdict], SYMBOLS[verdict]) for verdict in SYMBOLS if verdict in verdicts]
    legend.append(Key("limit, or what noise explains", Ink.SECOND, dash="dash"))
    plots = tuple(_plot(panel, points, row, changes, row == len(panels) - 1) for row, panel in enumerate(panels))
    return Chart(name, alternative, plots, tuple(legend))


def _plot(
    panel: ControlPanel, points: Sequence[ControlPoint], row: int, changes: list[tuple[int, int]], is_last: bool
) -> Panel:
    """The bound, the changes of version, and the checks; one without an answer stands low in the first panel."""
    axis, floor = _fit(panel, points, row)
    checks = [
        (place, point, max(floor, point.values[row] or 0))
        for place, point in enumerate(points)
        if point.values[row] is not None or (not row and _is_unanswered(point))
    ]
    marks: list[Mark] = [*_draw_bound(panel, points, row)]
    marks += [Line([place - 0.5] * 2, [axis.low, axis.high], Ink.INK, 1, "dot") for place, _ in changes if place]
    marks.append(Line([place for place, _, _ in checks], [value for _, _, value in checks], Ink.RULE, 1))
    for place, point, value in checks:
        size = 3.5 if point.verdict == "stable" else 5
        marks.append(Spot(place, value, SYMBOLS[point.verdict], COLOURS[point.verdict], size, point.title))
    if not row:
        marks += [Label(place - 0.45, axis.high, f"v{version}", dy=-8) for place, version in changes]
    dates = _mark_dates(points) if is_last else ()
    return Panel(Axis(-0.7, len(points) - 0.3, dates, grid=False), axis, tuple(marks), HEIGHT, head=0 if row else HEAD)


def _is_unanswered(point: ControlPoint) -> bool:
    return all(value is None for value in point.values)


def _draw_bound(panel: ControlPanel, points: Sequence[ControlPoint], row: int) -> Iterator[Line]:
    """The bound as steps half-way between checks, with a break where there was none."""
    x: list[float] = []
    y: list[float] = []
    for place, point in enumerate(points):
        limit = point.bounds[row]
        if limit is None:
            continue
        x += [place - 0.5, place + 0.5]
        y += [limit, limit]
    if x:
        yield Line(x, y, Ink.SECOND, 1.5, "dash", panel.bound)


def _fit(panel: ControlPanel, points: Sequence[ControlPoint], row: int) -> tuple[Axis, float]:
    """The axis of a panel, from the least that is drawn to a little above whatever is highest; and that least value.

    That is a thousandth of the least bound, on a scale of powers of ten; 0 of what is counted.
    """
    values = [value for point in points for value in (point.values[row], point.bounds[row]) if value is not None]
    most = max(values, default=1.0)
    if panel.counted:
        most = max(1.0, most)
        return Axis(-0.06 * most, 1.1 * most, _count(most), panel.title), 0.0
    bounds = [limit for point in points if (limit := point.bounds[row])]
    lowest = math.floor(math.log10(min(bounds, default=1e-4))) - DECADES
    highest = max(lowest + 1, math.ceil(math.log10(most))) if most > 0 else lowest + 1
    powers = range(lowest, highest + 1, 2 if highest - lowest > DECADES else 1)
    texts = [f"{10.0**power:g}" for power in powers]
    ticks = tuple(
        Tick(10.0**power, (f"≤{text}" if power == lowest else text,)) for power, text in zip(powers, texts, strict=True)
    )
    return Axis(10.0 ** (lowest - 0.2), 10.0 ** (highest + 0.1), ticks, panel.title, logarithmic=True), 10.0**lowest


def _count(most: float) -> tuple[Tick, ...]:
    """Marks at whole numbers from 0."""
    step = math.ceil(round_up(most / 3))
    return tuple(Tick(number, (f"{number:,}",)) for number in range(0, math.floor(most) + 1, step))


def _find_changes(points: Sequence[ControlPoint]) -> list[tuple[int, int]]:
    """The places at which checks of another version begin, with its number."""
    versions = [(place, point.version) for place, point in enumerate(points) if point.version is not None]
    first = [(place, version) for place, version in versions[:1]]
    return first + [(place, version) for (_, previous), (place, version) in pairwise(versions) if version != previous]


def _mark_dates(points: Sequence[ControlPoint]) -> tuple[Tick, ...]:
    """Some of the checks dated: they stand evenly, as many come in an hour and then none for a day."""
    every = max(1, math.ceil(len(points) / MOST_DATES))
    return tuple(Tick(place, points[place].captions) for place in range(0, len(points), every))
