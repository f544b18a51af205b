"""The ranks of one model over the versions of a metric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leaderboard.charts.figure import Axis, Chart, Ink, Line, Mark, Panel, Spot, Tick
from leaderboard.charts.ticks import fit_ranks

HEIGHT = 150  # pixels
CAP = 0.06  # of a column: half of the end of a bar


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
    best, worst, marked_ranks = fit_ranks(end for point in points for end in (point.rank, point.low, point.high) if end)
    room = max(0.6, 0.08 * (worst - best))
    marks: list[Mark] = [
        Line([place, place + 1], [first.rank, second.rank], Ink.FIRST, 2)
        for place, (first, second) in enumerate(pairwise(points))
        if first.rank is not None and second.rank is not None
    ]
    for place, point in enumerate(points):
        marks += _draw_rank(place, point)
    versions = tuple(Tick(place, (str(point.number),)) for place, point in enumerate(points))
    x = Axis(-0.5, len(points) - 0.5, versions, "Version", grid=False)
    y = Axis(worst + room, best - room, tuple(Tick(rank, (str(rank),)) for rank in marked_ranks), "Rank")
    return Chart(name, alternative, (Panel(x, y, tuple(marks), HEIGHT),))


def _draw_rank(place: int, point: RankPoint) -> Iterator[Mark]:
    if point.rank is None:
        return
    if point.low is not None and point.high is not None:
        yield Line([place] * 2, [point.low, point.high], Ink.FIRST, 1)
        for end in (point.low, point.high):
            yield Line([place - CAP, place + CAP], [end] * 2, Ink.FIRST, 1)
    yield Spot(place, point.rank, title=f"Rank {point.rank} of {point.among} under version {point.number}")
