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
    WORK_TABLES,
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
from leaderboard.models.clock import database_now
from leaderboard.operations.alerts.finding import AlertFinding
from leaderboard.services.artefacts import require_storage
from leaderboard.services.backup_state import describe_problem
from leaderboard.services.checks import ANSWERED, is_braked
from leaderboard.services.failures import failure_called
from leaderboard.services.file_marks import entries_of
from leaderboard.services.queue import BROKER_SECONDS
from leaderboard.services.signs_of_life import seconds_since
from leaderboard.services.storage_marks import find_mismatch
from leaderboard.services.storage_probe import write_probe
from leaderboard.services.workers import connect_to_broker
from leaderboard.storage import StorageAway

GB = 1e9
DAY = timedelta(days=1)
MOST_NAMED = 5  # files or entries in a sentence
MOST_LOST = 10  # files with an incident each
TRIED_OFTEN = 2  # failed attempts
WAITS_LONG = timedelta(seconds=45)  # for a repair of the board


def looks(moment: datetime) -> tuple[Callable[[], Iterator[AlertFinding]], ...]:
    """Return the functions that each look for one kind of problem."""
    return (
        refused_workers,
        silent_workers,
        partial(disagreements, moment),
        brakes,
        silent_beat,
        late_sweep,
        silent_broker,
        storage_away,
        full_disks,
        lost_files,
        other_times,
        partial(late_backups, moment),
        standing_rescorings,
        retried_work,
    )


def refused_workers() -> Iterator[AlertFinding]:
    """Find workers that take no work because their code or their libraries are not the board's."""
    for worker in Worker.objects.alive().exclude(refusal=""):
        summary = f"{worker.name} takes no work: {worker.refusal}."
        yield _finding(Incident.Kind.HOSTS, f"code:{worker.name}", f"worker {worker.name}", summary, "operate_workers")


def silent_workers() -> Iterator[AlertFinding]:
    """Find workers that fell silent and were not stopped in order: a host or its network is away."""
    for worker in Worker.objects.silent():
        summary = (
            f"{worker.name} has given no sign of life since {worker.beat_at:%Y-%m-%d %H:%M} UTC. Others do its work. "
            "Look whether its host reaches the database and the broker; it goes on by itself once it does."
        )
        yield _finding(Incident.Kind.HOSTS, f"away:{worker.name}", f"worker {worker.name}", summary, "operate_workers")


def disagreements(moment: datetime) -> Iterator[AlertFinding]:
    """Find hosts whose drift of the last day another host did not confirm, without agreement since."""
    checks = ControlCheck.objects.filter(verdict__in=ANSWERED).exclude(first_host="").exclude(first_host=F("host"))
    for check in checks.filter(finished_at__gt=moment - DAY).select_related("metric"):
        later_checks = ControlCheck.objects.filter(metric=check.metric_id, host=check.first_host, verdict__in=ANSWERED)
        if later_checks.filter(finished_at__gt=check.finished_at).exists():
            continue
        slug = check.metric.slug
        summary = (
            f"{check.first_host} found that the scorer of {slug} drifted ({check.first_finding}), and {check.host} "
            f"scores as at first: {check.first_host} gets no work of {slug}. Compare the two hosts."
        )
        key = f"disagree:{slug}:{check.first_host}"
        yield AlertFinding(key, Incident.Kind.HOSTS, f"host {check.first_host}", summary, _drift_page(slug))


def brakes() -> Iterator[AlertFinding]:
    """Find metrics whose scorer drifts repeatedly, and that wait for an operator."""
    drift_checks = ControlCheck.objects.filter(verdict=ControlCheck.Verdict.DRIFTED, opened_versions=None)
    controls = ControlSet.objects.filter(checks__in=drift_checks, metric_version__status=MetricVersion.Status.CURRENT)
    for control in controls.select_related("metric_version__metric").distinct():
        if not is_braked(control):
            continue
        slug = control.metric_version.metric.slug
        summary = (
            f"The scorer of {slug} drifts again and again: nothing is scored again by itself. Look at its checks, then "
            f"`manage.py rescore {slug}`."
        )
        yield AlertFinding(f"brake:{slug}", Incident.Kind.BRAKE, f"metric {slug}", summary, _drift_page(slug))


def silent_beat() -> Iterator[AlertFinding]:
    """Find a beat that has not looked for incidents for too long; a worker does it instead."""
    seconds = beat_is_late_by()
    if seconds is not None:
        summary = (
            f"Beat has given no sign of life for {seconds:.0f} s. Nothing is due by itself any more: no sweep, no "
            "check, no scrub, no letter. Start it again."
        )
        yield _finding(Incident.Kind.BEAT, "beat", "beat", summary, "operate_workers")


def beat_is_late_by() -> float | None:
    """Return the seconds since beat looked for incidents if that is too long ago; else None."""
    seconds = seconds_since("look")
    return seconds if seconds is not None and seconds > settings.ALERT_SWEEP_SECONDS else None


def late_sweep() -> Iterator[AlertFinding]:
    """Find a sweep that stopped."""
    seconds = sweep_is_late_by()
    if seconds is not None:
        summary = f"Nobody has looked for waiting work for {seconds:.0f} s: beat, the broker or all workers are down."
        yield _finding(Incident.Kind.SWEEP, "sweep", "beat and workers", summary, "operate_workers")


def sweep_is_late_by() -> float | None:
    """Return the seconds since the last sweep or the installation if that is too long ago; else None."""
    seconds = seconds_since("sweep")
    if seconds is None:
        release = Release.objects.last()
        seconds = (database_now() - release.installed_at).total_seconds() if release else 0.0
    return seconds if seconds > settings.ALERT_SWEEP_SECONDS else None


def silent_broker() -> Iterator[AlertFinding]:
    """Find a broker that takes no connection."""
    try:
        with connect_to_broker(BROKER_SECONDS):
            return
    except Exception as error:  # noqa: BLE001 (whatever it is: no message comes through)
        summary = f"The broker does not answer ({type(error).__name__}): no work begins until it does."
    yield _finding(Incident.Kind.BROKER, "broker", "broker", summary, "operate_workers")


def storage_away() -> Iterator[AlertFinding]:
    """Find a storage whose mark cannot be read, or that takes no files: work has to wait for either."""
    try:
        require_storage()
        write_probe()
        return
    except StorageAway as error:
        summary = f"{error}."
    except OSError as error:
        problem = error.strerror or type(error).__name__
        summary = f"The storage takes no files ({problem}): mount it so that it can be written to, or make room."
    yield _finding(Incident.Kind.STORAGE, "storage", "storage", summary, "operate")


def full_disks() -> Iterator[AlertFinding]:
    """Find hosts with less than ALERT_DISK_GB of free disk."""
    free = {settings.HOST: shutil.disk_usage(settings.VAR).free}
    for worker in Worker.objects.alive().filter(disk_free__isnull=False):
        host = worker.host or worker.name
        free[host] = min(free.get(host, worker.disk_free or 0), worker.disk_free or 0)
    for host, room in free.items():
        if room < settings.ALERT_DISK_GB * GB:
            summary = f"{host} has {room / GB:.1f} GB free in PLUMBLINE_VAR: make room before work has to wait for it."
            yield _finding(Incident.Kind.DISK, f"disk:{host}", f"host {host}", summary, "operate_workers")


def lost_files() -> Iterator[AlertFinding]:
    """Find damaged and missing files, each with the entries whose numbers rest on it; many of them together."""
    lost_artefacts = Artefact.objects.filter(state__in=Artefact.LOST)
    count = lost_artefacts.count()
    if count > MOST_LOST:
        summary = f"{count} stored files are damaged or missing: look at the storage first. The page names them."
        yield _finding(Incident.Kind.FILES, "files:many", "storage", summary, "operate_files")
        return
    for artefact in lost_artefacts:
        scorings = entries_of(artefact).filter(state=Work.State.DONE)
        entries = [
            f"{scoring.model.slug} in {scoring.metric_version.metric.slug}" for scoring in scorings[: MOST_NAMED + 1]
        ]
        more = " and others" if len(entries) > MOST_NAMED else ""
        consequence = f" The numbers of {', '.join(entries[:MOST_NAMED])}{more} rest on it." if entries else ""
        summary = f"The stored file {artefact.sha256} ({artefact.kind}) is {artefact.get_state_display().lower()}."
        key = f"file:{artefact.sha256}"
        yield _finding(Incident.Kind.FILES, key, f"artefact {artefact.sha256}", summary + consequence, "operate_files")


def other_times() -> Iterator[AlertFinding]:
    """Find a database and a storage that are not of the same time: one of them was put back alone."""
    try:
        require_storage()
    except StorageAway:
        return  # which is a finding of its own
    if mismatch := find_mismatch():
        yield _finding(Incident.Kind.FILES, "files:time", "storage", mismatch, "operate")


def late_backups(moment: datetime) -> Iterator[AlertFinding]:
    """Find a newest backup that is too old, or an attempt that failed since, on a board that has them on a schedule."""
    if problem := describe_problem(moment):
        yield _finding(Incident.Kind.BACKUP, "backup", "backup", problem, "operate")


def standing_rescorings() -> Iterator[AlertFinding]:
    """Find rescorings without progress while no other scoring progresses either."""
    deadline = database_now() - timedelta(seconds=settings.ALERT_STILL_SECONDS)
    is_recent = Q(progressed_at__gt=deadline) | Q(finished_at__gt=deadline) | Q(created_at__gt=deadline)
    if Scoring.objects.filter(is_recent).exists() or ControlCheck.objects.filter(is_recent).exists():
        return
    for rescoring in Rescoring.objects.filter(state=Rescoring.State.RUNNING).select_related("metric", "to_version"):
        unfinished_scorings = rescoring.to_version.scorings.unfinished()
        spread = unfinished_scorings.filter(waits_for=Work.WaitsFor.OPENING)
        if rescoring.created_at > deadline or spread.exists():
            continue
        first = unfinished_scorings.exclude(reason="").first()
        slug = rescoring.metric.slug
        summary = (
            f"The rescoring of {slug} to version {rescoring.to_version.number} stands still at {rescoring.done} of "
            f"{rescoring.total}{': ' + first.reason if first else ''}."
        )
        yield _finding(Incident.Kind.STILL, f"still:{rescoring.pk}", f"metric {slug}", summary, "operate")


def retried_work() -> Iterator[AlertFinding]:
    """Find unfinished work that is retried repeatedly or waits for the board, by kind and reason."""
    waits = Q(waits_since__lt=database_now() - WAITS_LONG) | Q(attempts__gte=TRIED_OFTEN)
    for table in WORK_TABLES:
        one, many = table.kind.one, table.kind.many
        faults = table.objects.filter(waits, state=Work.State.QUEUED).exclude(fault="").values_list("fault", flat=True)
        reasons = Counter(failure_called(fault).kind for fault in faults.order_by())
        for reason, count in reasons.items():
            summary = f"{count} {one if count == 1 else many} came to nothing again and again. {reason.label}."
            yield _finding(Incident.Kind.RETRYING, f"retrying:{one}:{reason.value}", many, summary, "operate_work")


def _finding(kind: str, key: str, subject: str, summary: str, page: str) -> AlertFinding:
    return AlertFinding(key, kind, subject, summary, reverse(page))


def _drift_page(slug: str) -> str:
    return f"{reverse('drift')}?metric={slug}"
