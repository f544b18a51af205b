"""The ranks of one model over the versions of a metric."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.charts.look import FIRST, RULE, Chart, figure_of, trace

HEIGHT, COLUMN, LEAST_WIDTH = 200, 34, 280  # pixels
TICKS = 4  # marked ranks, at most about


@dataclass(frozen=True, slots=True)
class RankPoint:
    """The rank under a version, None where it is not ranked, and the ranks that cannot be excluded, where known.

    among: whom it is of, as in "5 causal models".
    """

    number: int
    rank: int | None
    low: int | None
    high: int | None
    among: str


def rank_history_chart(name: str, points: Sequence[RankPoint], alternative: str) -> Chart:
    """A line of ranks, the best on top, each with the range of ranks that cannot be excluded."""
    limits = [end for point in points for end in (point.rank, point.low, point.high) if end is not None]
    top, bottom = min(limits, default=1), max(limits, default=1)
    room = max(0.6, 0.08 * (bottom - top))
    ranks = [point.rank for point in points]
    figure = figure_of(
        [
            trace(
                "scatter",
                x=list(range(len(points))),
                y=ranks,
                mode="lines+markers",
                connectgaps=False,
                cliponaxis=False,
                line={"color": FIRST, "width": 2},
                marker={"color": FIRST, "size": 7},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": [
                        0 if point.rank is None or point.high is None else point.high - point.rank for point in points
                    ],
                    "arrayminus": [
                        0 if point.rank is None or point.low is None else point.rank - point.low for point in points
                    ],
                    "color": FIRST,
                    "thickness": 1,
                    "width": 3,
                },
                text=[f"of {point.among} under version {point.number}" for point in points],
                hovertemplate="Rank %{y} %{text}<extra></extra>",
            )
        ],
        xaxis={
            "tickvals": list(range(len(points))),
            "ticktext": [str(point.number) for point in points],
            "range": [-0.5, len(points) - 0.5],
            "title": {"text": "Version", "standoff": 4},
        },
        yaxis={
            "range": [bottom + room, top - room],
            "tickvals": list(range(top, bottom + 1, max(1, -(-(bottom - top) // TICKS)))),
            "showgrid": True,
            "gridcolor": RULE,
            "title": {"text": "Rank", "standoff": 4},
        },
        margin={"l": 44, "r": 12, "t": 8, "b": 40},
    )
    return Chart(name, figure, HEIGHT, max(LEAST_WIDTH, 56 + COLUMN * len(points)), alternative)
