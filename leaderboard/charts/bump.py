"""The bump chart: ranks over the versions of a metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import scipy

from leaderboard.charts.look import (
    CHARACTER,
    FIRST,
    INK,
    LINE,
    LONGEST_NAME,
    QUIET,
    RULE,
    SECOND,
    SMALL,
    Chart,
    Trace,
    figure_of,
    short,
    trace,
)

ROW, CLOSE_ROW, MANY_ROWS = 18, 14, 40  # pixels a name needs; where there are more than MANY_ROWS, CLOSE_ROW
LEAST_HEIGHT = 160  # pixels
COLUMN, LEAST_COLUMNS = 64, 3  # pixels between two versions at least, and between the first and the last in such
LEAD = 16  # pixels from a point to its name, at least
HEADING = 52  # pixels of the three lines over a column


@dataclass(frozen=True, slots=True)
class BumpLine:
    """A model's ranks, one a column, None where it has none. change: ranks gained between the columns compared."""

    key: str
    name: str
    ranks: Sequence[int | None]
    change: int | None


@dataclass(frozen=True, slots=True)
class BumpColumn:
    """A version: its number, what stands under it on the axis, and a note where something was replaced before it.

    among: whom its ranks are of, as in "5 causal models". title: what stands over it where it is no version.
    """

    number: int
    caption: str
    note: str = ""
    among: str = ""
    title: str = ""

    @property
    def words(self) -> str:
        """What the ranks are under, as in "version 2"."""
        return f"“{self.title}”" if self.title else f"version {self.number}"


def bump_chart(name: str, columns: Sequence[BumpColumn], lines: Sequence[BumpLine], alternative: str) -> Chart:
    """Ranks over versions, the best on top; a line a model, with names at both ends.

    Points stand at ranks as they are, so models of equal rank share one; their names are spread and led to it.
    Triangles point up for models that rose and down for those that fell; a cross ends a line that later versions do not
    go on with.
    """
    ranks = [rank for line in lines for rank in line.ranks if rank is not None]
    top, bottom = min(ranks, default=1), max(ranks, default=1)
    rows = min(bottom - top + 1, 2 * len(lines))
    row = ROW if rows <= MANY_ROWS else CLOSE_ROW
    height = max(LEAST_HEIGHT, row * rows)
    gap = row * (bottom - top + 1) / height  # in ranks: how far apart two names must be
    steps = max(LEAST_COLUMNS, len(columns) - 1)
    lead = LEAD / (COLUMN * steps) * (len(columns) - 1)
    margin = 8 + CHARACTER * (4 + max((min(len(line.name), LONGEST_NAME) for line in lines), default=0))
    traces = [_leads(columns, lines, gap, (top, bottom), lead)]
    for symbol, colour, width, group_lines in (
        ("circle", QUIET, 1.25, [line for line in lines if not line.change]),
        ("triangle-down", SECOND, 1.75, [line for line in lines if line.change and line.change < 0]),
        ("triangle-up", FIRST, 1.75, [line for line in lines if line.change and line.change > 0]),
    ):
        traces.append(_lines(columns, group_lines, symbol, colour, width))
    traces += [_names(columns, lines, gap, (top, bottom), lead, end) for end in (0, len(columns) - 1)]
    traces.append(
        trace(
            "scatter",
            x=[],
            y=[],
            mode="lines+markers",
            meta="highlight",
            hoverinfo="skip",
            line={"color": INK, "width": 3.5},
            marker={"color": INK, "size": 9},
        )
    )
    heading = HEADING + (LINE if any(column.note for column in columns) else 0)
    figure = figure_of(
        traces,
        xaxis={
            "range": [-lead, len(columns) - 1 + lead],
            "tickvals": list(range(len(columns))),
            "ticktext": [f"<b>{column.number}</b><br>{column.caption}" for column in columns],
            "side": "top",
            "tickangle": 0,
            "showgrid": True,
            "gridcolor": RULE,
        },
        yaxis={"range": [bottom + 0.75 * gap, top - 0.75 * gap], "visible": False},
        margin={"l": margin, "r": margin, "t": heading, "b": 4},
        shapes=[_mark(number) for number, column in enumerate(columns) if column.note],
        annotations=[_note(number, column.note) for number, column in enumerate(columns) if column.note],
        meta={
            "versions": [column.number for column in columns],
            "words": [column.words for column in columns],
            "among": [column.among for column in columns],
        },
    )
    least_width = 2 * round(margin) + COLUMN * steps
    return Chart(name, figure, height + heading + 4, least_width, alternative)


def spread(targets: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart within low..high, the nearest to `wanted` (ascending) by least squares.

    Where low..high cannot hold them all they are evenly closer.
    """
    if len(targets) < 2:
        return list(targets)
    steps = np.arange(len(targets)) * min(gap, (high - low) / (len(targets) - 1))
    # Less their steps, places at least a gap apart are places that ascend.
    free = scipy.optimize.isotonic_regression(np.asarray(targets, dtype=np.float64) - steps).x
    places: list[float] = (np.clip(free, low, high - steps[-1]) + steps).round(4).tolist()
    return places


def _lines(columns: Sequence[BumpColumn], lines: list[BumpLine], symbol: str, colour: str, width: float) -> Trace:
    """Lines of one look as one trace, with a gap after each."""
    x: list[int | None] = []
    y: list[int | None] = []
    symbols, keys, texts = [], [], []
    for line in lines:
        last = max(number for number, rank in enumerate(line.ranks) if rank is not None)
        for number, (column, rank) in enumerate(zip(columns, line.ranks, strict=True)):
            x.append(number)
            y.append(rank)
            symbols.append("x" if number == last < len(columns) - 1 else symbol)
            keys.append(line.key)
            texts.append(_describe_rank(line, rank, column))
        x.append(None)
        y.append(None)
        symbols.append(symbol)
        keys.append("")
        texts.append("")
    return trace(
        "scatter",
        x=x,
        y=y,
        mode="lines+markers",
        meta="lines",
        connectgaps=False,
        customdata=keys,
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        cliponaxis=False,
        line={"color": colour, "width": width},
        marker={"color": colour, "size": 6, "symbol": symbols},
    )


def _ends(
    lines: Sequence[BumpLine], end: int, gap: float, limits: tuple[int, int]
) -> list[tuple[BumpLine, int, float]]:
    """The lines with a rank in column `end`, that rank, and where their name stands."""
    ranks = [(rank, line) for line in lines if (rank := line.ranks[end]) is not None]
    ranks.sort(key=lambda pair: (pair[0], pair[1].name))
    slots = spread([rank for rank, _ in ranks], gap, limits[0], limits[1])
    return [(line, rank, slot) for (rank, line), slot in zip(ranks, slots, strict=True)]


def _leads(
    columns: Sequence[BumpColumn], lines: Sequence[BumpLine], gap: float, limits: tuple[int, int], lead: float
) -> Trace:
    """From the first and last points to the names."""
    x: list[float | None] = []
    y: list[float | None] = []
    for end, margin_x in ((0, -lead), (len(columns) - 1, len(columns) - 1 + lead)):
        for _, rank, slot in _ends(lines, end, gap, limits):
            x += [end, margin_x, None]
            y += [rank, slot, None]
    return trace(
        "scatter", x=x, y=y, mode="lines", hoverinfo="skip", line={"color": RULE, "width": 1}, cliponaxis=False
    )


def _names(
    columns: Sequence[BumpColumn],
    lines: Sequence[BumpLine],
    gap: float,
    limits: tuple[int, int],
    lead: float,
    end: int,
) -> Trace:
    """Names with their ranks, left of the first column or right of the last."""
    is_left = end == 0
    ends = _ends(lines, end, gap, limits)
    return trace(
        "scatter",
        x=[-lead if is_left else len(columns) - 1 + lead] * len(ends),
        y=[slot for _, _, slot in ends],
        mode="text",
        meta="names",
        customdata=[line.key for line, _, _ in ends],
        text=[f"{short(line.name)}  {rank}" if is_left else f"{rank}  {short(line.name)}" for line, rank, _ in ends],
        textposition="middle left" if is_left else "middle right",
        textfont={"size": SMALL, "color": INK},
        hovertext=[_describe_rank(line, rank, columns[end]) for line, rank, _ in ends],
        hovertemplate="%{hovertext}<extra></extra>",
        cliponaxis=False,
    )


def _describe_rank(line: BumpLine, rank: int | None, column: BumpColumn) -> str:
    suffix = f" of {column.among}" if column.among else ""
    return f"{escape(line.name)}: rank {rank}{suffix} under {escape(column.words)}"


def _mark(column: int) -> dict[str, Any]:
    """A dotted line before a column."""
    line = {"color": INK, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": column - 0.5, "x1": column - 0.5, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _note(column: int, text: str) -> dict[str, Any]:
    """What the dotted line is for, above it."""
    place = {"x": column - 0.5, "yref": "paper", "y": 1, "yshift": HEADING - 6, "yanchor": "bottom"}
    return {**place, "text": escape(text), "showarrow": False, "font": {"size": SMALL, "color": INK}}
