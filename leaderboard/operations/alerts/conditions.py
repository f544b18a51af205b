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

from leaderboard.models import (
    WORK_TABLES,
    ControlCheck,
    Incident,
    Metric,
    MetricVersion,
    Provenance,
    Rescoring,
    RetiredScorer,
    Scoring,
    Service,
    Work,
    Worker,
)
from leaderboard.operations.alerts import machinery
from leaderboard.operations.alerts.finding import AlertFinding
from leaderboard.services.failures import FAULTS, FailureKind, failure_called
from leaderboard.services.scorers import end_of
from leaderboard.services.signs_of_life import queues_without_workers
from scoring.scorers import service as service_client

log = logging.getLogger(__name__)

SOON = timedelta(seconds=30)  # shorter problems need nobody
NOTICES = (60, 30)  # days before the end of a scorer on which operators are told
LATELY = timedelta(days=1)  # older failures and drifts are no news
ACTIVE = (Rescoring.State.RUNNING, Rescoring.State.PAUSED)
ENDED = (Work.State.DONE, Work.State.FAILED)


def findings(moment: datetime) -> Iterator[AlertFinding]:
    """Find all problems of `moment`, which is now by the clock of the database, in a few queries.

    Each look stands alone: what one of them raises is raised after the findings of all others.
    """
    looks: tuple[Callable[[], Iterator[AlertFinding]], ...] = (
        partial(drifts, moment),
        partial(changed_services, moment),
        partial(failures, moment),
        blocked_work,
        lonely_queues,
        stuck_workers,
        open_cages,
        partial(silent_scorers, moment),
        ending_scorers,
        partial(ended_scorers, moment),
        *machinery.looks(moment),
    )
    failure: Exception | None = None
    for look in looks:
        try:
            yield from look()
        except Exception as error:
            log.exception("a look for incidents failed: the others go on")
            failure = error
    if failure:
        raise failure


def drifts(moment: datetime) -> Iterator[AlertFinding]:
    """Find recent drifts, and older ones whose rescoring is under way."""
    under_way = Q(opened_versions__rescorings_to__state__in=ACTIVE)
    drift_checks = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED).select_related("metric")
    unfinished_keys = set(drift_checks.filter(under_way).values_list("pk", flat=True))
    for check in drift_checks.filter(Q(finished_at__gt=moment - LATELY) | Q(pk__in=unfinished_keys)).order_by("pk"):
        slug = check.metric.slug
        yield AlertFinding(
            f"drift:{check.pk}",
            Incident.Kind.DRIFT,
            f"metric {slug}",
            f"The scorer of {slug} drifted: {check.statistics.get('decided_by') or 'see the check'}",
            f"{reverse('drift')}?metric={slug}&check={check.pk}",
            once=True,
            over=check.pk not in unfinished_keys,
        )


def changed_services(moment: datetime) -> Iterator[AlertFinding]:
    """Find services that were found to be other ones within a day."""
    changed_rows = Service.objects.filter(model__service_changed_at__gt=moment - LATELY)
    for service in changed_rows.select_related("model", "successor").order_by("pk"):
        goes_on = f" It goes on as {service.successor.slug}: evaluate that." if service.successor else ""
        yield AlertFinding(
            f"service:{service.model.slug}",
            Incident.Kind.SERVICE,
            f"model {service.model.slug}",
            f"The service behind {service.model.slug} is another one: {service.change}.{goes_on}",
            service.model.get_absolute_url(),
            once=True,
            over=True,
        )


def failures(moment: datetime) -> Iterator[AlertFinding]:
    """Find work that failed within a day and was not retried, by kind and reason."""
    for table in WORK_TABLES:
        one, many = table.kind.one, table.kind.many
        failed_works = table.objects.filter(state=Work.State.FAILED, finished_at__gt=moment - LATELY)
        kinds: Counter[FailureKind] = Counter()
        for fault, count in failed_works.order_by().values_list("fault").annotate(Count("pk")):
            kinds[failure_called(fault).kind] += count
        for reason, count in kinds.items():
            yield AlertFinding(
                f"failed:{one}:{reason.value}",
                Incident.Kind.FAILED,
                many,
                f"{count} {one if count == 1 else many} failed. {reason.label}.",
                reverse("operate"),
            )


def blocked_work() -> Iterator[AlertFinding]:
    """Find work that waits for a repair of the board, by kind of failure. Silent scorers have a look of their own."""
    counts_by_kind: dict[FailureKind, Counter[str]] = {}
    for table in WORK_TABLES:
        queued_works = table.objects.filter(state=Work.State.QUEUED, waits_since__lt=Now() - SOON)
        rows = queued_works.exclude(fault="ScorerUnavailable").order_by().values_list("fault")
        for fault, count in rows.annotate(Count("pk")):
            name = table.kind.many if count > 1 else table.kind.one
            counts_by_kind.setdefault(failure_called(fault).kind, Counter())[name] += count
    for kind, counts in counts_by_kind.items():
        pieces = ", ".join(f"{count} {name}" for name, count in counts.items())
        yield AlertFinding(
            f"waiting:{kind.value}",
            Incident.Kind.WAITING,
            "work",
            f"{kind.label}: {pieces} wait until that is fixed, then go on by themselves.",
            reverse("operate"),
        )


def lonely_queues() -> Iterator[AlertFinding]:
    """Find queues with waiting work and no living worker."""
    for queue, count in queues_without_workers().items():
        yield AlertFinding(
            f"workers:{queue}",
            Incident.Kind.WORKERS,
            f"queue {queue}",
            f"{count} pieces of work wait on the queue {queue}, and no worker of it gives a sign of life.",
            reverse("operate"),
        )


def stuck_workers() -> Iterator[AlertFinding]:
    """Find workers that go on with work whose lease they lost."""
    for worker in Worker.objects.alive().exclude(stuck_since=None):
        yield AlertFinding(
            f"stuck:{worker.name}",
            Incident.Kind.STUCK,
            f"worker {worker.name}",
            f"{worker.name} is stuck at {worker.stuck_at}: it does no other work until it is restarted.",
            reverse("operate_workers"),
        )


def open_cages() -> Iterator[AlertFinding]:
    """Find workers that refuse work because their host lacks a required protection."""
    for worker in Worker.objects.alive() if settings.CAGE == "required" else ():
        gaps = [row["title"].lower() for row in worker.cage if row["holds"] is False]
        if gaps:
            yield AlertFinding(
                f"cage:{worker.name}",
                Incident.Kind.CAGE,
                f"worker {worker.name}",
                f"{worker.name} runs no models: its host lacks {', '.join(gaps)}, and CAGE=required asks for it.",
                reverse("operate_workers"),
            )


def silent_scorers(moment: datetime) -> Iterator[AlertFinding]:
    """Find scorers silent for ALERT_SCORER_SECONDS: their checks have no verdict, or entries wait for scores."""
    long_ago = moment - timedelta(seconds=settings.ALERT_SCORER_SECONDS)
    without_verdict = Q(verdict__in=["", ControlCheck.Verdict.UNAVAILABLE])
    late_scorings = Scoring.objects.filter(
        state=Work.State.QUEUED, fault__in=FAULTS[FailureKind.SCORER], started_at__lt=long_ago
    ).order_by()
    silent_metrics = set(late_scorings.values_list("metric_version__metric", flat=True))
    ended_checks = ControlCheck.objects.filter(state__in=ENDED, finished_at__isnull=False)
    for pk in set(ended_checks.filter(without_verdict).order_by().values_list("metric", flat=True)):
        last_answer = ended_checks.filter(metric=pk).exclude(without_verdict).order_by("-finished_at").first()
        failed_checks = ended_checks.filter(without_verdict, metric=pk).order_by("finished_at")
        first = (
            failed_checks.filter(finished_at__gt=last_answer.finished_at) if last_answer else failed_checks
        ).first()
        if first and first.finished_at and first.finished_at < long_ago:
            silent_metrics.add(pk)
    in_use = Metric.objects.exclude(scorer__in=RetiredScorer.objects.values("name"))
    for metric in in_use.filter(pk__in=silent_metrics):
        yield AlertFinding(
            f"scorer:{metric.slug}",
            Incident.Kind.SCORER,
            f"metric {metric.slug}",
            f"The scorer {metric.scorer} of {metric.slug} has given no scores for long: nothing new is published.",
            f"{reverse('drift')}?metric={metric.slug}",
        )


def ending_scorers() -> Iterator[AlertFinding]:
    """Find scorers behind numbers of this board whose announced end is near; each notice stays until the end."""
    retired_names = set(RetiredScorer.objects.values_list("name", flat=True))
    for name in sorted(_measuring_scorers() - retired_names):
        last_day = end_of(name)
        for days in NOTICES:
            if last_day and (last_day - service_client.today()).days <= days:
                yield AlertFinding(
                    f"ending:{name}:{days}",
                    Incident.Kind.ENDING,
                    f"scorer {name}",
                    f"{name} ends on {last_day:%-d %B %Y}, within {days} days: choose a successor for "
                    f"{_metrics_of(name)}. Nothing new is scored with it from then on, and what it scored stays.",
                    reverse("operate"),
                )


def ended_scorers(moment: datetime) -> Iterator[AlertFinding]:
    """Find scorers behind numbers of this board that were retired within a day."""
    names = _measuring_scorers()
    for row in RetiredScorer.objects.filter(retired_at__gt=moment - LATELY, name__in=names):
        yield AlertFinding(
            f"retired:{row.name}:{row.pk}",
            Incident.Kind.ENDING,
            f"scorer {row.name}",
            f"{row.name} is retired: {row.reason}. Its rankings stay; {_metrics_of(row.name)} go on once they are "
            "rescored with another scorer.",
            reverse("operate"),
            once=True,
            over=True,
        )


def _measuring_scorers() -> set[str]:
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED)
    return set(current.values_list("scorer", flat=True))


def _metrics_of(scorer: str) -> str:
    return ", ".join(Metric.objects.filter(scorer=scorer).values_list("slug", flat=True)) or "its metrics"
