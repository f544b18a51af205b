"""Signs of life of workers, in the database: the broker forgets, and does not say who is missing."""

import logging
import shutil
from collections import Counter
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.db.models.functions import Now

from leaderboard.models import WORK_TABLES, Pulse, Worker
from leaderboard.models.clock import database_now, from_now
from leaderboard.services.memory import memory_of_workers
from leaderboard.services.queue import ready_work
from leaderboard.services.release import code_here, refusal

log = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
FORGOTTEN_AFTER = 86_400.0  # seconds
_last_refusal = ""


def describe_here() -> dict[str, Any]:
    """What a worker reports at each beat. No library is loaded for it."""
    return {
        "host": settings.HOST,
        "code": code_here(),
        "refusal": refusal(),
        "memory": int(memory_of_workers()),
        "disk_free": shutil.disk_usage(settings.VAR).free,
    }


def beat(name: str, queues: list[str]) -> None:
    """Record that the worker lives; without the database nothing is recorded."""
    try:
        values = {"beat_at": Now(), "queues": sorted(queues), **describe_here()}
        _log_refusal(name, values["refusal"])
        Worker.objects.update_or_create(name=name, defaults=values, create_defaults={**values, "started_at": Now()})
        Worker.objects.filter(beat_at__lt=from_now(-FORGOTTEN_AFTER)).delete()
    except Error as error:
        log.warning("%s gives no sign of life: %s", name, type(error).__name__)
    finally:
        hang_up()


def _log_refusal(name: str, refusal_now: str) -> None:
    """Log once why the worker takes no work, and once that it does again."""
    global _last_refusal
    if refusal_now != _last_refusal:
        _last_refusal = refusal_now
        log.error("%s takes no work: %s", name, refusal_now) if refusal_now else log.info("%s takes work again", name)


def leave(name: str) -> None:
    """Remove the row of a worker that stopped in order, so that nobody misses it."""
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
    """Record that a recurring task of the board has just run."""
    Pulse.objects.update_or_create(name=name, defaults={"at": Now()})


def seconds_since(name: str) -> float | None:
    """Seconds since the task last ran; None where it never ran."""
    moment = Pulse.objects.filter(name=name).values_list("at", flat=True).first()
    return None if moment is None else (database_now() - moment).total_seconds()


def hang_up() -> None:
    """Close the connection: no child that is forked later may inherit it."""
    if not connection.in_atomic_block:
        connection.close()


def count_waiting(seconds: float = 0.0) -> dict[str, int]:
    """How much work has been ready for so many seconds, by queue."""
    moment = from_now(-max(seconds, 0.0))

    counts: Counter[str] = Counter()
    for table in WORK_TABLES:
        ready = ready_work(table).filter(created_at__lte=moment)
        counts[table.kind.queue] += ready.exclude(heartbeat_at__gt=moment).exclude(not_before__gt=moment).count()
    return dict(counts)


def queues_without_workers() -> dict[str, int]:
    """Queues on which work has waited for ALERT_WORKERS_SECONDS with no living worker, and how much of it."""
    busy_queues = {queue for worker in Worker.objects.alive() for queue in worker.queues}
    counts = count_waiting(settings.ALERT_WORKERS_SECONDS)
    return {queue: count for queue, count in counts.items() if count and queue not in busy_queues}
