"""Charts: figures for Plotly, in one visual language. One file a kind of chart; `look` is what they share."""

from leaderboard.charts.box_plots import BoxColumn, BoxPoint, box_plots
from leaderboard.charts.bump import BumpColumn, BumpLine, bump_chart
from leaderboard.charts.distributions import Sample, distributions
from leaderboard.charts.look import Chart
from leaderboard.charts.rank_history import RankPoint, rank_history_chart

__all__ = [
    "BoxColumn",
    "BoxPoint",
    "BumpColumn",
    "BumpLine",
    "Chart",
    "RankPoint",
    "Sample",
    "box_plots",
    "bump_chart",
    "distributions",
    "rank_history_chart",
]
