"""Charts: figures for Plotly, in one visual language. One file a kind of chart; `look` is what they share."""

from leaderboard.charts.bump import BumpColumn, BumpLine, bump_chart
from leaderboard.charts.forest import ForestLine, forest_chart
from leaderboard.charts.look import Chart
from leaderboard.charts.scatter import MOST_GROUPS, Panel, Series, scatter_chart

__all__ = [
    "MOST_GROUPS",
    "BumpColumn",
    "BumpLine",
    "Chart",
    "ForestLine",
    "Panel",
    "Series",
    "bump_chart",
    "forest_chart",
    "scatter_chart",
]
