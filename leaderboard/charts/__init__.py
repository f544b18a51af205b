"""Charts: described once as data (`figure`), drawn as SVG, PDF, PNG and for Plotly. One file a kind of chart.

What makes files of a chart is in `pdf`, which pages do not import.
"""

from leaderboard.charts.box_plots import BoxColumn, BoxPoint, box_plots, drawn_positions
from leaderboard.charts.bump import BumpColumn, BumpLine, bump_chart, bump_charts
from leaderboard.charts.control_chart import ControlPanel, ControlPoint, control_chart
from leaderboard.charts.distributions import DistributionSample, distributions
from leaderboard.charts.figure import Chart
from leaderboard.charts.forest import ForestLine, forest_chart
from leaderboard.charts.heat_map import ShadedCell, heat_map
from leaderboard.charts.rank_history import RankPoint, rank_history_chart
from leaderboard.charts.scatter import MOST_GROUPS, ScatterPanel, Series, scatter_chart

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
    "RankPoint",
    "ScatterPanel",
    "Series",
    "ShadedCell",
    "box_plots",
    "bump_chart",
    "bump_charts",
    "control_chart",
    "distributions",
    "drawn_positions",
    "forest_chart",
    "heat_map",
    "rank_history_chart",
    "scatter_chart",
]
