"""Holding a piece of work: a claim that a thread keeps alive, and the ways it ends."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections, connection, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from leaderboard.models import Rescoring, Scoring, Work, Worker
from leaderboard.models.work import from_now
from leaderboard.services.abilities import HANDS, note_ability, others, unable, worker_name
from leaderboard.services.artefacts import ArtefactLost, note_loss
from leaderboard.services.failure_kinds import class_of, fault_of, is_final, is_of_board
from leaderboard.services.failures import explain
from leaderboard.services.folders import HostLacks
from leaderboard.services.queue import PASS_SECONDS, sweep, wake
from leaderboard.services.release import refusal
from leaderboard.services.submission_log import say
from scoring.scorers import LexiconError, ScorerState, ScorerUnavailable, UnknownScorer

log = logging.getLogger(__name__)

stop_requested = threading.Event()  # set when this worker is asked to go down

FIRST_BACKOFF = 10.0  # seconds; doubles with every attempt
LONGEST_BACKOFF = 600.0
PROGRESS_EVERY = 1.0  # seconds between writes of progress
STUCK_SECONDS = 30.0  # in which a worker is to notice that its work was taken from it
STUCK_AFTER = 1.5  # times the seconds without progress after which a worker that did not notice is stuck
DATABASE_PAUSE = 1.0  # seconds between two tries to write what became of work
LOOK_EVERY = 1.5  # seconds between two looks whether the work was cancelled
LACKED_HERE = (HostLacks, LexiconError, ScorerUnavailable, UnknownScorer, ImportError)  # and another host may have
PANIC = "PanicException"  # of libraries in Rust: a BaseException that cannot be imported


class LeaseLost(Exception):
    """Another worker holds the work, or it was cancelled: stop, and write nothing."""


class ScorerChanged(RuntimeError):
    """The scorer is no longer the one that a metric version's numbers were made with."""


class Deferred(Exception):
    """The work has to wait for something else: give it back for so many seconds; `reason` says for what."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"to be tried again in {seconds:g} s")
        self.seconds = seconds
        self.reason = reason


class OutOfTime(RuntimeError):
    """The work took longer in all than it may."""


class WorkersDied(RuntimeError):
    """Nobody who began the work came to say how it ended."""


class Interrupted(Exception):
    """This worker goes down, has worked long enough on one thing, or the work was paused: give it back."""


DEADLOCKS = ("40P01", "40001")  # of PostgreSQL: a deadlock, and transactions that cannot be put in an order


class Lease:
    """A claim on `work`, renewed by a thread until it is given back."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.id: UUID = uuid4()
        self.ends = time.monotonic() + settings.SLICE_SECONDS
        self._lost = threading.Event()
        self._done = threading.Event()
        self._noted = 0.0
        self._turns = 0
        self._worker = worker_name()
        self._progressed = time.monotonic()

    def check(self) -> None:
        """Raise LeaseLost or Interrupted when the work should not go on at all."""
        if self._lost.is_set():
            raise LeaseLost
        if stop_requested.is_set():
            raise Interrupted

    def take_turn(self) -> None:
        """As `check`, and raise Interrupted when the work was paused, or it is the turn of others.

        To be called where nothing is half done: a shard that takes longer than a slice would else be begun for ever.
        """
        self.check()
        if type(self.work).objects.filter(pk=self.work.pk, held=True).exists():
            raise Interrupted
        if self._turns and time.monotonic() > self.ends:
            raise Interrupted
        self._turns += 1

    def note(self, *, at_once: bool = False, **progress: Any) -> None:
        """Write `progress` to the work, unless something was written a moment ago. Raises LeaseLost."""
        if not at_once and time.monotonic() - self._noted < PROGRESS_EVERY:
            return
        self._noted = time.monotonic()
        if "done" in progress:
            self._progressed = self._noted
        if not self.work.renew(self.id, **progress):
            raise LeaseLost

    def finish(self, **changes: Any) -> None:
        """Mark the work done. Raises LeaseLost, so that a surrounding transaction takes back what it wrote."""
        mended = self.work.fault if self.work.waits_since else ""
        final = {"reason": "", "fault": "", "waits_since": None, "attempts": F("attempts") - 1}
        if not self.work.release(self.id, Work.State.DONE, **final, **changes):
            raise LeaseLost
        if mended and not class_of(mended).of_one_file:
            transaction.on_commit(partial(end_waiting, mended))

    def count_anew(self) -> None:
        """A part of the work is finished for good: only this attempt counts from here on. Raises LeaseLost."""
        self.work.attempts = 1
        self.note(at_once=True, attempts=1, waits_since=None)

    def _beat(self) -> None:
        term = settings.LEASE_SECONDS / 3
        renewed = time.monotonic()
        try:
            while not self._done.wait(min(term, LOOK_EVERY)):
                close_old_connections()
                now = time.monotonic()
                due = now - renewed >= term
                try:
                    kept = self.work.renew(self.id) if due else self.work.is_held(self.id)
                    renewed = now if due else renewed
                except Error as error:
                    log.warning("%s: no heartbeat, the database says: %s", self.work, error)
                    continue  # the lease outlasts a missed beat or two
                if not kept or now - self._progressed >= STUCK_AFTER * settings.NO_PROGRESS_SECONDS:
                    self._lost.set()
                    self._watch_for_end()
                    return
        finally:
            connection.close()  # this thread's own

    def _watch_for_end(self) -> None:
        """Say that this worker is stuck, where it goes on with what is not its own any more; and when that is over."""
        if self._done.wait(STUCK_SECONDS):
            return
        note_stuck(self._worker, str(self.work))
        log.error("%s is stuck at %s: restart it", self._worker or "this process", self.work)
        self._done.wait()
        note_stuck(self._worker, "")

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Renew the lease in the background while the block runs."""
        thread = threading.Thread(target=self._beat, name=f"heartbeat of {self.work}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()


@contextmanager
def claimed(work: Work) -> Iterator[Lease | None]:
    """Claim `work` for the block; yields None if someone else holds it or there is nothing to do.

    What the block raises decides what becomes of the work: the one retry policy, by what `failure_kinds` declares.
    A failure of the entry is final, or tried again after a growing, jittered pause up to MOST_ATTEMPTS times. A failure
    of the board counts no attempt and ends no work.
    """
    if problem := refusal():
        log.error("%s is not taken: %s", work, problem)
        yield None
        return
    lease = Lease(work)
    last_worker = work.worker
    if not work.claim(lease.id, worker_name()[:200]):
        yield None
        return
    before = work.attempts - 1
    if before >= settings.MOST_ATTEMPTS:
        _give_up(work, lease, before, last_worker)
        yield None
        return
    try:
        with structlog.contextvars.bound_contextvars(**{str(work._meta.model_name): work.pk}), lease.beating():
            yield lease
    except LeaseLost:
        log.warning("%s: cancelled, or taken over by another worker", work)
    except Deferred as wait:
        _settle(partial(_put_back, work, lease, wait.seconds, reason=wait.reason, fault="", waits_since=None))
    except Interrupted:
        _settle(partial(_put_back, work, lease, 0.0))
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        _note_failure(work, lease, error)


@contextmanager
def given_back(kind: type[Work], ability: str) -> Iterator[None]:
    """Give work back for another worker where this one lacks what it needs. Raises Deferred, or the error itself."""
    try:
        yield
    except (*LACKED_HERE, MemoryError) as error:
        if isinstance(error, ScorerUnavailable) and error.state is ScorerState.RETIRED:
            raise
        note_ability(worker_name(), ability, problem=str(error)[:500] or type(error).__name__)
        able = [row.name for row in others(HANDS[kind]) if not unable(row, ability)]
        if not able or not worker_name():
            raise
        raise Deferred(PASS_SECONDS, f"{worker_name()} gave it back ({error}): it is for {', '.join(able)}") from error


def note_stuck(worker: str, at: str) -> None:
    """Note in the worker's row what it is stuck at; "" where it is not any more."""
    since = timezone.now() if at else None
    Worker.objects.filter(name=worker).update(stuck_at=at[:200], stuck_since=since)


def _note_failure(work: Work, lease: Lease, error: BaseException) -> None:
    """Decide what becomes of work whose block raised `error`."""
    if not connection.in_atomic_block:
        close_old_connections()  # the error may be that this one is lost
    if is_deadlock(error):
        log.warning("%s: another transaction was in the way: %s", work, error)
        _settle(partial(_put_back, work, lease, random.uniform(0.1, 1.0)))  # noqa: S311
    elif is_of_board(error):
        log.warning("%s waits for the board: %s: %s", work, type(error).__name__, error)
        _settle(partial(_wait, work, lease, error))
    elif is_final(error):
        log.error("%s failed for good: %s", work, error)
        _settle(partial(_fail, work, lease, error, reason=str(error)))
    else:
        log.error("%s failed", work, exc_info=error)
        _settle(partial(_retry, work, lease, error))


def _settle(write: Callable[[], object]) -> None:
    """Write what becomes of work; a database that is away is waited for, as this worker can do nothing without it."""
    while True:
        try:
            write()
            return
        except (InterfaceError, OperationalError) as error:
            if connection.in_atomic_block or stop_requested.is_set():
                raise
            log.warning("the database does not take what became of work: %s", error)
            time.sleep(DATABASE_PAUSE)
            close_old_connections()


def is_deadlock(error: BaseException) -> bool:
    """Whether the database ended the transaction in favour of another one: it may simply be done again."""
    return getattr(error.__cause__, "pgcode", None) in DEADLOCKS


def _put_back(work: Work, lease: Lease, seconds: float, **changes: Any) -> bool:
    """Queue work again for so many seconds from now, without counting the attempt; says whether the lease was held."""
    changes = {"attempts": F("attempts") - 1, "not_before": from_now(seconds) if seconds > 0 else None} | changes
    released = work.release(lease.id, Work.State.QUEUED, **changes)
    if released:
        transaction.on_commit(partial(wake, work, seconds))
    return released


def _wait(work: Work, lease: Lease, error: BaseException) -> None:
    """Have work wait for the board, and the rescoring that it is part of with it."""
    if isinstance(error, ArtefactLost):
        note_loss(error)
    known = type(work)._default_manager.annotate(waited=Now() - F("waits_since")).values_list("waited", flat=True)
    waited: timedelta | None = known.get(pk=work.pk)
    longest = min(LONGEST_BACKOFF, waited.total_seconds() / 2) if waited else 0.0
    pause = max(FIRST_BACKOFF, longest) * random.uniform(0.5, 1.5)  # noqa: S311
    waits = {
        "reason": f"{type(error).__name__}: {error}",
        "fault": fault_of(error),
        "waits_since": Coalesce("waits_since", Now()),
    }
    if not _put_back(work, lease, pause, **waits):
        return
    if isinstance(work, Scoring) and not class_of(work.fault).of_one_file:
        others = Scoring.objects.filter(metric_version=work.metric_version_id, state=Work.State.QUEUED, held=False)
        active = Rescoring.objects.active().filter(to_version=OuterRef("metric_version"))
        others.filter(Exists(active)).update(not_before=work.not_before, **waits)
    if waited is None:
        say(work, f"It has to wait. {explain(work).what} It is tried again by itself, until that is mended.")


def end_waiting(fault: str) -> None:
    """Let go on at once what waits for the board to be mended, as it is: work that waited for the same is done."""
    for kind in Work.__subclasses__():
        waiting = kind.objects.filter(state=Work.State.QUEUED, fault=fault, waits_since__isnull=False)
        waiting.update(not_before=None, enqueued_at=None)
    sweep()


def _retry(work: Work, lease: Lease, error: BaseException) -> None:
    """Queue work for its next attempt, or end it after the last one."""
    work.refresh_from_db()
    attempts = work.attempts
    reason = f"{type(error).__name__}: {error}"
    if attempts >= settings.MOST_ATTEMPTS:
        _fail(work, lease, error, reason=f"{reason} ({attempts} attempts)")
        return
    pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(attempts - 1, 10)) * random.uniform(0.5, 1.5)  # noqa: S311
    again = {"attempts": attempts, "reason": reason, "fault": fault_of(error), "waits_since": None}
    if _put_back(work, lease, pause, **again):
        say(work, f"Attempt {attempts} came to nothing. {explain(work).what} It is tried again in {pause:.0f} s.")


def _give_up(work: Work, lease: Lease, attempts: int, last_worker: str) -> None:
    """End work whose every attempt ended its worker."""
    where = f", the last of them {last_worker}" if last_worker else ""
    error = WorkersDied(
        f"{attempts} attempts began and none came to an end: each time the worker that was at it died{where}. Look "
        "into that worker's log; where memory ran out, give it more or the work less"
    )
    log.error("%s is given up: %s", work, error)
    _fail(work, lease, error, reason=str(error), attempts=attempts)


def _fail(work: Work, lease: Lease, error: BaseException, **changes: Any) -> None:
    if work.release(lease.id, Work.State.FAILED, fault=fault_of(error), waits_since=None, **changes):
        say(work, f"Failed. {explain(work).what}")
