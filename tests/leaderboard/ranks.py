"""A ranking as every page and program reads it."""

from typing import Any

from leaderboard.models import Metric
from leaderboard.rankings.ranking import Row
from leaderboard.rankings.rows import read_rankings
from leaderboard.rankings.selection import select_ranking
from leaderboard.rankings.view import View


def ranked(metric: Metric, **options: Any) -> list[Row]:
    """The rows of a ranking of `metric`, by population and rank; `options` of `select_ranking`."""
    ranking = read_rankings([select_ranking(metric, **options)], View(columns=(), rows=None))[0]
    return [row for group in ranking.groups for row in group.rows]
