"""Charts: figures for Plotly, in one visual language. One file a kind of chart; `look` is what they share."""

from leaderboard.charts.bump import BumpColumn, BumpLine, bump_chart
from leaderboard.charts.control_chart import ControlPoint, Panel, control_chart
from leaderboard.charts.distribution import distribution_chart
from leaderboard.charts.look import Chart

__all__ = [
    "BumpColumn",
    "BumpLine",
    "Chart",
    "ControlPoint",
    "Panel",
    "bump_chart",
    "control_chart",
    "distribution_chart",
]
