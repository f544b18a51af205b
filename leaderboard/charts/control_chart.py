"""The control chart: how far a scorer's scores of known texts had moved at each check, against what is let pass."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leaderboard.charts.look import FIRST, INK, QUIET, RULE, SECOND, SMALL, Chart, Trace, figure_of, trace

PANEL, GAP, HEAD, FOOT = 120, 44, 44, 40  # pixels: a panel, between two, over the first, under the last
LEFT, RIGHT = 56, 16
STEP, LEAST = 11, 260  # pixels a check needs, and all of them at least
DECADES = 3  # below a bound; smaller differences, and 0, are drawn there
MOST_DATES = 6
SYMBOLS = {"stable": "circle", "changed": "triangle-up", "drifted": "diamond", "unavailable": "x"}
COLOURS = {"stable": QUIET, "changed": FIRST, "drifted": SECOND, "unavailable": INK}


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """A check: its verdict, a caption for the axis, what to say of it, and the version it watched.

    `values` and `bounds` are in the order of the panels, None where there is none.
    """

    verdict: str
    caption: str
    said: str
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
    inner = PANEL * len(panels) + GAP * (len(panels) - 1)
    traces: list[Trace] = []
    annotations: list[dict[str, Any]] = []
    axes: dict[str, dict[str, Any]] = {}
    for row, panel in enumerate(panels):
        top = 1 - row * (PANEL + GAP) / inner
        suffix = str(row + 1) if row else ""
        scale = _scale(panel, points, row)
        axes[f"yaxis{suffix}"] = scale | {"domain": [max(0.0, top - PANEL / inner), top], "gridcolor": RULE}
        traces += _panel(panel, points, row, f"y{suffix}", _floor(panel, points, row))
        annotations.append(_words(panel.title, 0.0, top, INK, "left"))
    changes = _changes(points)
    figure = figure_of(
        traces,
        xaxis=_dates(points) | {"anchor": f"y{len(panels)}" if len(panels) > 1 else "y"},
        margin={"l": LEFT, "r": RIGHT, "t": HEAD, "b": FOOT},
        shapes=[_mark(place) for place, _ in changes if place],
        annotations=annotations + [_version(place, version) for place, version in changes],
        **axes,
    )
    height = HEAD + inner + FOOT
    return Chart(name, figure, height, LEFT + RIGHT + max(LEAST, STEP * len(points)), alternative)


def _panel(panel: ControlPanel, points: Sequence[ControlPoint], row: int, axis: str, floor: float) -> list[Trace]:
    """The bound, and the checks; one without an answer stands on the floor of the first panel."""
    panel_points = [
        (place, point)
        for place, point in enumerate(points)
        if point.values[row] is not None or (not row and _no(point))
    ]
    bound_trace = trace(
        "scatter",
        x=list(range(len(points))),
        y=[point.bounds[row] for point in points],
        yaxis=axis,
        mode="lines",
        meta="bound",
        line={"color": SECOND, "width": 1.5, "dash": "dash", "shape": "hvh"},
        connectgaps=True,
        text=[panel.bound] * len(points),
        hovertemplate="%{text}: %{y}<extra></extra>",
    )
    checks = trace(
        "scatter",
        x=[place for place, _ in panel_points],
        y=[max(floor, point.values[row] or 0) for _, point in panel_points],
        yaxis=axis,
        mode="lines+markers",
        meta="checks",
        line={"color": RULE, "width": 1},
        marker={
            "symbol": [SYMBOLS[point.verdict] for _, point in panel_points],
            "color": [COLOURS[point.verdict] for _, point in panel_points],
            "opacity": 1,
            "size": [7 if point.verdict == "stable" else 10 for _, point in panel_points],
        },
        cliponaxis=False,
        text=[point.said for _, point in panel_points],
        hovertemplate="%{text}<extra></extra>",
    )
    return [bound_trace, checks]


def _no(point: ControlPoint) -> bool:
    """Whether a check had no answer."""
    return all(value is None for value in point.values)


def _floor(panel: ControlPanel, points: Sequence[ControlPoint], row: int) -> float:
    """The least that is drawn: a thousandth of the least bound, on a scale of powers of ten."""
    if panel.counted:
        return 0.0
    bounds = [limit for point in points if (limit := point.bounds[row])]
    return 10.0 ** (math.floor(math.log10(min(bounds, default=1e-4))) - DECADES)


def _scale(panel: ControlPanel, points: Sequence[ControlPoint], row: int) -> dict[str, Any]:
    """The axis of a panel, from its floor to a little above whatever is highest."""
    values = [value for point in points for value in (point.values[row], point.bounds[row]) if value is not None]
    most = max(values, default=1.0)
    if panel.counted:
        return {
            "range": [-0.06 * most, 1.1 * most],
            "nticks": 4,
            "tickformat": "d",
            "showgrid": True,
            "rangemode": "nonnegative",
        }
    lowest = round(math.log10(_floor(panel, points, row)))
    highest = max(lowest + 1, math.ceil(math.log10(most))) if most > 0 else lowest + 1
    ticks = list(range(lowest, highest + 1, 2 if highest - lowest > DECADES else 1))
    texts = [f"{10.0**power:g}" for power in ticks]
    return {
        "type": "log",
        "range": [lowest - 0.2, highest + 0.1],
        "tickvals": [10.0**power for power in ticks],
        "ticktext": [f"≤{texts[0]}", *texts[1:]],
        "showgrid": True,
    }


def _changes(points: Sequence[ControlPoint]) -> list[tuple[int, int]]:
    """The places at which checks of another version begin, with its number."""
    places: list[tuple[int, int]] = []
    for place, point in enumerate(points):
        if point.version is not None and (not places or places[-1][1] != point.version):
            places.append((place, point.version))
    return places


def _dates(points: Sequence[ControlPoint]) -> dict[str, Any]:
    """The axis of checks: evenly spaced, as many come in an hour and then none for a day; some of them dated."""
    every = max(1, math.ceil(len(points) / MOST_DATES))
    places = list(range(0, len(points), every))
    return {
        "range": [-0.7, len(points) - 0.3],
        "tickvals": places,
        "ticktext": [points[place].caption for place in places],
        "tickangle": 0,
    }


def _mark(place: int) -> dict[str, Any]:
    line = {"color": INK, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": place - 0.5, "x1": place - 0.5, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _version(place: int, version: int) -> dict[str, Any]:
    """The number of a version, over the first of its checks."""
    return _words(f"v{version}", place - 0.4, 1.0, INK, "left") | {"xref": "x", "yshift": 20}


def _words(text: str, x: float, y: float, colour: str, anchor: str) -> dict[str, Any]:
    place = {"x": x, "xref": "paper", "xanchor": anchor, "y": y, "yref": "paper", "yanchor": "bottom", "yshift": 2}
    return {**place, "text": text, "showarrow": False, "font": {"size": SMALL, "color": colour}}
