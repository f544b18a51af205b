"""The Celery application: settings of leaderboard.settings under CELERY_, tasks of leaderboard.tasks."""

import os
import threading
import time
from functools import partial
from typing import Any

from celery import Celery
from celery.signals import (
    beat_embedded_init,
    beat_init,
    celeryd_after_setup,
    heartbeat_sent,
    worker_init,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from django_structlog.celery.signals import modify_context_before_task_publish
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

app = Celery("plumbline")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["leaderboard"])
app.steps["worker"].add(DjangoStructLogInitStep)
_last_beat = 0.0


@modify_context_before_task_publish.connect
def name_no_work_to_a_task(context: dict[str, Any], **_kwargs: object) -> None:
    """Lines of a task name the work that it does itself, and the request and the task that it came from."""
    for name in ("run", "scoring", "controlcheck", "reading"):
        context.pop(name, None)


@celeryd_after_setup.connect
def import_libraries(instance: Any, **_kwargs: object) -> None:
    """A worker that computes imports its libraries before its threads begin: transformers fails where two import it."""
    if {"default", "gpu"} & set(instance.app.amqp.queues.consume_from):
        import scoring.generation.engine
        import scoring.likelihood.engine
        import scoring.scorers.classifier
        import scoring.scorers.detoxify  # noqa: F401


@worker_ready.connect
def sweep_at_once(**_kwargs: object) -> None:
    """A worker that starts looks for waiting work itself, and whether other libraries than before call for checks."""
    app.send_task("leaderboard.tasks.sweep")
    app.send_task("leaderboard.tasks.watch")


@worker_ready.connect
def try_protections(sender: Any, **_kwargs: object) -> None:
    """A worker that runs what strangers send tries what protects its host, says so, and is warm for the first model."""
    from leaderboard.services.cages import QUEUES, note_protections

    if QUEUES & set(app.amqp.queues.consume_from):
        threading.Thread(target=note_protections, args=[sender.hostname], name="cage", daemon=True).start()


@worker_ready.connect
def say_what_it_can_do(sender: Any, **_kwargs: object) -> None:
    """A worker notes its libraries, its device and the scorers that it can have, and goes on doing so."""
    from leaderboard.services.hosts import keep_noting_abilities

    if {"default", "gpu"} & set(app.amqp.queues.consume_from):
        threading.Thread(target=keep_noting_abilities, args=[sender.hostname], name="abilities", daemon=True).start()


@worker_ready.connect
def stand_in_for_beat(**_kwargs: object) -> None:
    """Where beat is silent, workers look for incidents: that it is silent is one."""
    from leaderboard.services.alerts import keep_standing_in

    threading.Thread(target=keep_standing_in, name="incidents", daemon=True).start()


@worker_init.connect
def take_orders(**_kwargs: object) -> None:
    """What workers can be told over the broker beside Celery's own."""
    import leaderboard.orders  # noqa: F401


@worker_shutting_down.connect
def ask_running_work_to_stop(**_kwargs: object) -> None:
    """Work in progress stops at its next batch, so that a worker goes down in seconds and loses one shard at most."""
    from leaderboard.services.leases import stop_requested

    stop_requested.set()


@heartbeat_sent.connect
def note_sign_of_life(sender: Any, **_kwargs: object) -> None:
    """Now and then a worker's heartbeat is noted in the database, for those who ask which workers live."""
    from leaderboard.services.signs_of_life import BEAT_SECONDS, beat

    global _last_beat
    if time.monotonic() - _last_beat >= BEAT_SECONDS:
        _last_beat = time.monotonic()
        beat(sender.eventer.hostname, list(app.amqp.queues.consume_from))


@worker_shutdown.connect
def note_leaving(sender: Any, **_kwargs: object) -> None:
    """A worker that is stopped in order is not missed."""
    from leaderboard.services.signs_of_life import leave

    leave(sender.hostname)


@beat_embedded_init.connect
@beat_init.connect
def sweep_in_beat(**_kwargs: object) -> None:
    """Beat sweeps, in a thread: a task would wait behind the work of a busy worker, and others with it."""
    from leaderboard.services.queue import keep_sweeping
    from leaderboard.services.signs_of_life import pulse

    threading.Thread(target=keep_sweeping, args=[partial(pulse, "sweep")], name="sweeps", daemon=True).start()


@beat_init.connect
def look_for_incidents_and_send_letters(**_kwargs: object) -> None:
    """Beat does both, in threads: it lives where no worker does, and no worker needs the mail server's password."""
    from leaderboard.services.alerts import keep_looking
    from leaderboard.services.courier import keep_sending

    threading.Thread(target=keep_looking, name="incidents", daemon=True).start()
    threading.Thread(target=keep_sending, name="letters", daemon=True).start()
