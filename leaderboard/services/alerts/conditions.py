"""What an operator should know of now: a drift, failures, work without workers, a scorer that does not answer.

What the machinery of a board lacks is in `machinery`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import ControlCheck, Download, Incident, Metric, Reading, Rescoring, Run, Scoring, Work, Worker
from leaderboard.services.alerts import machinery
from leaderboard.services.alerts.finding import Finding
from leaderboard.services.failure_kinds import FAULTS, FailureKind, kind_of
from leaderboard.services.signs_of_life import queues_without_workers

log = logging.getLogger(__name__)

SOON = timedelta(seconds=30)  # what is over by then needs nobody
LATELY = timedelta(days=1)  # failures and drifts of before are no news
ACTIVE = (Rescoring.State.RUNNING, Rescoring.State.PAUSED)
ENDED = (Work.State.DONE, Work.State.FAILED)
NAMES: dict[type[Work], tuple[str, str]] = {
    Run: ("run", "runs"),
    Scoring: ("scoring", "scorings"),
    ControlCheck: ("control check", "control checks"),
    Reading: ("reading of a file", "readings of files"),
    Download: ("download", "downloads"),
}


def findings() -> Iterator[Finding]:
    """All that is the case now, in a few queries.

    Each look stands alone: what one of them raises is raised after the findings of all others.
    """
    now = timezone.now()
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        partial(drifts, now),
        partial(failures, now),
        blocked_work,
        lonely_queues,
        stuck_workers,
        open_cages,
        partial(silent_scorers, now),
        *machinery.looks(now),
    )
    failed: Exception | None = None
    for look in looks:
        try:
            yield from look()
        except Exception as error:
            log.exception("a look for incidents failed: the others go on")
            failed = error
    if failed:
        raise failed


def drifts(now: datetime) -> Iterator[Finding]:
    """Drifts of late, and those whose rescoring goes on."""
    under_way = Q(opened_versions__rescorings_to__state__in=ACTIVE)
    drifted = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED).select_related("metric")
    going_on = set(drifted.filter(under_way).values_list("pk", flat=True))
    for check in drifted.filter(Q(finished_at__gt=now - LATELY) | Q(pk__in=going_on)).order_by("pk"):
        slug = check.metric.slug
        yield Finding(
            f"drift:{check.pk}",
            Incident.Kind.DRIFT,
            f"metric {slug}",
            f"The scorer of {slug} drifted: {check.statistics.get('decided_by') or 'see the check'}",
            f"{reverse('drift')}?metric={slug}&check={check.pk}",
            once=True,
            over=check.pk not in going_on,
        )


def failures(now: datetime) -> Iterator[Finding]:
    """Work that failed within a day and was not begun anew, by kind and reason."""
    for model, (one, many) in NAMES.items():
        failed = model.objects.filter(state=Work.State.FAILED, finished_at__gt=now - LATELY)
        kinds: Counter[FailureKind] = Counter()
        for fault, count in failed.order_by().values_list("fault").annotate(Count("pk")):
            kinds[kind_of(fault)] += count
        for reason, count in kinds.items():
            yield Finding(
                f"failed:{one}:{reason.value}",
                Incident.Kind.FAILED,
                many,
                f"{count} {one if count == 1 else many} failed. {reason.label}.",
                reverse("operate"),
            )


def blocked_work() -> Iterator[Finding]:
    """Work that waits for the board to be mended, by what for; that a scorer does not answer has its own patience."""
    blocked: dict[FailureKind, Counter[str]] = {}
    for model, (one, many) in NAMES.items():
        waiting = model.objects.filter(state=Work.State.QUEUED, waits_since__lt=Now() - SOON)
        rows = waiting.exclude(fault="ScorerUnavailable").order_by().values_list("fault")
        for fault, count in rows.annotate(Count("pk")):
            blocked.setdefault(kind_of(fault), Counter())[many if count > 1 else one] += count
    for kind, counts in blocked.items():
        pieces = ", ".join(f"{count} {name}" for name, count in counts.items())
        yield Finding(
            f"waiting:{kind.value}",
            Incident.Kind.WAITING,
            "work",
            f"{kind.label}: {pieces} wait until that is mended, and go on by themselves.",
            reverse("operate"),
        )


def lonely_queues() -> Iterator[Finding]:
    """Queues on which work waits, and no worker gives a sign of life."""
    for queue, count in queues_without_workers().items():
        yield Finding(
            f"workers:{queue}",
            Incident.Kind.WORKERS,
            f"queue {queue}",
            f"{count} pieces of work wait on the queue {queue}, and no worker of it gives a sign of life.",
            reverse("operate"),
        )


def stuck_workers() -> Iterator[Finding]:
    """Workers that live, and go on with work that was taken from them."""
    for worker in Worker.objects.alive().exclude(stuck_since=None):
        yield Finding(
            f"stuck:{worker.name}",
            Incident.Kind.STUCK,
            f"worker {worker.name}",
            f"{worker.name} is stuck at {worker.stuck_at}: it does no other work until it is restarted.",
            reverse("operate-workers"),
        )


def open_cages() -> Iterator[Finding]:
    """Workers that refuse work because their host lacks a protection that the settings require."""
    for worker in Worker.objects.alive() if settings.CAGE == "required" else ():
        lacking = [row["title"].lower() for row in worker.cage if row["holds"] is False]
        if lacking:
            yield Finding(
                f"cage:{worker.name}",
                Incident.Kind.CAGE,
                f"worker {worker.name}",
                f"{worker.name} runs no models: its host lacks {', '.join(lacking)}, and CAGE=required asks for it.",
                reverse("operate-workers"),
            )


def silent_scorers(now: datetime) -> Iterator[Finding]:
    """Scorers that have not answered for ALERT_SCORER_SECONDS: no check has a verdict, or entries wait for scores."""
    long_ago = now - timedelta(seconds=settings.ALERT_SCORER_SECONDS)
    unanswered = Q(verdict__in=["", ControlCheck.Verdict.UNAVAILABLE])
    waiting = Scoring.objects.filter(
        state=Work.State.QUEUED, fault__in=FAULTS[FailureKind.SCORER], started_at__lt=long_ago
    ).order_by()
    silent = set(waiting.values_list("metric_version__metric", flat=True))
    ended = ControlCheck.objects.filter(state__in=ENDED, finished_at__isnull=False)
    for pk in set(ended.filter(unanswered).order_by().values_list("metric", flat=True)):
        answered = ended.filter(metric=pk).exclude(unanswered).order_by("-finished_at").first()
        since = ended.filter(unanswered, metric=pk).order_by("finished_at")
        first = (since.filter(finished_at__gt=answered.finished_at) if answered else since).first()
        if first and first.finished_at and first.finished_at < long_ago:
            silent.add(pk)
    for metric in Metric.objects.filter(pk__in=silent):
        yield Finding(
            f"scorer:{metric.slug}",
            Incident.Kind.SCORER,
            f"metric {metric.slug}",
            f"The scorer {metric.scorer} of {metric.slug} has given no scores for long: nothing new is published.",
            f"{reverse('drift')}?metric={metric.slug}",
        )
