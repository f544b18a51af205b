"""What the machinery lacks: hosts that disagree, a sweep that stopped, a broker, a store, a disk, work that stands."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import F, Q
from django.urls import reverse

from leaderboard.models import (
    Artefact,
    ControlCheck,
    ControlSet,
    Incident,
    MetricVersion,
    Release,
    Rescoring,
    Scoring,
    Work,
    Worker,
)
from leaderboard.models.work import database_now
from leaderboard.services.alerts.finding import Finding
from leaderboard.services.artefacts import StorageAway, require_storage
from leaderboard.services.checks import ANSWERED, is_braked
from leaderboard.services.failure_kinds import kind_of
from leaderboard.services.file_marks import entries_of
from leaderboard.services.openings import BEING_OPENED
from leaderboard.services.queue import BROKER_SECONDS
from leaderboard.services.signs_of_life import seconds_since
from leaderboard.services.workers import connected

GB = 1e9
DAY = timedelta(days=1)
MOST_NAMED = 5  # files or entries in a sentence
TRIED_OFTEN = 2  # attempts that came to nothing
WAITS_LONG = timedelta(seconds=45)  # for the board to be mended


def looks(now: datetime) -> tuple[Callable[[], Iterator[Finding]], ...]:
    """What looks for one kind of finding each."""
    return (
        other_code,
        partial(disagreements, now),
        brakes,
        silent_beat,
        late_sweep,
        silent_broker,
        storage_away,
        full_disks,
        lost_files,
        standing_rescorings,
        retried_work,
    )


def other_code() -> Iterator[Finding]:
    """Workers that take no work because their code is not the board's."""
    for worker in Worker.objects.alive().exclude(refusal=""):
        summary = f"{worker.name} takes no work: {worker.refusal}."
        yield _finding(Incident.Kind.HOSTS, f"code:{worker.name}", f"worker {worker.name}", summary, "operate-workers")


def disagreements(now: datetime) -> Iterator[Finding]:
    """Hosts that found a drift within a day which another host did not see, and that have agreed on nothing since."""
    checks = ControlCheck.objects.filter(verdict__in=ANSWERED).exclude(first_host="").exclude(first_host=F("host"))
    for check in checks.filter(finished_at__gt=now - DAY).select_related("metric"):
        since = ControlCheck.objects.filter(metric=check.metric_id, host=check.first_host, verdict__in=ANSWERED)
        if since.filter(finished_at__gt=check.finished_at).exists():
            continue
        slug = check.metric.slug
        summary = (
            f"{check.first_host} found that the scorer of {slug} drifted ({check.first_finding}), and {check.host} "
            f"scores as at first: {check.first_host} gets no work of {slug}. Compare the two hosts."
        )
        key = f"disagree:{slug}:{check.first_host}"
        yield Finding(key, Incident.Kind.HOSTS, f"host {check.first_host}", summary, _drift_page(slug))


def brakes() -> Iterator[Finding]:
    """Metrics whose scorer drifts again and again, and that wait for an operator."""
    drifted = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED, opened_versions=None)
    controls = ControlSet.objects.filter(checks__in=drifted, metric_version__status=MetricVersion.Status.CURRENT)
    for control in controls.select_related("metric_version__metric").distinct():
        if not is_braked(control):
            continue
        slug = control.metric_version.metric.slug
        summary = (
            f"The scorer of {slug} drifts again and again: nothing is scored again by itself. Look at its checks, then "
            f"`manage.py rescore {slug}`."
        )
        yield Finding(f"brake:{slug}", Incident.Kind.BRAKE, f"metric {slug}", summary, _drift_page(slug))


def silent_beat() -> Iterator[Finding]:
    """Beat, where it has not looked for incidents for long: a worker does then."""
    seconds = beat_is_late_by()
    if seconds is not None:
        summary = (
            f"Beat has given no sign of life for {seconds:.0f} s. Nothing is due by itself any more: no sweep, no "
            "check, no scrub, no letter. Start it again."
        )
        yield _finding(Incident.Kind.BEAT, "beat", "beat", summary, "operate-workers")


def beat_is_late_by() -> float | None:
    """Seconds since beat looked for incidents, where that is too long ago; else None."""
    seconds = seconds_since("look")
    return seconds if seconds is not None and seconds > settings.ALERT_SWEEP_SECONDS else None


def late_sweep() -> Iterator[Finding]:
    """The sweep that workers do for beat, where it stopped."""
    seconds = sweep_is_late_by()
    if seconds is not None:
        summary = f"Nobody has looked for waiting work for {seconds:.0f} s: beat, the broker or all workers are down."
        yield _finding(Incident.Kind.SWEEP, "sweep", "beat and workers", summary, "operate-workers")


def sweep_is_late_by() -> float | None:
    """Seconds since the last sweep, or since the board was installed, where that is too long ago; else None."""
    seconds = seconds_since("sweep")
    if seconds is None:
        release = Release.objects.last()
        seconds = (database_now() - release.installed_at).total_seconds() if release else 0.0
    return seconds if seconds > settings.ALERT_SWEEP_SECONDS else None


def silent_broker() -> Iterator[Finding]:
    """The broker, where it takes no connection."""
    try:
        with connected(BROKER_SECONDS):
            return
    except Exception as error:  # noqa: BLE001 (whatever it is: no message comes through)
        summary = f"The broker does not answer ({type(error).__name__}): no work begins until it does."
    yield _finding(Incident.Kind.BROKER, "broker", "broker", summary, "operate-workers")


def storage_away() -> Iterator[Finding]:
    """The storage, where the file that marks it cannot be read."""
    try:
        require_storage()
    except StorageAway as error:
        yield _finding(Incident.Kind.STORAGE, "storage", "storage", f"{error}.", "operate")


def full_disks() -> Iterator[Finding]:
    """Hosts with less room than ALERT_DISK_GB where they write."""
    free = {settings.HOST: shutil.disk_usage(settings.VAR).free}
    for worker in Worker.objects.alive().filter(disk_free__isnull=False):
        host = worker.host or worker.name
        free[host] = min(free.get(host, worker.disk_free or 0), worker.disk_free or 0)
    for host, left in free.items():
        if left < settings.ALERT_DISK_GB * GB:
            summary = f"{host} has {left / GB:.1f} GB free in PLUMBLINE_VAR: make room before work has to wait for it."
            yield _finding(Incident.Kind.DISK, f"disk:{host}", f"host {host}", summary, "operate-workers")


def lost_files() -> Iterator[Finding]:
    """Stored files that are damaged or missing, each with the entries whose numbers rest on it."""
    for artefact in Artefact.objects.filter(state__in=Artefact.LOST):
        scorings = entries_of(artefact).filter(state=Work.State.DONE)
        entries = [f"{of.model.slug} in {of.metric_version.metric.slug}" for of in scorings[: MOST_NAMED + 1]]
        more = " and others" if len(entries) > MOST_NAMED else ""
        needed = f" The numbers of {', '.join(entries[:MOST_NAMED])}{more} rest on it." if entries else ""
        summary = f"The stored file {artefact.sha256} ({artefact.kind}) is {artefact.get_state_display().lower()}."
        key = f"file:{artefact.sha256}"
        yield _finding(Incident.Kind.FILES, key, f"artefact {artefact.sha256}", summary + needed, "operate-files")


def standing_rescorings() -> Iterator[Finding]:
    """Rescorings that run and do not come on, though no other scoring does either."""
    since = database_now() - timedelta(seconds=settings.ALERT_STILL_SECONDS)
    moved = Q(progressed_at__gt=since) | Q(finished_at__gt=since) | Q(created_at__gt=since)
    if Scoring.objects.filter(moved).exists() or ControlCheck.objects.filter(moved).exists():
        return
    for rescoring in Rescoring.objects.filter(state=Rescoring.State.RUNNING).select_related("metric", "to_version"):
        waiting = rescoring.to_version.scorings.unfinished()
        spread = waiting.filter(reason__startswith=BEING_OPENED)
        if rescoring.created_at > since or spread.exists():
            continue
        first = waiting.exclude(reason="").first()
        slug = rescoring.metric.slug
        summary = (
            f"The rescoring of {slug} to version {rescoring.to_version.number} stands still at {rescoring.done} of "
            f"{rescoring.total}{': ' + first.reason if first else ''}."
        )
        yield _finding(Incident.Kind.STILL, f"still:{rescoring.pk}", f"metric {slug}", summary, "operate")


def retried_work() -> Iterator[Finding]:
    """Work that is tried again and again, or waits for the board, by kind and reason: before it ends."""
    waits = Q(waits_since__lt=database_now() - WAITS_LONG) | Q(attempts__gte=TRIED_OFTEN)
    for kind in Work.__subclasses__():
        title = str(kind._meta.verbose_name)
        faults = kind.objects.filter(waits, state=Work.State.QUEUED).exclude(fault="").values_list("fault", flat=True)
        reasons = Counter(kind_of(fault) for fault in faults.order_by())
        for reason, count in reasons.items():
            summary = f"{count} of the kind {title} come to nothing again and again. {reason.label}."
            yield _finding(
                Incident.Kind.RETRYING, f"retrying:{title}:{reason.value}", f"{title}s", summary, "operate-work"
            )


def _finding(kind: str, key: str, subject: str, summary: str, page: str) -> Finding:
    return Finding(key, kind, subject, summary, reverse(page))


def _drift_page(slug: str) -> str:
    return f"{reverse('drift')}?metric={slug}"
