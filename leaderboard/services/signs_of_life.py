"""Signs of life of workers, in the database: the broker forgets, and does not say who is missing."""

import logging
import shutil
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.models import Q
from django.db.models.functions import Now

from leaderboard.models import ControlCheck, Download, Pulse, Reading, Run, Scoring, Work, Worker
from leaderboard.models.work import database_now, from_now
from leaderboard.services.memory import memory_of_workers
from leaderboard.services.queue import FETCHED
from leaderboard.services.release import code_here, refusal

log = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
FORGOTTEN_AFTER = 86_400.0  # seconds
DEFAULT, GPU, READINGS, DOWNLOADS = "default", "gpu", "readings", "downloads"


def describe_here() -> dict[str, Any]:
    """What a worker of this process says of itself at each beat. No library is loaded for it."""
    return {
        "host": settings.HOST,
        "code": code_here(),
        "refusal": refusal(),
        "memory": int(memory_of_workers()),
        "disk_free": shutil.disk_usage(settings.VAR).free,
    }


def beat(name: str, queues: list[str]) -> None:
    """Note that the worker lives; without the database it lives unnoted."""
    try:
        values = {"beat_at": Now(), "queues": sorted(queues), **describe_here()}
        Worker.objects.update_or_create(name=name, defaults=values, create_defaults={**values, "started_at": Now()})
        Worker.objects.filter(beat_at__lt=from_now(-FORGOTTEN_AFTER)).delete()
    except Error as error:
        log.warning("%s gives no sign of life: %s", name, type(error).__name__)
    finally:
        hang_up()


def leave(name: str) -> None:
    """The worker was stopped in order: nobody misses it."""
    try:
        Worker.objects.filter(name=name).delete()
    except Error as error:
        log.warning("%s leaves without a word: %s", name, type(error).__name__)
    finally:
        hang_up()


def note_cage(name: str, protections: list[dict[str, Any]]) -> None:
    """Note what protects the worker from strangers' models."""
    Worker.objects.update_or_create(
        name=name,
        defaults={"cage": protections},
        create_defaults={"cage": protections, "beat_at": Now(), "started_at": Now()},
    )


def pulse(name: str) -> None:
    """Note that something that the board does for ever was done just now."""
    Pulse.objects.update_or_create(name=name, defaults={"at": Now()})


def seconds_since(name: str) -> float | None:
    """How long ago that was; None where it never was."""
    at = Pulse.objects.filter(name=name).values_list("at", flat=True).first()
    return None if at is None else (database_now() - at).total_seconds()


def hang_up() -> None:
    """Close the connection: no child that is forked later may inherit it."""
    if not connection.in_atomic_block:
        connection.close()


def waiting(seconds: float = 0.0) -> dict[str, int]:
    """Work that workers could begin now and did not for so many seconds, by queue."""
    since = from_now(-max(seconds, 0.0))

    def ready(kind: type[Work], *more: Q) -> int:
        found = kind.objects.unclaimed().filter(*more, created_at__lte=since)
        return int(found.exclude(heartbeat_at__gt=since).exclude(not_before__gt=since).count())

    return {
        GPU: ready(Run, FETCHED),
        DEFAULT: ready(Scoring, Q(run__state=Work.State.DONE)) + ready(ControlCheck),
        READINGS: ready(Reading),
        DOWNLOADS: ready(Download),
    }


def queues_without_workers() -> dict[str, int]:
    """Queues on which work has waited for ALERT_WORKERS_SECONDS with no living worker, and how much of it."""
    served = {queue for worker in Worker.objects.alive() for queue in worker.queues}
    long = waiting(settings.ALERT_WORKERS_SECONDS)
    return {queue: count for queue, count in long.items() if count and queue not in served}
