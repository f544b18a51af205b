"""From values to places: a chart on a page of a given width."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from leaderboard.charts.figure import (
    PANELS,
    Axis,
    Block,
    Chart,
    Dots,
    Ink,
    Key,
    Label,
    Line,
    Panel,
    Ribbon,
    Spot,
    Tick,
)
from leaderboard.charts.names import ANCHORS, POSITIONS, place_names, surround_name
from leaderboard.charts.shapes import Disc, Polygon, Shape, Sketch, Specks, Stroke, Writing
from leaderboard.charts.symbols import describe_symbol
from leaderboard.charts.text import LINE, SIZE, SPACE, measure_text, shorten

EDGE, GAP, BETWEEN = 8, 8, 28  # pixels: free round all, between a tick's text and the plot, and between panels
RISE = 4  # pixels from the middle of a line of text to its baseline
NAMES, NAMES_OF_TWO = 0.45, 0.3  # of the width: names on one side at most, and on each of both at least if need be
COLUMN = 0.11  # of the width, that each column between names on both sides keeps
KEY = 26  # pixels of a symbol in the legend, with what is free after it
Scale = Callable[[float], float]


class _Plot(NamedTuple):
    """The rectangle that values are drawn in."""

    left: float
    top: float
    width: float
    height: float


def arrange_chart(chart: Chart, width: int) -> Sketch:
    """Place all of a chart on a surface `width` pixels wide; the height follows."""
    columns = len(chart.panels) if chart.beside and width >= PANELS else 1
    shapes: list[Shape] = []
    share = (width - BETWEEN * (columns - 1)) / columns
    top, lowest = float(EDGE), 0.0
    margins = _measure_margins(chart, share)
    for number, panel in enumerate(chart.panels):
        start = (number % columns) * (share + BETWEEN)
        panel_shapes, bottom = _arrange_panel(panel, start, top, share, margins)
        shapes += panel_shapes
        lowest = max(lowest, bottom)
        if number % columns == columns - 1 and number < len(chart.panels) - 1:
            top = lowest + BETWEEN / 2
    legend, lowest = _arrange_legend(chart.legend, width, lowest + GAP)
    return Sketch(width, round(lowest + EDGE), (*shapes, *legend))


def _measure_margins(chart: Chart, width: float) -> tuple[float, float]:
    """Pixels left and right of every plot, as much as the longest texts there need."""
    left_ticks = [tick for panel in chart.panels for tick in panel.y.ticks]
    right_ticks = [tick for panel in chart.panels for tick in panel.right]
    columns = max(len(panel.x.ticks) + 1 for panel in chart.panels)
    most = max(NAMES_OF_TWO * width, (1 - COLUMN * columns) * width / 2) if right_ticks else NAMES * width
    left_margin = min(most, max((_measure_tick(tick) for tick in left_ticks), default=0.0) + GAP + EDGE)
    overhangs = [_reach_beyond(panel.x) for panel in chart.panels]
    right_margin = min(most, max((_measure_tick(tick) for tick in right_ticks), default=0.0) + GAP + EDGE)
    return left_margin, right_margin if right_ticks else EDGE + max(overhangs, default=0.0)


def _reach_beyond(axis: Axis) -> float:
    """How far the last text under an axis may stand out to the right."""
    if not axis.ticks or axis.upright:
        return SIZE
    return max(measure_text(line) for line in axis.ticks[-1].lines) / 2


def _measure_tick(tick: Tick) -> float:
    number = measure_text(SPACE + tick.number) if tick.number else 0.0
    return number + max(measure_text(line, tick.strong and not place) for place, line in enumerate(tick.lines))


def scale_axis(axis: Axis, start: float, length: float) -> Scale:
    """The place of each value of an axis that begins at pixel `start`."""
    if axis.logarithmic:
        low, high = math.log10(axis.low), math.log10(axis.high)
        return lambda value: start + length * (math.log10(value) - low) / (high - low)
    slope = length / ((axis.high - axis.low) or 1.0)
    return lambda value: start + slope * (value - axis.low)


def _arrange_panel(
    panel: Panel, start: float, top: float, width: float, margins: tuple[float, float]
) -> tuple[list[Shape], float]:
    """A panel whose texts begin at `start` and `top`, and where it ends below."""
    left_margin, right_margin = margins
    plot_width = width - left_margin - right_margin
    across = scale_axis(panel.x, start + left_margin, plot_width)
    below_or_above, extent = _arrange_columns(panel.x, across, plot_width)
    title = (LINE + 4 if panel.y.title else 0) + panel.head
    plot = _Plot(start + left_margin, top + title + (extent if panel.x.on_top else SIZE / 2), plot_width, panel.height)
    down = scale_axis(panel.y, plot.top + plot.height, -plot.height)
    shapes: list[Shape] = [*_draw_grid(panel, plot, across, down)]
    shapes += _draw_marks(panel, plot, across, down)
    if panel.y.title:
        shapes.append(Writing((start + EDGE, top + SIZE), panel.y.title, ink=Ink.SOFT))
    bottom = plot.top + plot.height
    baseline = plot.top - GAP if panel.x.on_top else bottom + GAP
    shapes += [words._replace(place=(words.place[0], words.place[1] + baseline)) for words in below_or_above]
    shapes += _draw_rows(panel.y.ticks, down, plot.left - GAP, left_margin - GAP - EDGE, is_left=True)
    shapes += _draw_rows(panel.right, down, plot.left + plot.width + GAP, right_margin - GAP - EDGE, is_left=False)
    bottom += 0 if panel.x.on_top else extent
    if panel.x.title:
        bottom += LINE + 2
        shapes.append(Writing((plot.left + plot.width / 2, bottom - 2), panel.x.title, "middle", Ink.SOFT))
    return shapes, bottom


def _arrange_columns(axis: Axis, across: Scale, width: float) -> tuple[list[Writing], float]:
    """The texts of a horizontal axis, from its own edge of the plot, and how many pixels they need away from it."""
    ticks = [tick for tick in axis.ticks if min(axis.low, axis.high) <= tick.at <= max(axis.low, axis.high)]
    if not ticks:
        return [], 0.0
    widths = [max(measure_text(line, tick.strong) for line in tick.lines) for tick in ticks]
    places = [across(tick.at) for tick in ticks]
    fits = all(
        (one + other) / 2 + 6 <= second - first
        for (one, first), (other, second) in pairwise(zip(widths, places, strict=True))
    )
    if axis.upright and not fits:
        return _turn_columns(ticks, places, axis.on_top)
    numbers = _leave_out(places, widths)
    rows = max(len(ticks[number].lines) for number in numbers)
    first = -LINE * (rows - 1) if axis.on_top else SIZE
    words = [
        Writing((places[number], first + LINE * row), line, "middle", strong=ticks[number].strong and not row)
        for number in numbers
        for row, line in enumerate(ticks[number].lines)
    ]
    return words, rows * LINE + GAP


def _turn_columns(ticks: Sequence[Tick], places: Sequence[float], on_top: bool) -> tuple[list[Writing], float]:
    """Texts that read upwards, each on one line; the first word of each stays level, next to the plot."""
    words = []
    texts = [" ".join(tick.lines[1:]) for tick in ticks]
    longest = max(map(measure_text, texts))
    for tick, place, text in zip(ticks, places, texts, strict=True):
        words.append(Writing((place, 0.0 if on_top else SIZE), tick.lines[0], "middle", strong=tick.strong))
        start = (place + RISE, -LINE if on_top else LINE + longest)
        words.append(Writing(start, text, ink=Ink.SOFT, turned=True))
    return words, LINE + longest + GAP


def _leave_out(places: Sequence[float], widths: Sequence[float]) -> list[int]:
    """Which of the texts are shown: every one, every second and so on, so that none touches the next."""
    for every in range(1, len(places) + 1):
        numbers = list(range(0, len(places), every))
        if all((widths[a] + widths[b]) / 2 + 6 <= abs(places[b] - places[a]) for a, b in pairwise(numbers)):
            return numbers
    return [0]


def _draw_grid(panel: Panel, plot: _Plot, across: Scale, down: Scale) -> Iterator[Stroke]:
    if panel.y.grid:
        for tick in panel.y.ticks:
            level = down(tick.at)
            yield Stroke(((plot.left, level), (plot.left + plot.width, level)), Ink.RULE, 1)
    if panel.x.grid:
        for tick in panel.x.ticks:
            place = across(tick.at)
            yield Stroke(((place, plot.top), (place, plot.top + plot.height)), Ink.RULE, 1)


def _draw_rows(ticks: Sequence[Tick], down: Scale, edge: float, room: float, is_left: bool) -> Iterator[Writing]:
    """The texts beside a plot, shortened to the room there is; the number of each stands next to the plot."""
    for tick in ticks:
        number = measure_text(SPACE + tick.number) if tick.number else 0.0
        middle = down(tick.at) + RISE - LINE * (len(tick.lines) - 1) / 2
        for row, line in enumerate(tick.lines):
            strong = tick.strong and not row
            text = shorten(line, room - number, strong)
            if tick.number and not row:
                text = f"{text}{SPACE}{tick.number}" if is_left else f"{tick.number}{SPACE}{text}"
            title = "" if line in text else line
            place = (edge, middle + LINE * row)
            yield Writing(
                place, text, "end" if is_left else "start", Ink.INK, strong, False, title, tick.key, tick.link
            )


def _draw_marks(panel: Panel, plot: _Plot, across: Scale, down: Scale) -> list[Shape]:
    shapes: list[Shape] = []
    for mark in panel.marks:
        match mark:
            case Spot():
                shapes.append(_draw_point(mark, across(mark.x), down(mark.y)))
            case Line():
                places = tuple((across(x), down(y)) for x, y in zip(mark.x, mark.y, strict=True))
                shapes.append(Stroke(places, mark.ink, mark.width, mark.dash, mark.title, mark.key))
            case Ribbon():
                upper = [(across(x), down(y)) for x, y in zip(mark.x, mark.high, strict=True)]
                lower = [(across(x), down(y)) for x, y in zip(mark.x, mark.low, strict=True)]
                shapes.append(Polygon((*upper, *lower[::-1]), mark.ink, None, mark.opacity, "", mark.key))
            case Block():
                shapes += _draw_block(mark, across, down)
            case Dots():
                places = tuple((across(x), down(y)) for x, y in zip(mark.x, mark.y, strict=True))
                shapes.append(Specks(places, mark.ink, mark.size, mark.opacity))
            case Label():
                place = (across(mark.x) + mark.dx, down(mark.y) + mark.dy + RISE)
                shapes.append(Writing(place, mark.text, mark.anchor, mark.ink, mark.strong))
    return [*shapes, *_name_points([mark for mark in panel.marks if isinstance(mark, Spot)], plot, across, down)]


def _draw_point(point: Spot, across: float, down: float) -> Shape:
    corners, hollow = describe_symbol(point.symbol)
    fill = Ink.PAPER if hollow else point.ink
    if not corners:
        return Disc((across, down), point.size, fill, point.ink, point.title, point.key, point.link)
    places = tuple((across + point.size * x, down + point.size * y) for x, y in corners)
    return Polygon(places, fill, point.ink, 1.0, point.title, point.key, point.link)


def _draw_block(block: Block, across: Scale, down: Scale) -> Iterator[Shape]:
    (x0, x1), (y0, y1) = map(across, block.x), map(down, block.y)
    yield Polygon(((x0, y0), (x1, y0), (x1, y1), (x0, y1)), block.fill, block.outline, 1.0, block.title)
    if block.text and measure_text(block.text) + 2 <= abs(x1 - x0):
        yield Writing(((x0 + x1) / 2, (y0 + y1) / 2 + RISE), block.text, "middle", Ink.HEAT_INK)


def _name_points(points: Sequence[Spot], plot: _Plot, across: Scale, down: Scale) -> Iterator[Writing]:
    """The names of points, where there is room for them."""
    if not any(point.name for point in points):
        return
    places = np.array([(across(point.x) - plot.left, down(point.y) - plot.top) for point in points])
    names = [point.name for point in points]
    positions = place_names(places, names, (plot.width, plot.height))
    for place, point, position in zip(places, points, positions, strict=True):
        if position and point.name:
            start, top, end, _ = surround_name(place, point.name, position)
            anchor = ANCHORS[POSITIONS[position][0]]
            edge = {"start": start, "middle": (start + end) / 2, "end": end}[anchor]
            baseline = plot.top + top + LINE / 2 + RISE
            yield Writing((plot.left + edge, baseline), point.name, anchor, link=point.link)


def _arrange_legend(keys: Sequence[Key], width: float, top: float) -> tuple[list[Shape], float]:
    """The keys in as many lines as they need."""
    shapes: list[Shape] = []
    across, baseline = float(EDGE), top + SIZE
    for key in keys:
        length = KEY + measure_text(key.text) + 18
        if across > EDGE and across + length > width:
            across, baseline = float(EDGE), baseline + LINE + 4
        if key.dash or not key.symbol:
            shapes.append(Stroke(((across, baseline - RISE), (across + 18, baseline - RISE)), key.ink, 2, key.dash))
        if key.symbol:
            shapes.append(_draw_point(Spot(0, 0, key.symbol, key.ink), across + 9, baseline - RISE))
        shapes.append(Writing((across + KEY, baseline), key.text))
        across += length
    return shapes, baseline + RISE if keys else top
