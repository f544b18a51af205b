"""Putting work on the broker. The database is the truth: a lost message costs time, never work."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import ControlCheck, Reading, Run, Scoring, Work

log = logging.getLogger(__name__)

TASKS = {
    ControlCheck: "leaderboard.tasks.check_control",
    Reading: "leaderboard.tasks.read_submission",
    Run: "leaderboard.tasks.collect_run",
    Scoring: "leaderboard.tasks.score_run",
}
FORGOTTEN_AFTER = 120.0  # seconds; then a message that led to nothing is taken for lost


def enqueue(work: Work) -> bool:
    """Send the task that does `work`. False when the broker cannot be reached: the sweeper will send it later."""
    try:
        app.send_task(TASKS[type(work)], args=[work.pk])
    except OperationalError as error:
        log.warning("%s waits for the broker: %s", work, error)
        return False
    type(work).objects.filter(pk=work.pk).update(enqueued_at=timezone.now())
    return True


def sweep() -> int:
    """Enqueue all work that should be under way and is not; returns how much.

    That is work never sent, work whose message led to nothing for a while, and work whose worker fell silent or whose
    pause before the next attempt is over.
    """
    forgotten = timezone.now() - timedelta(seconds=max(FORGOTTEN_AFTER, settings.LEASE_SECONDS))
    sent = 0
    for kind, ready in ((ControlCheck, Q()), (Reading, Q()), (Scoring, Q(run__state=Work.State.DONE)), (Run, Q())):
        due = kind.objects.unclaimed().filter(
            ready,
            Q(enqueued_at__isnull=True)
            | Q(enqueued_at__lt=forgotten)
            | Q(enqueued_at__lt=F("lease_expires_at"))
            | Q(enqueued_at__lt=F("heartbeat_at"), state=Work.State.QUEUED),
        )
        for work in due:
            if not enqueue(work):
                return sent
            sent += 1
    return sent
