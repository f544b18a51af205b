"""Box plots: how the values of many models spread, a box a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from leaderboard.charts.look import FIRST, INK, QUIET, RAISED, RULE, SMALL, Chart, Trace, figure_of, trace
from scoring.statistics.boxes import Box

HEIGHT, COLUMN, MARGIN = 420, 58, 48  # pixels: of all, of a box at least, and left of the boxes
MANY = 100  # models; where there are more, those within the whiskers are not drawn one by one
SYMBOLS = {"causal": "circle", "masked": "square", "permutation": "diamond"}


@dataclass(frozen=True, slots=True)
class BoxPoint:
    """A model in a group."""

    name: str
    value: float
    kind: str


@dataclass(frozen=True, slots=True)
class BoxColumn:
    """A group: what stands under it, its five numbers, and the models that they are of, in the order of its values.

    indifferent: the median of what these models would have if they were indifferent, where each has a value of its own.
    """

    label: str
    box: Box
    points: Sequence[BoxPoint]
    indifferent: float | None = None

    @property
    def outside(self) -> list[BoxPoint]:
        """The models beyond the whiskers."""
        return [self.points[position] for position in self.box.outside]


def box_plots(
    name: str, columns: Sequence[BoxColumn], title: str, digits: int, neutral: float | None, alternative: str
) -> Chart:
    """A box from quartile to quartile with the median in it, whiskers, and each model as a point whose hover names it.

    title: of the axis of values. A dotted line at the `neutral` value, where there is one; else a dotted tick across
    each group that has an indifferent value. Points have the shape of the model's kind; of many models only those
    beyond the whiskers are drawn.
    """
    boxes = [column.box for column in columns]
    box_trace = trace(
        "box",
        x=list(range(len(columns))),
        q1=round_values([box.lower for box in boxes]),
        median=round_values([box.median for box in boxes]),
        q3=round_values([box.upper for box in boxes]),
        lowerfence=round_values([box.low for box in boxes]),
        upperfence=round_values([box.high for box in boxes]),
        boxpoints=False,
        fillcolor=RAISED,
        line={"color": INK, "width": 1.25},
        whiskerwidth=0.5,
        hoverinfo="skip",  # Plotly writes five labels over one another; the points and the table say them
    )
    figure = figure_of(
        [box_trace, _points(columns, digits)],
        xaxis={
            "tickvals": list(range(len(columns))),
            "ticktext": [_lines(column.label) for column in columns],
            "range": [-0.6, len(columns) - 0.4],
            "tickangle": 0,
        },
        yaxis={"title": {"text": escape(title), "font": {"size": SMALL}}, "showgrid": True, "gridcolor": RULE},
        margin={"l": MARGIN + 8, "r": 8, "t": 12, "b": 52},
        shapes=_ticks(columns) if neutral is None else [_line_at(neutral)],
    )
    return Chart(name, figure, HEIGHT, MARGIN + 16 + COLUMN * len(columns), alternative)


def _points(columns: Sequence[BoxColumn], digits: int) -> Trace:
    """Each model in each group; the ones beyond the whiskers larger and dark."""
    points_drawn = [
        (number, point, position in column.box.outside)
        for number, column in enumerate(columns)
        for position, point in enumerate(column.points)
        if len(column.points) <= MANY or position in column.box.outside
    ]
    return trace(
        "scatter",
        x=[number for number, _, _ in points_drawn],
        y=round_values([point.value for _, point, _ in points_drawn]),
        mode="markers",
        text=[f"{escape(point.name)}<br>{escape(columns[number].label)}" for number, point, _ in points_drawn],
        hovertemplate=f"%{{text}} %{{y:.{digits}f}}<extra></extra>",
        cliponaxis=False,
        marker={
            "symbol": [SYMBOLS.get(point.kind, "circle") + ("" if out else "-open") for _, point, out in points_drawn],
            "size": [7 if out else 5 for _, _, out in points_drawn],
            "color": [INK if out else FIRST for _, _, out in points_drawn],
            "line": {"width": 1},
        },
    )


def _line_at(value: float) -> dict[str, Any]:
    line = {"color": QUIET, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def _ticks(columns: Sequence[BoxColumn]) -> list[dict[str, Any]]:
    """Across each group where indifferent models would be, and a little beyond its box."""
    line = {"color": INK, "width": 2, "dash": "dot"}
    return [
        {
            "type": "line",
            "x0": number - 0.42,
            "x1": number + 0.42,
            "y0": round(tick, 5),
            "y1": round(tick, 5),
            "line": line,
        }
        for number, column in enumerate(columns)
        if (tick := column.indifferent) is not None
    ]


def _lines(label: str) -> str:
    """A label in as many lines as it has words, so that neighbours do not touch."""
    return "<br>".join(escape(word) for word in label.split())


def round_values(values: Sequence[float]) -> list[float]:
    return [round(value, 5) for value in values]
