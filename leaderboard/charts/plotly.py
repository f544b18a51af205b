"""Charts for Plotly, which readers load to touch them: the same marks as data of its own."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from leaderboard.charts.figure import Axis, Block, Chart, Dash, Dots, Ink, Label, Line, Panel, Ribbon, Spot, Tick
from leaderboard.charts.layout import scale_axis
from leaderboard.charts.names import place_names
from leaderboard.charts.text import LINE, SIZE, SPACE, measure_text, shorten

FONT = 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif'
NAME, MARGIN = 190, 12  # pixels: of a name at most, and round all
GAP = 0.07  # between panels, of all of them
BETWEEN, HEAD = 64, 24  # pixels between panels that stand one under another, and over the first
NAMED = (440, 340)  # pixels of a plot in which names are placed
DASHES: dict[Dash, str] = {"": "solid", "dash": "dash", "dot": "dot"}
Json = dict[str, Any]


def describe_plotly(chart: Chart) -> Json:
    """A chart as Plotly takes it: data, layout, and the pixels of its height and least width.

    Colours are names of the stylesheet's tokens, as in "var(--ink)", which static/charts.js replaces by what they are
    in the reader's theme. Customdata of points are where they lead and their key.
    """
    left_margin = max((_measure(tick) for panel in chart.panels for tick in panel.y.ticks), default=0.0) + 2 * MARGIN
    right_margin = max((_measure(tick) for panel in chart.panels for tick in panel.right), default=0.0) + 2 * MARGIN
    head = _measure_head(chart)
    layout = _look()
    layout["margin"] = {"l": left_margin, "r": right_margin, "t": HEAD + head, "b": 56}
    layout["annotations"] = [_write_title(chart, number, panel) for number, panel in enumerate(chart.panels)]
    layout["shapes"] = []
    data: list[Json] = []
    for number, panel in enumerate(chart.panels):
        suffix = str(number + 1) if number else ""
        layout[f"xaxis{suffix}"] = _axis(panel.x, f"y{suffix}") | {"domain": _share(chart, number, True)}
        layout[f"yaxis{suffix}"] = _axis(panel.y, f"x{suffix}") | {
            "domain": _share(chart, number, False),
            "title": None,
        }
        anchor = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        data += [trace | anchor for trace in _trace_panel(panel)]
        layout["shapes"] += [shape | {"xref": f"x{suffix}", "yref": f"y{suffix}"} for shape in _shape_panel(panel)]
    return {"data": data, "layout": layout, "height": _height(chart) + HEAD + head + 56}


def _look() -> Json:
    return {
        "font": {"family": FONT, "size": SIZE, "color": _colour(Ink.INK)},
        "paper_bgcolor": _colour(Ink.PAPER),
        "plot_bgcolor": _colour(Ink.PAPER),
        "hoverlabel": {
            "bgcolor": _colour(Ink.RAISED),
            "bordercolor": _colour(Ink.QUIET),
            "font": {"color": _colour(Ink.INK), "family": FONT},
        },
        "hovermode": "closest",
        "dragmode": False,
        "showlegend": False,
    }


def _colour(ink: Ink) -> str:
    return f"var(--{ink})"


def _measure(tick: Tick) -> float:
    return min(NAME, max(map(measure_text, tick.lines))) + measure_text(SPACE + tick.number)


def _measure_head(chart: Chart) -> int:
    """Pixels of what stands over a panel."""
    return max(
        (LINE * len(tick.lines) for panel in chart.panels if panel.x.on_top for tick in panel.x.ticks), default=0
    )


def _height(chart: Chart) -> int:
    """Pixels of all panels with what is between them."""
    heights = [panel.height for panel in chart.panels]
    return max(heights) if chart.beside else sum(heights) + (BETWEEN + _measure_head(chart)) * (len(heights) - 1)


def _share(chart: Chart, number: int, across: bool) -> list[float]:
    """The part of the plotting area that a panel has, from 0 to 1."""
    count = len(chart.panels)
    if across != chart.beside or count == 1:
        return [0.0, 1.0]
    if across:
        width = (1 - GAP * (count - 1)) / count
        return [round(number * (width + GAP), 4), round(min(1.0, number * (width + GAP) + width), 4)]
    offset = sum(panel.height + BETWEEN + _measure_head(chart) for panel in chart.panels[:number])
    top = 1 - offset / _height(chart)
    return [round(max(0.0, top - chart.panels[number].height / _height(chart)), 4), round(top, 4)]


def _write_title(chart: Chart, number: int, panel: Panel) -> Json:
    """The title of a vertical axis, which stands over its plot and can be read without turning the head."""
    return {
        "text": escape(panel.y.title),
        "x": _share(chart, number, True)[0],
        "y": _share(chart, number, False)[1],
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": _measure_head(chart) if panel.x.on_top else 0,
        "showarrow": False,
    }


def _axis(axis: Axis, anchor: str) -> Json:
    ends = np.log10([axis.low, axis.high]).tolist() if axis.logarithmic else [axis.low, axis.high]
    ticks = [tick for tick in axis.ticks if not tick.number]
    return {
        "title": {"text": escape(axis.title), "standoff": 4},
        "type": "log" if axis.logarithmic else "linear",
        "range": ends,
        "tickvals": [tick.at for tick in ticks],
        "ticktext": ["<br>".join(escape(shorten(line, NAME)) for line in tick.lines) for tick in ticks],
        **({} if axis.upright else {"tickangle": 0}),
        **({"side": "top"} if axis.on_top else {}),
        "showgrid": axis.grid,
        "gridcolor": _colour(Ink.RULE),
        "zeroline": False,
        "fixedrange": True,
        "anchor": anchor,
    }


def _trace_panel(panel: Panel) -> Iterator[Json]:
    for mark in panel.marks:
        if isinstance(mark, Ribbon):
            yield _trace_band(mark)
    lines = [mark for mark in panel.marks if isinstance(mark, Line)]
    for (ink, width, dash), group in groupby(
        sorted(lines, key=lambda line: (line.width, line.ink, line.dash)),
        key=lambda line: (line.ink, line.width, line.dash),
    ):
        yield _trace_lines(list(group)) | {"line": {"color": _colour(ink), "width": width, "dash": DASHES[dash]}}
    for mark in panel.marks:
        if isinstance(mark, Dots):
            yield _trace_dots(mark)
    points = [mark for mark in panel.marks if isinstance(mark, Spot)]
    if points:
        yield _trace_points(points) | _write_names(panel, points)
    blocks = [mark for mark in panel.marks if isinstance(mark, Block)]
    if blocks:
        yield _write_blocks(blocks)
    labels = [mark for mark in panel.marks if isinstance(mark, Label)]
    if labels:
        yield _write_labels(labels)
    yield from _write_rows(panel)


def _trace(kind: str, x: Sequence[float | None], y: Sequence[float | None], **options: Any) -> Json:
    return {"type": "scatter", "meta": kind, "x": list(x), "y": list(y), "cliponaxis": False, **options}


def _trace_band(band: Ribbon) -> Json:
    return _trace(
        "band",
        [*band.x, *band.x[::-1]],
        [*band.high, *band.low[::-1]],
        mode="lines",
        fill="toself",
        fillcolor=_colour(band.ink),
        opacity=band.opacity,
        line={"width": 0},
        hoverinfo="skip",
    )


def _trace_lines(lines: Iterable[Line]) -> Json:
    """Lines of one look as one trace, with a gap after each."""
    x: list[float | None] = []
    y: list[float | None] = []
    keys: list[str] = []
    for line in lines:
        x += [*line.x, None]
        y += [*line.y, None]
        keys += [line.key] * (len(line.x) + 1)
    return _trace(
        "lines", x, y, mode="lines", hoverinfo="skip", connectgaps=False, customdata=[["", key] for key in keys]
    )


def _trace_dots(dots: Dots) -> Json:
    return _trace(
        "points",
        dots.x,
        dots.y,
        mode="markers",
        hovertext=[escape(title) for title in dots.titles],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={"color": _colour(dots.ink), "size": 2 * dots.size, "opacity": dots.opacity},
    )


def _trace_points(points: Sequence[Spot]) -> Json:
    return _trace(
        "points",
        [point.x for point in points],
        [point.y for point in points],
        mode="markers",
        hovertext=[escape(point.title) for point in points],
        hovertemplate="%{hovertext}<extra></extra>",
        customdata=[[point.link, point.key] for point in points],
        marker={
            "symbol": [point.symbol for point in points],
            "color": [_colour(point.ink) for point in points],
            "size": [2 * point.size for point in points],
            "opacity": 1,
            "line": {"width": 1, "color": [_colour(point.ink) for point in points]},
        },
    )


def _write_names(panel: Panel, points: Sequence[Spot]) -> Json:
    """The names of points, where there is room; nothing where none has a name."""
    if not any(point.name for point in points):
        return {}
    width, height = NAMED
    across, down = scale_axis(panel.x, 0, width), scale_axis(panel.y, height, -height)
    places = np.array([(across(point.x), down(point.y)) for point in points])
    positions = place_names(places, [point.name for point in points], NAMED)
    return {
        "mode": "markers+text",
        "text": [escape(point.name) if position else "" for point, position in zip(points, positions, strict=True)],
        "textposition": [position or "middle right" for position in positions],
    }


def _write_blocks(blocks: Sequence[Block]) -> Json:
    """The words of each block, at its middle, which is where a pointer finds it."""
    return _trace(
        "blocks",
        [sum(block.x) / 2 for block in blocks],
        [sum(block.y) / 2 for block in blocks],
        mode="text",
        text=[escape(block.text) for block in blocks],
        textfont={"color": _colour(Ink.HEAT_INK)},
        hovertext=[escape(block.title) for block in blocks],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _write_labels(labels: Sequence[Label]) -> Json:
    return _trace(
        "labels",
        [label.x for label in labels],
        [label.y for label in labels],
        mode="text",
        text=[escape(label.text) for label in labels],
        textposition="top right",
        hoverinfo="skip",
    )


def _write_rows(panel: Panel) -> Iterator[Json]:
    """Names with numbers, at either side of a plot: texts that can be pointed at, as marks of an axis cannot."""
    for ticks, edge, position in (
        (panel.y.ticks, panel.x.low, "middle left"),
        (panel.right, panel.x.high, "middle right"),
    ):
        names = [tick for tick in ticks if tick.number]
        if names:
            texts = [
                [escape(shorten(tick.lines[0], NAME)), tick.number][:: 1 if position == "middle left" else -1]
                for tick in names
            ]
            yield _trace(
                "names",
                [edge] * len(names),
                [tick.at for tick in names],
                mode="text",
                text=[SPACE.join(text) for text in texts],
                textposition=position,
                customdata=[[tick.link, tick.key] for tick in names],
                hovertext=[escape(tick.lines[0]) for tick in names],
                hovertemplate="%{hovertext}<extra></extra>",
            )


def _shape_panel(panel: Panel) -> Iterator[Json]:
    for mark in panel.marks:
        if isinstance(mark, Block):
            line = {"width": 1 if mark.outline else 0, "color": _colour(mark.outline or mark.fill)}
            (x0, x1), (y0, y1) = mark.x, mark.y
            corners = {"x0": x0, "x1": x1, "y0": y0, "y1": y1}
            yield {"type": "rect", "fillcolor": _colour(mark.fill), "line": line, "layer": "below", **corners}
