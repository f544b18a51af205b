"""What workers and beat do of themselves, beside tasks. CELERY_IMPORTS names this module: they alone import it."""

import gc
import logging
import os
import sys
import threading
import time
from functools import partial
from typing import Any

from celery.signals import (
    beat_init,
    celeryd_after_setup,
    celeryd_init,
    heartbeat_sent,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)
from celery.worker.control import control_command

from leaderboard.acknowledgements import forgive_lost_acknowledgements
from leaderboard.celery import app
from leaderboard.operations.alerts import ALERTS, keep_looking, keep_standing_in
from leaderboard.people.services.password_resets import RESETS
from leaderboard.services import cages
from leaderboard.services.hosts import keep_noting_abilities
from leaderboard.services.leases import stop_requested
from leaderboard.services.outbox import LETTERS, keep_sending
from leaderboard.services.queue import keep_sweeping
from leaderboard.services.signs_of_life import BEAT_SECONDS, beat, leave, pulse
from leaderboard.submissions.services.letters import NEWS

log = logging.getLogger(__name__)

SENDERS = (LETTERS, RESETS, NEWS, ALERTS)  # of all that the board has to tell
GRACE_SECONDS = 5.0  # in which work is given back that can be
MEASURING_SECONDS = 30.0  # that a look at what the host can do takes at most on a busy host
_last_beat = 0.0
_measuring: list[threading.Thread] = []

forgive_lost_acknowledgements()


@celeryd_init.connect
def refuse_beat_within(options: dict[str, Any], **_kwargs: object) -> None:
    """A worker forks its beat, which closes what it inherited late: by then the numbers are those of database files."""
    if options.get("beat"):
        sys.exit("--beat: start beat as a process of its own, by `celery --app leaderboard beat`")


@celeryd_after_setup.connect
def import_libraries(instance: Any, **_kwargs: object) -> None:
    """A worker imports its libraries before its threads begin: transformers fails where two import it.

    One that runs models leaves that to its cages, and needs torch alone, to know its device and how fast that is.
    """
    queues = set(instance.app.amqp.queues.consume_from)
    gc.disable()  # all of it stays
    if {"default", "gpu"} & queues:
        import torch  # noqa: F401
    if "default" in queues:
        import scoring.likelihood.engine  # for checks of likelihoods, by bundled models
        import scoring.scorers.classifier
        import scoring.scorers.detoxify  # noqa: F401
    gc.freeze()
    gc.enable()


@worker_ready.connect
def sweep_at_once(**_kwargs: object) -> None:
    """A worker that starts looks for waiting work itself, and whether other libraries than before call for checks."""
    app.send_task("leaderboard.tasks.sweep")
    app.send_task("leaderboard.tasks.watch")


@worker_ready.connect
def try_protections(sender: Any, **_kwargs: object) -> None:
    """A worker that runs what strangers send tries what protects its host, says so, and is warm for the first model."""
    if cages.QUEUES & set(app.amqp.queues.consume_from):
        start_thread("cage", cages.note_protections, sender.hostname)


@worker_ready.connect
def say_what_it_can_do(sender: Any, **_kwargs: object) -> None:
    """A worker notes its libraries, its device and the scorers that it can have, and goes on doing so."""
    if {"default", "gpu"} & set(app.amqp.queues.consume_from):
        _measuring.append(start_thread("abilities", keep_noting_abilities, sender.hostname))


@worker_ready.connect
def stand_in_for_beat(**_kwargs: object) -> None:
    """Where beat is silent, workers look for incidents: that it is silent is one."""
    start_thread("incidents", keep_standing_in)


@worker_shutting_down.connect
def ask_running_work_to_stop(**_kwargs: object) -> None:
    """Work in progress stops at its next batch, so that a worker goes down in seconds and loses one shard at most."""
    stop_requested.set()


@heartbeat_sent.connect
def note_sign_of_life(sender: Any, **_kwargs: object) -> None:
    """Now and then a worker's heartbeat is noted in the database, for those who ask which workers live."""
    global _last_beat
    if time.monotonic() - _last_beat >= BEAT_SECONDS:
        _last_beat = time.monotonic()
        beat(sender.eventer.hostname, list(app.amqp.queues.consume_from))


@worker_shutdown.connect
def note_leaving(sender: Any, **_kwargs: object) -> None:
    """A worker that is stopped in order is not missed.

    A thread that computes is waited for: a process that ends while one is in torch's code aborts.
    """
    leave(sender.hostname)
    for thread in _measuring:
        thread.join(MEASURING_SECONDS)


@beat_init.connect
def sweep_in_beat(**_kwargs: object) -> None:
    """Beat sweeps, in a thread: a task would wait behind the work of a busy worker, and others with it."""
    start_thread("sweeps", keep_sweeping, partial(pulse, "sweep"))


@beat_init.connect
def look_for_incidents_and_send_messages(**_kwargs: object) -> None:
    """Beat does both, in threads: it lives where no worker does, and no worker needs the mail server's password."""
    start_thread("incidents", keep_looking)
    start_thread("messages", keep_sending, SENDERS)


@control_command()
def end_worker(state: Any, **_options: object) -> dict[str, str]:
    """An order over the broker: give the work back and end, whatever hangs. The supervisor starts another worker."""
    log.warning("%s was told to end", state.hostname)
    stop_requested.set()
    start_thread("end", end, state.hostname)
    return {"ok": "it ends"}


def end(hostname: str) -> None:
    """End this process after a while of grace."""
    time.sleep(GRACE_SECONDS)
    leave(hostname)
    os._exit(1)  # a thread that hangs keeps every other way from ending


def start_thread(name: str, target: Any, *args: object) -> threading.Thread:
    """Start a thread that does not keep its process alive, and return it."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread
