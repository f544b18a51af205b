"""Metrics for Prometheus, from the database: the same whichever web process is asked, and after any restart."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Min, Q, Sum
from django.db.models.functions import Now
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from leaderboard.models import (
    WORK_TABLES,
    Artefact,
    ControlCheck,
    Incident,
    OutboxMessage,
    Pulse,
    Work,
    Worker,
)
from leaderboard.operations.monitoring import requests
from leaderboard.services.backup_state import PULSE, newest_backup
from leaderboard.services.build import code
from leaderboard.services.failures import FailureKind, failure_called
from leaderboard.services.signs_of_life import count_waiting

TIMED = [table for table in WORK_TABLES if table.kind.evaluates]
BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)  # seconds
LATELY = timedelta(hours=1)


def exposition() -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(BoardCollector())
    requests.collect_into(registry)
    return generate_latest(registry)


class BoardCollector(Collector):
    """The board's metrics, in a constant number of queries."""

    def describe(self) -> list[Metric]:
        return []  # or registering it would ask the database

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("plumbline_build", "The version that runs, always 1.", labels=["version"])
        build.add_metric([code()["version"]], 1)
        yield build
        yield from work_families()
        for table in TIMED:
            yield durations(table)
        yield from texts()
        yield from checks()
        yield from machinery()


def work_families() -> Iterator[Metric]:
    """Count work by state, and the failures that stopped or delay it."""
    states = GaugeMetricFamily("plumbline_work", "Pieces of work by kind and state.", labels=["kind", "state"])
    failure_gauge = GaugeMetricFamily("plumbline_failed", "Work that failed, by reason.", labels=["kind", "reason"])
    retry_gauge = GaugeMetricFamily(
        "plumbline_retrying", "Work that waits for another attempt, by reason.", labels=["kind", "reason"]
    )
    for table in WORK_TABLES:
        kind = table.kind.key
        counts = {state: Counter[str]() for state in Work.State.values}
        retry_counts: Counter[str] = Counter()
        rows = table.objects.order_by().values_list("state", "fault")
        for state, fault, count in rows.annotate(Count("pk")):
            counts[state][failure_called(fault).kind] += count
            if state == Work.State.QUEUED and fault:
                retry_counts[failure_called(fault).kind] += count
        for state, by_reason in counts.items():
            states.add_metric([kind, state], by_reason.total())
        for reason in FailureKind.values:
            failure_gauge.add_metric([kind, reason], counts[Work.State.FAILED][reason])
            retry_gauge.add_metric([kind, reason], retry_counts[reason])
    yield from (states, failure_gauge, retry_gauge)


def durations(table: type[Work]) -> Metric:
    """Measure the seconds of finished work, over all its attempts."""
    bucket_counts = {f"within_{bucket}": Count("pk", filter=Q(seconds__lte=bucket)) for bucket in BUCKETS}
    done_works = table.objects.filter(state=Work.State.DONE, seconds__gt=0)
    totals = done_works.aggregate(Count("pk"), Sum("seconds"), **bucket_counts)
    kind = table.kind.key
    buckets = [(str(float(bucket)), totals[f"within_{bucket}"]) for bucket in BUCKETS]
    family = HistogramMetricFamily(f"plumbline_{kind}_seconds", f"Seconds that a {kind} took.")
    family.add_metric([], [*buckets, ("+Inf", totals["pk__count"])], totals["seconds__sum"] or 0.0)
    return family


def texts() -> Iterator[Metric]:
    """Count the texts of finished work, and their recent pace."""
    total = CounterMetricFamily("plumbline_texts", "Texts of work that is done.", labels=["kind"])
    pace = GaugeMetricFamily(
        "plumbline_texts_per_second", "Texts by the second, of work that ended within an hour.", labels=["kind"]
    )
    late = Q(finished_at__gt=Now() - LATELY)
    for table in TIMED:
        done_works = table.objects.filter(state=Work.State.DONE, seconds__gt=0)
        sums = done_works.aggregate(all=Sum("done"), texts=Sum("done", filter=late), time=Sum("seconds", filter=late))
        total.add_metric([table.kind.key], sums["all"] or 0)
        pace.add_metric([table.kind.key], sums["texts"] / sums["time"] if sums["time"] else 0.0)
    yield from (total, pace)


def checks() -> Iterator[Metric]:
    """Count the verdicts of control checks by metric, with the time of the last one."""
    verdicts = CounterMetricFamily("plumbline_checks", "Control checks by verdict.", labels=["metric", "verdict"])
    last = GaugeMetricFamily(
        "plumbline_last_check_timestamp_seconds", "When the last control check ended.", labels=["metric"]
    )
    rows = ControlCheck.objects.filter(state=Work.State.DONE).order_by().values_list("metric__slug", "verdict")
    ends: dict[str, Any] = {}
    for slug, verdict, count, end in rows.annotate(Count("pk"), Max("finished_at")):
        verdicts.add_metric([slug, verdict], count)
        ends[slug] = max(filter(None, (ends.get(slug), end)), default=None)
    for slug, end in ends.items():
        if end:
            last.add_metric([slug], end.timestamp())
    yield from (verdicts, last)


def machinery() -> Iterator[Metric]:
    """Measure queues, workers, disks, files, incidents and messages about them."""
    depth = GaugeMetricFamily("plumbline_queue_depth", "Work that a worker could begin now.", labels=["queue"])
    waits = count_waiting()
    for queue, count in waits.items():
        depth.add_metric([queue], count)
    alive = GaugeMetricFamily("plumbline_workers", "Workers with a sign of life.", labels=["queue"])
    served_queues = [queue for worker in Worker.objects.alive() for queue in worker.queues]
    for queue in sorted({*waits, *served_queues}):
        alive.add_metric([queue], served_queues.count(queue))
    oldest = GaugeMetricFamily("plumbline_lease_age_seconds", "Age of the oldest heartbeat of running work.")
    running_works = (table.objects.filter(state=Work.State.RUNNING) for table in WORK_TABLES)
    ages = [rows.aggregate(age=Now() - Min("heartbeat_at"))["age"] for rows in running_works]
    oldest.add_metric([], max([age.total_seconds() for age in ages if age is not None], default=0.0))
    pulses = GaugeMetricFamily(
        "plumbline_last_done_timestamp_seconds", "When the sweep, the watch and the look ended last.", labels=["what"]
    )
    for name, moment in Pulse.objects.exclude(name__startswith=PULSE).values_list("name", "at"):  # backups have theirs
        pulses.add_metric([name], moment.timestamp())
    disks = GaugeMetricFamily("plumbline_disk_free_bytes", "Free in PLUMBLINE_VAR, by host.", labels=["host"])
    for host, free in (
        Worker.objects.alive()
        .exclude(host="")
        .values("host")
        .annotate(free=Min("disk_free"))
        .values_list("host", "free")
    ):
        disks.add_metric([host], free or 0)
    lost_files = GaugeMetricFamily("plumbline_files_lost", "Stored files that are damaged or missing.")
    lost_files.add_metric([], Artefact.objects.filter(state__in=Artefact.LOST).count())
    backups = GaugeMetricFamily("plumbline_last_backup_timestamp_seconds", "When the newest whole backup was begun.")
    if newest := newest_backup():
        backups.add_metric([], newest.begun_at.timestamp())
    interval = GaugeMetricFamily("plumbline_backup_interval_seconds", "Between two backups; 0: none are scheduled.")
    interval.add_metric([], settings.BACKUP_SECONDS)
    incidents = GaugeMetricFamily("plumbline_incidents", "Incidents that are not over.", labels=["kind"])
    incident_counts = dict(
        Incident.objects.filter(resolved_at=None).order_by().values_list("kind").annotate(number=Count("pk"))
    )
    for kind in Incident.Kind.values:
        incidents.add_metric([kind], incident_counts.get(kind, 0))
    alerts = GaugeMetricFamily("plumbline_alerts_undelivered", "Messages about incidents that nobody took yet.")
    alerts.add_metric([], OutboxMessage.objects.waiting().filter(kind=OutboxMessage.Kind.ALERT).count())
    yield from (depth, alive, oldest, pulses, disks, lost_files, backups, interval, incidents, alerts)
