"""The forest chart: values or differences with their intervals, one a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from leaderboard.charts.look import CHARACTER, FIRST, INK, QUIET, RULE, SMALL, Chart, figure_of, short, trace

TICK = {"color": INK, "width": 2, "dash": "dot"}
ROW, FRAME, WIDTH = 30, 64, 200  # pixels: of a line, of the axis with its title, and of the scale at least


@dataclass(frozen=True, slots=True)
class ForestLine:
    """One line: what it is of, its value and interval (None where there is none), and what is said of it on hover.

    firm: drawn filled; else hollow, as what may be nothing. tick: where an indifferent model would be, if that is
    another place on each line.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    said: str
    firm: bool = True
    tick: float | None = None


def forest_chart(
    name: str, lines: Sequence[ForestLine], title: str, alternative: str, reference: float | None = None
) -> Chart:
    """Values with whiskers, the first on top, on an axis called `title`; `reference` is marked by a line.

    Filled points stand for what is firm and hollow ones for what is not: shape and fill say it, and colour repeats it.
    """
    places = list(range(len(lines)))
    traces = []
    for firm, symbol, colour in ((True, "square", FIRST), (False, "square-open", QUIET)):
        firm_lines = [(place, line) for place, line in zip(places, lines, strict=True) if line.firm == firm]
        traces.append(
            trace(
                "scatter",
                x=[line.value for _, line in firm_lines],
                y=[place for place, _ in firm_lines],
                mode="markers",
                text=[escape(line.said) for _, line in firm_lines],
                hovertemplate="%{text}<extra></extra>",
                marker={"color": colour, "size": 10, "symbol": symbol, "line": {"color": colour, "width": 2}},
                error_x=_whiskers([line for _, line in firm_lines], colour),
            )
        )
    ticks = [(place, line.tick) for place, line in zip(places, lines, strict=True) if line.tick is not None]
    mark = {"type": "line", "x0": reference, "x1": reference, "yref": "paper", "y0": 0, "y1": 1}
    labels = [short(part) for line in lines for part in line.label.split("\n")]
    figure = figure_of(
        traces,
        xaxis={"title": {"text": title, "font": {"size": SMALL}}, "showgrid": True, "gridcolor": RULE, "nticks": 6},
        yaxis={
            "range": [len(lines) - 0.5, -0.5],
            "tickvals": places,
            "ticktext": ["<br>".join(short(part) for part in line.label.split("\n")) for line in lines],
        },
        margin={"l": 16 + CHARACTER * max((len(label) for label in labels), default=0), "r": 12, "t": 4, "b": 48},
        shapes=[
            *([] if reference is None else [{**mark, "line": {"color": INK, "width": 1, "dash": "dot"}}]),
            *(
                {"type": "line", "x0": tick, "x1": tick, "y0": y - 0.35, "y1": y + 0.35, "line": TICK}
                for y, tick in ticks
            ),
        ],
    )
    least_width = round(figure["layout"]["margin"]["l"]) + WIDTH
    return Chart(name, figure, ROW * len(lines) + FRAME, least_width, alternative)


def _whiskers(lines: Sequence[ForestLine], colour: str) -> dict[str, Any]:
    """From each value to the ends of its interval; of no length where there is none."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if line.high is None else line.high - line.value for line in lines],
        "arrayminus": [0 if line.low is None else line.value - line.low for line in lines],
        "color": colour,
        "thickness": 2,
        "width": 4,
    }
