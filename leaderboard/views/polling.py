"""What a page that polls needs to know: whether anything still moves, and whether its reader has the newest numbers."""

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from leaderboard.models import Scoring, Work

SEEN = "Plumbline-Seen"
STILL = {"moving": False, "seen": "", "fresh": True}  # of a page about the past


def polling(request: HttpRequest, scorings: QuerySet[Scoring]) -> dict[str, object]:
    """Context for `partials/polled.html`: `moving`, `seen`, and `fresh` (whether to send the tables).

    A scoring is the last step of an evaluation: while one of `scorings` is unfinished there is more to come, unless its
    run has ended without anything to score.
    """
    unfinished = Q(state__in=[Work.State.QUEUED, Work.State.RUNNING])
    hopeless = Q(run__state__in=[Work.State.FAILED, Work.State.CANCELLED])
    counted = scorings.aggregate(
        done=Count("pk", filter=Q(state=Work.State.DONE)), moving=Count("pk", filter=unfinished & ~hopeless)
    )
    seen = str(counted["done"])
    return {"moving": counted["moving"] > 0, "seen": seen, "fresh": request.headers.get(SEEN) != seen}
