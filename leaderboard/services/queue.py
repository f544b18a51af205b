"""Putting work on the broker. The database is the truth: a lost message costs time, never work."""

import logging
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models import Case, Exists, Expression, F, Max, OuterRef, Q, Value, When
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import (
    Artefact,
    ControlCheck,
    Download,
    LanguageModel,
    MetricVersion,
    Reading,
    Rescoring,
    Run,
    Scoring,
    Work,
)
from leaderboard.models.work import WorkQuerySet, from_now
from leaderboard.services.abilities import leave_to_others
from leaderboard.services.release import refusal
from leaderboard.services.turns import Turns, Waiting
from leaderboard.services.workers import connected, depth

log = logging.getLogger(__name__)

TASKS = {
    ControlCheck: "leaderboard.tasks.check_control",
    Download: "leaderboard.tasks.fetch_model",
    Reading: "leaderboard.tasks.read_submission",
    Run: "leaderboard.tasks.collect_run",
    Scoring: "leaderboard.tasks.score_run",
}
FETCHED = ~Q(model__source=LanguageModel.Source.HUB) | Q(model__download__state=Work.State.DONE)
READY: dict[type[Work], Q] = {
    ControlCheck: Q(),
    Reading: Q(),
    Download: Q(),
    Scoring: Q(run__state=Work.State.DONE),
    Run: FETCHED,
}
BROKER_SECONDS = 1.0  # in which it is to answer
PASS_SECONDS = 1.0  # until a message is passed on to another worker
FORGOTTEN_AFTER = 2.0  # seconds; then a message that led to nothing is taken for lost, unless it waits on the broker
LONGEST_WAKE = 300.0  # seconds that a message waits for its time; after longer pauses the sweep sends it


def enqueue(work: Work) -> bool:
    """Send the task that does `work`. False when the broker cannot be reached: the sweeper will send it later.

    A run of a hub model whose files are not here yet is preceded by their download.
    """
    if isinstance(work, Run) and work.model.source == LanguageModel.Source.HUB:
        download, _ = Download.objects.get_or_create(model=work.model)
        if download.state != Work.State.DONE:
            download.queue_again()
            work = download
    return _send(work)


def wake(work: Work, seconds: float) -> None:
    """Send the message that `work` goes on with, after a pause of so many seconds."""
    if seconds <= 0:
        enqueue(work)
    elif seconds <= LONGEST_WAKE:
        _send(work, countdown=seconds)


def _send(work: Work, **options: float) -> bool:
    try:
        app.send_task(TASKS[type(work)], args=[work.pk], **options)
    except OperationalError as error:
        log.warning("%s waits for the broker: %s", work, error)
        return False
    type(work).objects.filter(pk=work.pk).update(enqueued_at=Now())
    return True


def ask_for_ranges(version: MetricVersion) -> None:
    """Have a worker make the ranges of a version's ranks anew; the watch does, where no message can be sent."""
    try:
        app.send_task("leaderboard.tasks.renew_ranges", args=[version.pk])
    except OperationalError as error:
        log.warning("the ranges of %s wait for the broker: %s", version, error)


def ask_for_file(artefact: Artefact) -> None:
    """Have a worker compute a lost file again. Raises OperationalError where no message can be sent."""
    app.send_task("leaderboard.tasks.restore_file", args=[artefact.pk])


def ready_work(kind: type[Work]) -> WorkQuerySet[Work]:
    """Work of a kind that a free worker could begin now."""
    return kind.objects.unclaimed().filter(READY[kind])


def sweep() -> int:
    """Enqueue all work that should be under way and is not; returns how much.

    That is work never sent, work whose worker fell silent or whose pause before the next attempt is over, and as much
    of what was sent and did not begin as there are messages too few on the broker.
    """
    sent = 0
    waits = Run.objects.unfinished().filter(model__source=LanguageModel.Source.HUB, model__download=None)
    for model in LanguageModel.objects.filter(runs__in=waits).distinct():  # whoever asked for the run died on the way
        Download.objects.get_or_create(model=model)
    overdue: list[Work] = []
    for kind in READY:
        waiting = ready_work(kind)
        due = waiting.filter(
            Q(enqueued_at__isnull=True)
            | Q(enqueued_at__lt=F("lease_expires_at"))
            | Q(enqueued_at__lt=F("heartbeat_at"), state=Work.State.QUEUED)
        )
        forgotten = waiting.filter(enqueued_at__lt=from_now(-FORGOTTEN_AFTER)).exclude(pk__in=due)
        overdue += forgotten.order_by("enqueued_at")
        for work in due:
            if not enqueue(work):
                return sent
            sent += 1
    for work in without_message(overdue):
        if not enqueue(work):
            return sent
        sent += 1
    return sent


def keep_sweeping(note: Callable[[], object]) -> None:
    """Sweep every SWEEP_SECONDS, for ever, and `note` that it was done: the thread in beat."""
    while True:
        time.sleep(settings.SWEEP_SECONDS)
        try:
            close_old_connections()
            sweep()
            note()
        except Exception:
            log.exception("the sweep failed: it is tried again")
        finally:
            connection.close()


def without_message(overdue: list[Work]) -> list[Work]:
    """Of work that was sent and did not begin, as much as its queue on the broker lacks messages.

    Any message will do: what is on the queue is taken by the next free worker, and another message for each look would
    fill the broker.
    """
    by_queue: dict[str, list[Work]] = {}
    for work in overdue:
        by_queue.setdefault(queue_of(type(work)), []).append(work)
    messages = count_messages(*by_queue)
    return [work for name, works in by_queue.items() for work in works[: max(0, len(works) - messages[name])]]


def queue_of(kind: type[Work]) -> str:
    """The queue that messages of a kind of work go to."""
    return str(app.amqp.router.route({}, TASKS[kind])["queue"].name)


def count_messages(*queues: str) -> dict[str, int]:
    """How many messages wait on each queue; without end where the broker does not say, so that none is sent twice."""
    if not queues:
        return {}
    try:
        with connected(BROKER_SECONDS) as broker:
            return {name: depth(broker, name) for name in queues}
    except (OperationalError, OSError) as error:
        log.warning("the broker does not say what is on %s: %s", ", ".join(queues), error)
        return dict.fromkeys(queues, sys.maxsize)


def call_for_more(kind: type[Work]) -> None:
    """Where work of a kind is ready and no message on its queue says so, send one: a worker has just become free."""
    if ready_work(kind).exists() and not count_messages(queue_of(kind))[queue_of(kind)]:
        work = own_work(kind).order_by("created_at", "pk").first()
        if work:
            enqueue(work)
        elif work := ready_work(kind).order_by("created_at", "pk").first():
            wake(work, PASS_SECONDS)  # this worker's message was for work of another one's


def own_work(kind: type[Work]) -> WorkQuerySet[Any]:
    """Work of a kind that this worker could begin now: what it cannot do is left to another one that may."""
    ready = ready_work(kind)
    return ready.none() if refusal() else ready.exclude(leave_to_others(kind))


def do_fairest(kind: type[Work], do: Callable[[int], bool]) -> bool:
    """Have `do` claim a slice of the work whose turn it is; False where none of that kind waits.

    A message is a hint that there is work, not which: whoever sends many gets no more turns. `do` takes the key of the
    work, and says whether it got hold of it; where another worker was quicker, it is somebody's turn again.
    """
    done = False
    while not done and (work := turns_of(kind, own_work(kind)).next()) is not None:
        done = do(work.pk)
    return done


def turns_of(kind: type[Work], ready: WorkQuerySet[Any] | None = None) -> Turns:
    """The requesters of work of a kind, Run or Scoring, that waits now, or of what is `ready`; in three queries."""
    requester = F("requester") if kind is Run else _requester_of_scoring()
    works = kind._default_manager.annotate(whose=requester)
    unclaimed = (ready_work(kind) if ready is None else ready).annotate(whose=requester)
    waiting = [Waiting(*row) for row in unclaimed.values_list("created_at", "pk", "whose")]
    if not waiting:
        return Turns([], [], [])
    running = works.filter(state=Work.State.RUNNING, lease_expires_at__gt=Now()).order_by("turn_at")
    served = works.values("whose").filter(turn_at__isnull=False).annotate(last=Max("turn_at")).order_by("last")
    return Turns(waiting, list(running.values_list("whose", flat=True)), list(served.values_list("whose", flat=True)))


def _requester_of_scoring() -> Expression:
    """Entries that are scored again are the board's work, whoever submitted them."""
    again = Exists(Rescoring.objects.active().filter(to_version=OuterRef("metric_version")))
    return Case(When(again, then=Value(None)), default=F("run__requester"))


def places(kind: type[Work], wanted: Collection[int]) -> dict[int, int]:
    """The places in the queue, from 1, of those works of a kind that wait for a worker; in three queries."""
    left, found = set(wanted), {}
    for place, work in enumerate(turns_of(kind).in_order() if left else [], 1):
        if work.pk in left:
            found[work.pk] = place
            left.remove(work.pk)
            if not left:
                break
    return found
