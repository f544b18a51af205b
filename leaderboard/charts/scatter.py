"""Scatter charts: models as points, each family by a symbol of its own, alone or in panels side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from leaderboard.charts.look import FIRST, INK, LINE, QUIET, RULE, SECOND, SMALL, Chart, figure_of, short
from leaderboard.charts.names import place_names
from scoring.statistics.regression import RegressionLine

SYMBOLS = [
    f"{shape}{fill}"
    for fill in ("", "-open")
    for shape in (
        "circle",
        "square",
        "diamond",
        "triangle-up",
        "cross",
        "x",
        "star",
        "triangle-down",
        "pentagon",
        "bowtie",
        "hourglass",
        "hexagram",
    )
]
COLOURS = (FIRST, SECOND, QUIET)
MOST_GROUPS = len(SYMBOLS)  # which can be told apart
PLOT, LEAST_WIDTH, PANEL = 360, 300, 240  # pixels: height of the plot; width of a chart and of a panel at least
NAMED_WIDTH = 440  # pixels of a plot in which names stand; narrower ones leave them out (static/charts.js)
LEGEND_COLUMNS, LEGEND_ROW = 3, 20
GAP = 0.07  # between panels, of the chart's width


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one group, drawn by one symbol.

    joined: whether a line leads from one to the next. small: of many points.
    said: shown at a point that is pointed at. names: written beside the points where there is room; empty for none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    said: Sequence[str]
    joined: bool = False
    names: Sequence[str] = ()
    small: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: what its axis is called and what stands in it. ticks: where the axis is marked, None where it may."""

    title: str
    series: Sequence[Series]
    logarithmic: bool = False
    ticks: Sequence[float] | None = None
    line: RegressionLine | None = None


def scatter_chart(name: str, panels: Sequence[Panel], title: str, alternative: str) -> Chart:
    """Panels side by side on one vertical axis called `title`; a group has the same symbol in each.

    A regression line comes with the band that it lies in.
    """
    groups = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    legend_names: set[str] = set()
    traces: list[Any] = []
    for number, panel in enumerate(panels):
        axis = "x" if number == 0 else f"x{number + 1}"
        band, lines = _line(panel, axis)
        traces += band
        names = _names(panel)
        for place, series in enumerate(panel.series):
            trace = _points(series, axis, groups.index(series.name), series.name not in legend_names)
            traces.append(trace | names.get(place, {}))
            legend_names.add(series.name)
        traces += lines
    rows = -(-len(groups) // LEGEND_COLUMNS)
    legend_height = 52 + LEGEND_ROW * rows
    figure = figure_of(
        traces,
        **_axes(panels),
        yaxis={"title": {"text": title, "font": {"size": SMALL}}, "showgrid": True, "gridcolor": RULE, "nticks": 7},
        margin={"l": 60, "r": 12, "t": 8, "b": legend_height},
        legend={
            "orientation": "h",
            "x": 0,
            "y": -52 / PLOT,
            "yanchor": "top",
            "font": {"size": SMALL},
            "itemclick": False,
            "itemdoubleclick": False,
        },
    )
    figure["layout"]["showlegend"] = len(groups) > 1
    return Chart(name, figure, PLOT + legend_height + LINE, max(LEAST_WIDTH, 72 + PANEL * len(panels)), alternative)


def _axes(panels: Sequence[Panel]) -> dict[str, Any]:
    """The horizontal axes, each with its share of the width."""
    width = (1 - GAP * (len(panels) - 1)) / len(panels)
    axes = {}
    for number, panel in enumerate(panels):
        start = number * (width + GAP)
        key = "xaxis" if number == 0 else f"xaxis{number + 1}"
        axes[key] = _axis(panel) | {"domain": [round(start, 4), round(min(1, start + width), 4)], "anchor": "y"}
    return axes


def _axis(panel: Panel) -> dict[str, Any]:
    """The horizontal axis of a panel."""
    axis = {
        "title": {"text": escape(panel.title), "font": {"size": SMALL}},
        "tickfont": {"size": SMALL},
        "fixedrange": True,
        "zeroline": False,
        "showgrid": True,
        "gridcolor": RULE,
        "nticks": 6,
    }
    if panel.logarithmic:
        axis["type"] = "log"
    if panel.ticks is not None:
        axis["tickvals"] = list(panel.ticks)
    return axis


def _points(series: Series, axis: str, group: int, in_legend: bool) -> dict[str, Any]:
    symbol = SYMBOLS[group % MOST_GROUPS]
    colour = COLOURS[group % len(COLOURS)]
    return {
        "type": "scatter",
        "x": list(series.x),
        "y": list(series.y),
        "xaxis": axis,
        "mode": "lines+markers" if series.joined else "markers",
        "name": short(series.name),
        "legendgroup": str(group),
        "showlegend": in_legend,
        "hovertext": [escape(caption) for caption in series.said],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "cliponaxis": False,
        "line": {"color": colour, "width": 1.25},
        "marker": {
            "color": colour,
            "size": 4 if series.small else 8,
            "opacity": 0.5 if series.small else 1,
            "symbol": symbol,
            "line": {"color": colour, "width": 0 if series.small else 1},
        },
    }


def _names(panel: Panel) -> dict[int, dict[str, Any]]:
    """The names beside the points of each series, by its place; nothing where series have none."""
    if not all(series.names for series in panel.series):
        return {}
    x = np.array([value for series in panel.series for value in series.x], dtype=np.float64)
    y = np.array([value for series in panel.series for value in series.y], dtype=np.float64)
    extents = np.concatenate([y, panel.line.low, panel.line.high]) if panel.line else y
    texts = [short(name) for series in panel.series for name in series.names]
    heights = float(extents.min(initial=np.inf)), float(extents.max(initial=-np.inf))
    positions = place_names(np.log10(x) if panel.logarithmic else x, y, texts, (NAMED_WIDTH, PLOT), heights)
    properties: dict[int, dict[str, Any]] = {}
    start = 0
    for place, series in enumerate(panel.series):
        part = slice(start, start + len(series.names))
        properties[place] = {
            "mode": "markers+text",
            "text": [text if position else "" for text, position in zip(texts[part], positions[part], strict=True)],
            "textposition": [position or "middle right" for position in positions[part]],
            "textfont": {"size": SMALL, "color": INK},
        }
        start = part.stop
    return properties


def _line(panel: Panel, axis: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The band of the regression line, which is drawn under the points, and the line, which is drawn over them."""
    if panel.line is None:
        return [], []
    positions = panel.line.at.tolist()
    quiet = {"type": "scatter", "xaxis": axis, "hoverinfo": "skip", "showlegend": False, "mode": "lines"}
    edges = [*panel.line.high.round(6).tolist(), *panel.line.low[::-1].round(6).tolist()]
    band = {
        "x": [*positions, *positions[::-1]],
        "y": edges,
        "fill": "toself",
        "fillcolor": RULE,
        "opacity": 0.6,
        "line": {"width": 0},
    }
    line_trace = {"x": positions, "y": panel.line.fitted_values.round(6).tolist(), "line": {"color": INK, "width": 1.5}}
    return [quiet | band], [quiet | line_trace]
