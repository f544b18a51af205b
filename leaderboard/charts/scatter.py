"""Scatter charts: models as points, each family by a symbol of its own, alone or in panels side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leaderboard.charts.figure import Axis, Chart, Dots, Ink, Key, Line, Mark, Panel, Ribbon, Spot, Tick
from leaderboard.charts.symbols import SYMBOLS
from leaderboard.charts.ticks import UNLIMITED, Limits, fit_axis, fit_logarithmic, write_compact
from scoring.statistics.regression import RegressionLine

COLOURS = (Ink.FIRST, Ink.SECOND, Ink.QUIET)
MOST_GROUPS = len(SYMBOLS)  # which can be told apart
HEIGHT, PANEL_HEIGHT = 340, 280  # pixels: of a plot alone, and of one of several
FEW = 100  # dots, of which each can still be told apart
LARGE_DOTS, SMALL_DOTS = {"size": 3.5, "opacity": 0.8}, {"size": 2.0, "opacity": 0.5}


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one group, drawn by one symbol.

    titles: each point in words. joined: whether a line leads from one to the next. small: as dots, maybe many.
    names: written beside the points where there is room; empty for none. links: the page of each; empty for none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    titles: Sequence[str]
    joined: bool = False
    names: Sequence[str] = ()
    links: Sequence[str] = ()
    small: bool = False


@dataclass(frozen=True, slots=True)
class ScatterPanel:
    """One plot: what its axis is called and what stands in it. ticks: where the axis is marked, None where it may.

    limits: the least and the largest value that there can be across.
    """

    title: str
    series: Sequence[Series]
    logarithmic: bool = False
    ticks: Sequence[float] | None = None
    line: RegressionLine | None = None
    limits: Limits = UNLIMITED


def scatter_chart(
    name: str, panels: Sequence[ScatterPanel], title: str, alternative: str, limits: Limits = UNLIMITED
) -> Chart:
    """Panels side by side on one vertical axis called `title`; a group has the same symbol in each.

    A regression line comes with the band that it lies in, as far as that is within `limits`: the least and the largest
    value that there can be upwards.
    """
    groups = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    values = [value for panel in panels for series in panel.series for value in series.y]
    y = fit_axis(values, title, limits)
    height = PANEL_HEIGHT if len(panels) > 1 else HEIGHT
    looks = {group: (SYMBOLS[place % MOST_GROUPS], COLOURS[place % len(COLOURS)]) for place, group in enumerate(groups)}
    legend = tuple(Key(group, ink, symbol) for group, (symbol, ink) in looks.items()) if len(groups) > 1 else ()
    plots = tuple(Panel(_fit(panel), y, tuple(_draw(panel, looks, y)), height) for panel in panels)
    return Chart(name, alternative, plots, legend, beside=len(panels) > 1)


def _fit(panel: ScatterPanel) -> Axis:
    """The horizontal axis of a panel."""
    values = [value for series in panel.series for value in series.x]
    if panel.logarithmic:
        return fit_logarithmic(values, panel.title, panel.ticks)
    axis = fit_axis(values, panel.title, panel.limits)
    if panel.ticks is None:
        return axis
    ticks = tuple(Tick(value, (write_compact(value),)) for value in panel.ticks)
    return Axis(axis.low, axis.high, ticks, panel.title)


def _draw(panel: ScatterPanel, looks: dict[str, tuple[str, Ink]], y: Axis) -> Iterator[Mark]:
    """The band under the points, joined points, and the line of the regression over them."""
    if panel.line is not None:
        low, high = (np.clip(edge, y.low, y.high).tolist() for edge in (panel.line.low, panel.line.high))
        yield Ribbon(panel.line.at.tolist(), low, high, Ink.RULE, 0.6)
    for series in panel.series:
        yield from _draw_series(series, *looks[series.name])
    if panel.line is not None:
        is_inside = (panel.line.fitted_values >= y.low) & (panel.line.fitted_values <= y.high)
        yield Line(panel.line.at[is_inside].tolist(), panel.line.fitted_values[is_inside].tolist())


def _draw_series(series: Series, symbol: str, ink: Ink) -> Iterator[Mark]:
    if series.joined:
        yield Line(series.x, series.y, ink, 1.25)
    if series.small:
        yield Dots(series.x, series.y, series.titles, ink, **(LARGE_DOTS if len(series.x) <= FEW else SMALL_DOTS))
        return
    names, links = series.names or [""] * len(series.x), series.links or [""] * len(series.x)
    for x, y, title, name, link in zip(series.x, series.y, series.titles, names, links, strict=True):
        yield Spot(x, y, symbol, ink, 4.0, title, link, name=name)
