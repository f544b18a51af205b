"""Waiting for a worker that was first at the work of a command."""

import time

from leaderboard.models import Work

PAUSE_SECONDS = 0.5


def wait_for_worker(work: Work) -> None:
    """Refresh `work` until it has ended, or until its reason says why it is tried again later."""
    work.refresh_from_db()
    while work.state == Work.State.RUNNING or (work.state == Work.State.QUEUED and not _was_put_off(work)):
        time.sleep(PAUSE_SECONDS)
        work.refresh_from_db()


def _was_put_off(work: Work) -> bool:
    """Whether it was tried and is queued again."""
    return bool(work.attempts or work.waits_since)
