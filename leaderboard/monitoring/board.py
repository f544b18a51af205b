"""Metrics for Prometheus, from the database: the same whichever web process is asked, and after any restart."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from leaderboard.models import (
    AlertMessage,
    Artefact,
    ControlCheck,
    Incident,
    Pulse,
    Reading,
    Run,
    Scoring,
    Work,
    Worker,
)
from leaderboard.monitoring import requests
from leaderboard.services.build import code
from leaderboard.services.failure_kinds import FailureKind, kind_of
from leaderboard.services.signs_of_life import waiting

KINDS: dict[str, type[Work]] = {"run": Run, "scoring": Scoring, "check": ControlCheck, "reading": Reading}
TIMED = ("run", "scoring")
BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400)  # seconds
LATELY = timedelta(hours=1)


def exposition() -> bytes:
    """What Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(Board())
    requests.collected(registry)
    return generate_latest(registry)


class Board(Collector):
    """The board's metrics, in a number of queries that does not depend on how much there is."""

    def describe(self) -> list[Metric]:
        return []  # or registering it would ask the database

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("plumbline_build", "The version that runs, always 1.", labels=["version"])
        build.add_metric([code()["version"]], 1)
        yield build
        yield from work_families()
        for kind in TIMED:
            yield durations(kind)
        yield from texts()
        yield from checks()
        yield from machinery()


def work_families() -> Iterator[Metric]:
    """How much work there is in which state, and what kinds of failures stopped it or hold it up."""
    states = GaugeMetricFamily("plumbline_work", "Pieces of work by kind and state.", labels=["kind", "state"])
    failed = GaugeMetricFamily("plumbline_failed", "Work that failed, by reason.", labels=["kind", "reason"])
    again = GaugeMetricFamily(
        "plumbline_retrying", "Work that waits for another attempt, by reason.", labels=["kind", "reason"]
    )
    for kind, model in KINDS.items():
        counts: dict[str, Counter[str]] = {}
        retried: Counter[str] = Counter()
        rows = model.objects.order_by().values_list("state", "fault")
        for state, fault, count in rows.annotate(Count("pk")):
            counts.setdefault(state, Counter())[kind_of(fault)] += count
        for state in Work.State.values:
            states.add_metric([kind, state], sum(counts.get(state, Counter()).values()))
        again_rows = model.objects.filter(state=Work.State.QUEUED).exclude(fault="").order_by().values_list("fault")
        for fault, count in again_rows.annotate(Count("pk")):
            retried[kind_of(fault)] += count
        for reason in FailureKind.values:
            failed.add_metric([kind, reason], counts.get(Work.State.FAILED, Counter())[reason])
            again.add_metric([kind, reason], retried[reason])
    yield from (states, failed, again)


def durations(kind: str) -> Metric:
    """Seconds of work that is done, over all its attempts."""
    within = {f"within_{bound}": Count("pk", filter=Q(seconds__lte=bound)) for bound in BUCKETS}
    found = (
        KINDS[kind]
        .objects.filter(state=Work.State.DONE, seconds__gt=0)
        .aggregate(Count("pk"), Sum("seconds"), **within)
    )
    buckets = [(str(float(bound)), found[f"within_{bound}"]) for bound in BUCKETS]
    family = HistogramMetricFamily(f"plumbline_{kind}_seconds", f"Seconds that a {kind} took.")
    family.add_metric([], [*buckets, ("+Inf", found["pk__count"])], found["seconds__sum"] or 0.0)
    return family


def texts() -> Iterator[Metric]:
    """Texts worked through, and how fast of late."""
    total = CounterMetricFamily("plumbline_texts", "Texts of work that is done.", labels=["kind"])
    pace = GaugeMetricFamily(
        "plumbline_texts_per_second", "Texts by the second, of work that ended within an hour.", labels=["kind"]
    )
    late = Q(finished_at__gt=timezone.now() - LATELY)
    for kind in TIMED:
        found = (
            KINDS[kind]
            .objects.filter(state=Work.State.DONE, seconds__gt=0)
            .aggregate(all=Sum("done"), texts=Sum("done", filter=late), time=Sum("seconds", filter=late))
        )
        total.add_metric([kind], found["all"] or 0)
        pace.add_metric([kind], found["texts"] / found["time"] if found["time"] else 0.0)
    yield from (total, pace)


def checks() -> Iterator[Metric]:
    """What control checks said, by metric, and when the last one did."""
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
    """Queues, workers, incidents and messages about them."""
    depth = GaugeMetricFamily("plumbline_queue_depth", "Work that a worker could begin now.", labels=["queue"])
    waits = waiting()
    for queue, count in waits.items():
        depth.add_metric([queue], count)
    alive = GaugeMetricFamily("plumbline_workers", "Workers with a sign of life.", labels=["queue"])
    served = [queue for worker in Worker.objects.alive() for queue in worker.queues]
    for queue in sorted({*waits, *served}):
        alive.add_metric([queue], served.count(queue))
    oldest = GaugeMetricFamily("plumbline_lease_age_seconds", "Age of the oldest heartbeat of running work.")
    beats = [m.objects.filter(state=Work.State.RUNNING).aggregate(at=Min("heartbeat_at"))["at"] for m in KINDS.values()]
    oldest.add_metric([], max([(timezone.now() - at).total_seconds() for at in beats if at], default=0.0))
    pulses = GaugeMetricFamily(
        "plumbline_last_done_timestamp_seconds", "When the sweep, the watch and the look ended last.", labels=["what"]
    )
    for name, at in Pulse.objects.values_list("name", "at"):
        pulses.add_metric([name], at.timestamp())
    disks = GaugeMetricFamily("plumbline_disk_free_bytes", "Free in PLUMBLINE_VAR, by host.", labels=["host"])
    for host, free in (
        Worker.objects.alive()
        .exclude(host="")
        .values("host")
        .annotate(free=Min("disk_free"))
        .values_list("host", "free")
    ):
        disks.add_metric([host], free or 0)
    lost = GaugeMetricFamily("plumbline_files_lost", "Stored files that are damaged or missing.")
    lost.add_metric([], Artefact.objects.filter(state__in=Artefact.LOST).count())
    incidents = GaugeMetricFamily("plumbline_incidents", "Incidents that are not over.", labels=["kind"])
    counted = dict(
        Incident.objects.filter(resolved_at=None).order_by().values_list("kind").annotate(number=Count("pk"))
    )
    for kind in Incident.Kind.values:
        incidents.add_metric([kind], counted.get(kind, 0))
    unsent = GaugeMetricFamily("plumbline_alerts_undelivered", "Messages about incidents that nobody took yet.")
    unsent.add_metric([], AlertMessage.objects.filter(sent_at=None, given_up_at=None).count())
    yield from (depth, alive, oldest, pulses, disks, lost, incidents, unsent)
