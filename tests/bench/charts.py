"""How long the server takes to draw a chart, against what Plotly takes to describe the same chart for a browser."""

import time
from collections.abc import Callable

from leaderboard.charts.plotly import describe_plotly
from leaderboard.charts.svg import draw_file
from tests.leaderboard.test_chart_drawings import large

TIMES = 20
SIZES = ((10, 2), (50, 8), (200, 8))  # models, versions


def shortest(action: Callable[[], object]) -> float:
    """Seconds that `action` takes when nothing disturbs it: the least of TIMES."""
    seconds = []
    for _ in range(TIMES):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def charts_table() -> None:
    """Print milliseconds of a bump chart as SVG and as Plotly's description, by size."""
    print("| models x versions | SVG, ms | Plotly's description, ms | ratio |\n|---|---|---|---|")
    for models, versions in SIZES:
        chart = large(models, versions)
        svg, plotly = (1000 * shortest(action) for action in (lambda: draw_file(chart), lambda: describe_plotly(chart)))  # noqa: B023 (called at once)
        print(f"| {models} x {versions} | {svg:.1f} | {plotly:.1f} | {svg / plotly:.2f} |")
