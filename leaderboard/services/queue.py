"""Messages about work on the broker. The database is the truth: a lost message costs time, never work."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Case, Exists, Expression, F, Max, OuterRef, Q, Value, When, Window
from django.db.models.functions import Now, RowNumber
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import WORK_TABLES, Artefact, Download, LanguageModel, MetricVersion, Rescoring, Run, Work
from leaderboard.models.clock import from_now
from leaderboard.models.work import WorkQuerySet
from leaderboard.services.abilities import leave_to_others
from leaderboard.services.release import refusal
from leaderboard.services.turns import Turns, Waiting
from leaderboard.services.workers import connect_to_broker, depth

log = logging.getLogger(__name__)

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
        app.send_task(work.kind.task_name, args=[] if work.kind.evaluates else [work.pk], **options)
    except OperationalError as error:
        log.warning("%s waits for the broker: %s", work, error)
        return False
    type(work).objects.filter(pk=work.pk).update(enqueued_at=Now())
    return True


def ask_for_ranges(version: MetricVersion) -> None:
    """Ask a worker to renew the rank ranges of a version; the watch does it where no message can be sent."""
    try:
        app.send_task("leaderboard.tasks.renew_ranges", args=[version.pk])
    except OperationalError as error:
        log.warning("the ranges of %s wait for the broker: %s", version, error)


def ask_for_file(artefact: Artefact) -> None:
    """Ask a worker to compute a lost file again. Raises OperationalError where no message can be sent."""
    app.send_task("leaderboard.tasks.restore_file", args=[artefact.pk])


def ready_work(table: type[Work]) -> WorkQuerySet[Work]:
    """Work of a kind that a free worker could begin now."""
    return table.objects.unclaimed().filter(table.kind.ready)


def sweep() -> int:
    """Enqueue all work that should be under way and is not; returns how much.

    That is work never sent, work whose worker fell silent, and work whose pause before the next attempt is over. Of the
    work that was sent and did not begin, it is as much as the broker lacks messages.
    """
    count = 0
    renew_downloads()
    overdue: list[WorkQuerySet[Work]] = []
    for table in WORK_TABLES:
        ready = ready_work(table)
        due = ready.filter(
            Q(enqueued_at__isnull=True)
            | Q(enqueued_at__lt=F("lease_expires_at"))
            | Q(enqueued_at__lt=F("heartbeat_at"))
        )
        lost_work = ready.filter(enqueued_at__lt=from_now(-FORGOTTEN_AFTER))  # read once all that is due was sent
        overdue.append(lost_work.order_by("enqueued_at"))
        for work in due:
            if not enqueue(work):
                return count
            count += 1
    for work in without_message(overdue):
        if not enqueue(work):
            return count
        count += 1
    return count


def keep_sweeping(note: Callable[[], object]) -> None:
    """Sweep every SWEEP_SECONDS, for ever, and `note` that it was done: the thread in beat."""
    while True:
        time.sleep(settings.SWEEP_SECONDS)
        try:
            sweep()
            note()
        except Exception:
            log.exception("the sweep failed: it is tried again")
        finally:
            connection.close()


def renew_downloads() -> None:
    """Queue the downloads that runs wait for and that are neither done nor under way: their requester died on the way.

    A download that failed fails its runs as well, unless its worker died in between.
    """
    has_none = Q(model__download=None) | Q(model__download__state__in=[Work.State.FAILED, Work.State.CANCELLED])
    waiting_runs = Run.objects.unclaimed().filter(has_none, model__source=LanguageModel.Source.HUB)
    for model in LanguageModel.objects.filter(runs__in=waiting_runs).distinct():
        Download.objects.get_or_create(model=model)[0].queue_again()


def without_message(overdue: list[WorkQuerySet[Work]]) -> list[Work]:
    """The part of `overdue` work, sent and not begun, for which the queues on the broker lack messages.

    Any message will do: the next free worker takes it. A new message for each look would fill the broker. Only that
    part is read: a rescoring may wait with thousands of entries.
    """
    counts: Counter[str] = Counter()
    for works in overdue:
        counts[works.model.kind.queue] += works.count()
    messages = count_messages(*(name for name, count in counts.items() if count))
    remainders = {name: max(0, counts[name] - number) for name, number in messages.items()}
    chosen_works: list[Work] = []
    for works in overdue:
        name = works.model.kind.queue
        if remainders.get(name):
            next_works = list(works[: remainders[name]])
            remainders[name] -= len(next_works)
            chosen_works += next_works
    return chosen_works


def count_messages(*queues: str) -> dict[str, int]:
    """How many messages wait on each queue; endless where the broker does not answer, so that none is sent twice."""
    if not queues:
        return {}
    try:
        with connect_to_broker(BROKER_SECONDS) as broker:
            return {name: depth(broker, name) for name in queues}
    except (OperationalError, OSError) as error:
        log.warning("the broker does not say what is on %s: %s", ", ".join(queues), error)
        return dict.fromkeys(queues, sys.maxsize)


def call_for_more(table: type[Work]) -> None:
    """Send a message where work of a kind is ready and its queue is empty: a worker has just become free."""
    if ready_work(table).exists() and not count_messages(table.kind.queue)[table.kind.queue]:
        work = own_work(table).order_by("created_at", "pk").first()
        if work:
            enqueue(work)
        elif work := ready_work(table).order_by("created_at", "pk").first():
            wake(work, PASS_SECONDS)  # this worker's message was for work of another one's


def own_work(kind: type[Work]) -> WorkQuerySet[Any]:
    """Work of a kind that this worker could begin now, without what it leaves to other workers."""
    ready = ready_work(kind)
    return ready.none() if refusal() else ready.exclude(leave_to_others(kind))


def do_fairest(kind: type[Work], do: Callable[[int], bool]) -> bool:
    """Have `do` claim a slice of the work whose turn it is; False where none of that kind waits.

    A message says that there is work, and not which: who sends many messages gets no more turns. `do` takes the key of
    the work and returns whether it claimed it; where another worker was quicker, the next turn begins.
    """
    is_done = False
    while not is_done and (work := next_work(kind)) is not None:
        is_done = do(work.pk)
    return is_done


def next_work(kind: type[Work]) -> Waiting | None:
    """The work of a kind whose turn it is, of what this worker could begin; None where there is none.

    Reads the oldest work of each requester alone: a rescoring may wait with thousands of entries.
    """
    place = Window(RowNumber(), partition_by="whose", order_by=("created_at", "pk"))
    ready_rows = own_work(kind).annotate(whose=_requester_of(kind))
    return turns_of(kind, ready_rows.annotate(place=place).filter(place=1)).next()


def all_turns(kind: type[Work]) -> Turns:
    """The requesters of work of a kind that waits now, with all of it."""
    return turns_of(kind, ready_work(kind).annotate(whose=_requester_of(kind)))


def turns_of(kind: type[Work], ready_rows: WorkQuerySet[Any]) -> Turns:
    """The requesters of work of a kind, Run or Scoring, that waits, each row with `whose` it is; in three queries."""
    works = kind._default_manager.annotate(whose=_requester_of(kind))
    waiting_work = [Waiting(*row) for row in ready_rows.values_list("created_at", "pk", "whose")]
    if not waiting_work:
        return Turns([], [], [])
    running_work = works.in_hand().order_by("turn_at")
    last_turns = works.values("whose").filter(turn_at__isnull=False).annotate(last=Max("turn_at")).order_by("last")
    return Turns(
        waiting_work,
        list(running_work.values_list("whose", flat=True)),
        list(last_turns.values_list("whose", flat=True)),
    )


def _requester_of(kind: type[Work]) -> Expression | F:
    return F("requester") if kind is Run else _requester_of_scoring()


def _requester_of_scoring() -> Expression:
    """The requester of a scoring: the board itself, where entries are scored again."""
    is_rescoring = Exists(Rescoring.objects.active().filter(to_version=OuterRef("metric_version")))
    return Case(When(is_rescoring, then=Value(None)), default=F("run__requester"))


def places(kind: type[Work], keys: Collection[int]) -> dict[int, int]:
    """The places in the queue, from 1, of those works of a kind that wait for a worker; in three queries."""
    open_keys, places_by_work = set(keys), {}
    for place, work in enumerate(all_turns(kind).in_order() if open_keys else [], 1):
        if work.pk in open_keys:
            places_by_work[work.pk] = place
            open_keys.remove(work.pk)
            if not open_keys:
                break
    return places_by_work
