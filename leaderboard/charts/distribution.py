"""Two distributions of the same texts' scores, before and after."""

from collections.abc import Sequence

import plotly.graph_objects as go

from leaderboard.charts.look import FIRST, INK, QUIET, RULE, Chart, figure_of

HEIGHT, LEAST_WIDTH = 260, 320  # pixels


def distribution_chart(
    name: str, edges: Sequence[float], before: Sequence[int], after: Sequence[int], axis: str, alternative: str
) -> Chart:
    """Counts by bin: `before` as a filled outline, `after` as a line over it. edges: [bins + 1], ascending."""
    traces = [
        go.Scatter(
            x=list(edges),
            y=[*counts, counts[-1]],
            mode="lines",
            meta=meta,
            line={"shape": "hv", "color": colour, "width": width},
            fill=fill,
            fillcolor=RULE,
            text=[f"{low:.2f} to {high:.2f}: {count} texts {meta}" for low, high, count in rows] + [""],
            hovertemplate="%{text}<extra></extra>",
        )
        for meta, counts, colour, width, fill in (
            ("before", before, QUIET, 1.5, "tozeroy"),
            ("after", after, FIRST, 2.5, "none"),
        )
        for rows in [list(zip(edges, edges[1:], counts, strict=False))]
    ]
    figure = figure_of(
        traces,
        xaxis={"range": [edges[0], edges[-1]], "title": {"text": axis, "font": {"color": INK}}, "showline": True},
        yaxis={
            "rangemode": "tozero",
            "showgrid": True,
            "gridcolor": RULE,
            "title": {"text": "Texts"},
            "tickformat": "d",
        },
        margin={"l": 52, "r": 12, "t": 12, "b": 44},
    )
    return Chart(name, figure, HEIGHT, LEAST_WIDTH, alternative)
