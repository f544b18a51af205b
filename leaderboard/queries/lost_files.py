"""Entries whose numbers come from files that are damaged or missing."""

from leaderboard.models import Scoring, Work, is_listed
from leaderboard.state_memo import once_a_state

MOST_MARKED = 10  # named on a page


@once_a_state()
def marked_entries() -> list[Scoring]:
    """Those of published versions, the newest first, one more than a page names at most; in one query."""
    entries = Scoring.objects.exclude(lost_files="").filter(
        is_listed("model__"), state=Work.State.DONE, metric_version__published_at__isnull=False
    )
    return list(entries.select_related("model", "metric_version__metric").order_by("-pk")[: MOST_MARKED + 1])
