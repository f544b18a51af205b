"""Putting work on the broker. The database is the truth: a lost message costs time, never work."""

import logging
from collections.abc import Callable, Collection
from datetime import timedelta

from django.conf import settings
from django.db.models import Case, Exists, Expression, F, Max, OuterRef, Q, Value, When
from django.utils import timezone
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.models import ControlCheck, Download, LanguageModel, Reading, Rescoring, Run, Scoring, Work
from leaderboard.services.turns import Turns, Waiting
from leaderboard.services.workers import BY_TURNS, connected, depth

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
FORGOTTEN_AFTER = 120.0  # seconds; then a message that led to nothing is taken for lost


def enqueue(work: Work) -> bool:
    """Send the task that does `work`. False when the broker cannot be reached: the sweeper will send it later.

    A run of a hub model whose files are not here yet is preceded by their download.
    """
    if isinstance(work, Run) and work.model.source == LanguageModel.Source.HUB:
        download, _ = Download.objects.get_or_create(model=work.model)
        if download.state != Work.State.DONE:
            download.queue_again()
            work = download
    try:
        app.send_task(TASKS[type(work)], args=[work.pk])
    except OperationalError as error:
        log.warning("%s waits for the broker: %s", work, error)
        return False
    type(work).objects.filter(pk=work.pk).update(enqueued_at=timezone.now())
    return True


def sweep() -> int:
    """Enqueue all work that should be under way and is not; returns how much.

    That is work never sent, work whose worker fell silent or whose pause before the next attempt is over, and work
    whose message seems to be lost: it led to nothing for a while, and no other on the broker could stand for it.
    """
    forgotten = timezone.now() - timedelta(seconds=max(FORGOTTEN_AFTER, settings.LEASE_SECONDS))
    sent = 0
    waits = Run.objects.unfinished().filter(model__source=LanguageModel.Source.HUB, model__download=None)
    for model in LanguageModel.objects.filter(runs__in=waits).distinct():  # whoever asked for the run died on the way
        Download.objects.get_or_create(model=model)
    for kind, ready in READY.items():
        waiting = kind.objects.unclaimed().filter(ready)
        due = waiting.filter(
            Q(enqueued_at__isnull=True)
            | Q(enqueued_at__lt=F("lease_expires_at"))
            | Q(enqueued_at__lt=F("heartbeat_at"), state=Work.State.QUEUED)
        )
        seem_lost = waiting.filter(enqueued_at__lt=forgotten)
        for work in (*due, *seem_lost.exclude(pk__in=due)[: lost(kind, seem_lost.count())]):
            if not enqueue(work):
                return sent
            sent += 1
    return sent


def lost(kind: type[Work], forgotten: int) -> int:
    """How many messages are missing for so much work of a kind that was sent long ago.

    Runs and scorings take turns, so that any message will do, and those that wait long keep theirs: another one every
    time would fill the broker.
    """
    if kind not in BY_TURNS or not forgotten:
        return forgotten
    queue = app.amqp.router.route({}, TASKS[kind])["queue"].name
    try:
        with connected(BROKER_SECONDS) as connection:
            return max(0, forgotten - depth(connection, queue))
    except (OperationalError, OSError) as error:
        log.warning("the broker does not say what is on %s: %s", queue, error)
        return 0


def do_fairest(kind: type[Work], do: Callable[[int], bool]) -> bool:
    """Have `do` claim a slice of the work whose turn it is; False where none of that kind waits.

    A message is a hint that there is work, not which: whoever sends many gets no more turns. `do` takes the key of the
    work, and says whether it got hold of it; where another worker was quicker, it is somebody's turn again.
    """
    while (work := turns_of(kind).next()) is not None:
        if do(work.pk):
            return True
    return False


def turns_of(kind: type[Work]) -> Turns:
    """The requesters of work of a kind, Run or Scoring, that waits now; in three queries."""
    requester = F("requester") if kind is Run else _requester_of_scoring()
    works = kind._default_manager.annotate(whose=requester)
    unclaimed = kind.objects.unclaimed().filter(READY[kind]).annotate(whose=requester)
    waiting = [Waiting(*row) for row in unclaimed.values_list("created_at", "pk", "whose")]
    if not waiting:
        return Turns([], [], [])
    running = works.filter(state=Work.State.RUNNING, lease_expires_at__gt=timezone.now()).order_by("turn_at")
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
