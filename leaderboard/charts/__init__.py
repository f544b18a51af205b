"""Charts: figures for Plotly, in one visual language. One file a kind of chart; `look` is what they share."""

from leaderboard.charts.box_plots import BoxColumn, BoxPoint, box_plots
from leaderboard.charts.bump import BumpColumn, BumpLine, bump_chart
from leaderboard.charts.control_chart import ControlPanel, ControlPoint, control_chart
from leaderboard.charts.distributions import DistributionSample, distributions
from leaderboard.charts.forest import ForestLine, forest_chart
from leaderboard.charts.look import Chart
from leaderboard.charts.rank_history import RankPoint, rank_history_chart
from leaderboard.charts.scatter import MOST_GROUPS, Panel, Series, scatter_chart

__all__ = [
    "MOST_GROUPS",
    "BoxColumn",
    "BoxPoint",
    "BumpColumn",
    "BumpLine",
    "Chart",
    "ControlPanel",
    "ControlPoint",
    "DistributionSample",
    "ForestLine",
    "Panel",
    "RankPoint",
    "Series",
    "box_plots",
    "bump_chart",
    "control_chart",
    "distributions",
    "forest_chart",
    "rank_history_chart",
    "scatter_chart",
]
