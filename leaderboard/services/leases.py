"""Leases: a claim on a piece of work that a thread keeps alive, and the ways it ends."""

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
from django.db import Error, close_old_connections, connection, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Coalesce, Now

from leaderboard.models import WORK_TABLES, Rescoring, Scoring, Work, Worker
from leaderboard.models.clock import from_now
from leaderboard.models.work import WaitsFor
from leaderboard.services.abilities import note_ability, other_workers, recent_problem, worker_name
from leaderboard.services.artefacts import ArtefactLost, note_loss
from leaderboard.services.failures import explain, failure_called, failure_of, fault_of, is_database_away
from leaderboard.services.folders import HostLacks
from leaderboard.services.queue import PASS_SECONDS, sweep, wake
from leaderboard.services.release import refusal
from leaderboard.services.submission_log import say
from scoring.language_models.product_rates import SlowPrecision
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
# What another host may have.
LACKED_HERE = (HostLacks, LexiconError, ScorerUnavailable, SlowPrecision, UnknownScorer, ImportError)
PANIC = "PanicException"  # of libraries in Rust: a BaseException that cannot be imported


class LeaseLost(Exception):
    """Another worker holds the work, or it was cancelled: stop and write nothing."""


class ScorerChanged(RuntimeError):
    """The scorer is no longer the one that a metric version's numbers were made with."""


class Deferred(Exception):
    """The work has to wait: give it back for so many seconds; `reason` says in words what it waits for."""

    def __init__(self, seconds: float, reason: str = "", waits_for: str = "") -> None:
        super().__init__(reason or f"to be tried again in {seconds:g} s")
        self.seconds = seconds
        self.waits_for = waits_for
        self.reason = f"{WaitsFor(waits_for).label}{f': {reason}' if reason else ''}" if waits_for else reason


class OutOfTime(RuntimeError):
    """The work took longer than it may."""


class WorkersDied(RuntimeError):
    """Every worker that began the work died."""


class Interrupted(Exception):
    """Give the work back: this worker stops, its slice is over, or the work was paused."""


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
        self._renewals: list[Callable[[], object]] = []
        self._renewing = threading.Lock()

    def check(self) -> None:
        """Raise LeaseLost or Interrupted where the work must stop."""
        if self._lost.is_set():
            raise LeaseLost
        if stop_requested.is_set():
            raise Interrupted

    def take_turn(self) -> None:
        """As `check`; raise Interrupted, too, where the work was paused or it is the turn of other work.

        Call it between shards: otherwise a shard that takes longer than a slice would be begun again for ever.
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
        final = {"reason": "", "fault": "", "waits_since": None, "attempts": F("attempts") - 1}
        if not self.work.release(self.id, Work.State.DONE, **final, **changes):
            raise LeaseLost
        self._resume_others()

    def count_anew(self) -> None:
        """Count attempts from this one on, because a part of the work is finished for good. Raises LeaseLost."""
        self.work.attempts = 1
        self.note(at_once=True, attempts=1, reason="", fault="", waits_since=None)
        self._resume_others()

    def _resume_others(self) -> None:
        """What this work waited for is over: let other work go on that waits for the same."""
        fault = self.work.fault if self.work.waits_since else ""
        self.work.waits_since = None
        if fault and not failure_called(fault).of_one_file:
            transaction.on_commit(partial(end_waiting, fault))

    def _beat(self) -> None:
        term = settings.LEASE_SECONDS / 3
        renewed_at = time.monotonic()
        try:
            while not self._done.wait(min(term, LOOK_EVERY)):
                close_old_connections()
                moment = time.monotonic()
                due = moment - renewed_at >= term
                try:
                    is_ours = self.work.renew(self.id) if due else self.work.is_held(self.id)
                    if due and is_ours:
                        self._renew_others()
                    renewed_at = moment if due else renewed_at
                except Error as error:
                    log.warning("%s: no heartbeat, the database says: %s", self.work, error)
                    continue  # the lease outlasts a missed beat or two
                if not is_ours or moment - self._progressed >= STUCK_AFTER * settings.NO_PROGRESS_SECONDS:
                    self._lost.set()
                    self._watch_for_end()
                    return
        finally:
            connection.close()  # this thread's own

    def _watch_for_end(self) -> None:
        """Note that this worker is stuck while it goes on with work that it lost, and when that is over."""
        if self._done.wait(STUCK_SECONDS):
            return
        note_stuck(self._worker, str(self.work))
        log.error("%s is stuck at %s: restart it", self._worker or "this process", self.work)
        self._done.wait()
        note_stuck(self._worker, "")

    @contextmanager
    def renewing(self, renew: Callable[[], object]) -> Iterator[None]:
        """Have `renew` called whenever the lease is renewed while the block runs: for what is held with the work."""
        with self._renewing:
            self._renewals.append(renew)
        try:
            yield
        finally:
            with self._renewing:  # so that none is renewed once the block is over
                self._renewals.remove(renew)

    def _renew_others(self) -> None:
        with self._renewing:
            for renew in self._renewals:
                renew()

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Renew the lease in the background while the block runs."""
        thread = threading.Thread(target=self._beat, name=f"heartbeat of {self.work}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()


@contextmanager
def claim(work: Work) -> Iterator[Lease | None]:
    """Claim `work` for the block; yields None if someone else holds it or there is nothing to do.

    The error that the block raises decides what happens to the work, by the declarations of `failures`. This is the
    one retry policy. A failure of the entry is final, or the work is tried again after a growing, jittered pause, up to
    MOST_ATTEMPTS times. A failure of the board counts no attempt and ends no work.
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
    earlier_attempts = work.attempts - 1
    if earlier_attempts >= settings.MOST_ATTEMPTS:
        _give_up(work, lease, earlier_attempts, last_worker)
        yield None
        return
    try:
        with structlog.contextvars.bound_contextvars(**{work.kind.key: work.pk}), lease.keep_alive():
            yield lease
    except LeaseLost:
        log.warning("%s: cancelled, or taken over by another worker", work)
    except Deferred as wait:
        changes = {"reason": wait.reason, "waits_for": wait.waits_for, "fault": "", "waits_since": None}
        _settle(partial(_put_back, work, lease, wait.seconds, **changes))
    except Interrupted:
        _settle(partial(_put_back, work, lease, 0.0, waits_for=F("waits_for")))
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        _note_failure(work, lease, error)


@contextmanager
def give_back_if_unable(table: type[Work], ability: str) -> Iterator[None]:
    """Give work back for another worker where this one lacks what it needs. Raises Deferred, or the error itself."""
    try:
        yield
    except (*LACKED_HERE, MemoryError) as error:
        if isinstance(error, ScorerUnavailable) and error.state is ScorerState.RETIRED:
            raise
        note_ability(worker_name(), ability, problem=str(error)[:500] or type(error).__name__)
        able = [row.name for row in other_workers(table.kind.queue) if not recent_problem(row, ability)]
        if not able or not worker_name():
            raise
        raise Deferred(PASS_SECONDS, f"{worker_name()} gave it back ({error}): it is for {', '.join(able)}") from error


def note_stuck(worker: str, task: str) -> None:
    """Note in the worker's row the work that it is stuck at; "" once it is not."""
    stuck_since = Now() if task else None
    Worker.objects.filter(name=worker).update(stuck_at=task[:200], stuck_since=stuck_since)


def _note_failure(work: Work, lease: Lease, error: BaseException) -> None:
    """Decide what happens to work whose block raised `error`."""
    if not connection.in_atomic_block:
        close_old_connections()  # the error may be that this one is lost
    if is_deadlock(error):
        log.warning("%s: another transaction was in the way: %s", work, error)
        _settle(partial(_put_back, work, lease, random.uniform(0.1, 1.0)))  # noqa: S311
    elif failure_of(error).of_board:
        log.warning("%s waits for the board: %s: %s", work, type(error).__name__, error)
        _settle(partial(_wait, work, lease, error))
    elif failure_of(error).final:
        log.error("%s failed for good: %s", work, error)
        _settle(partial(_fail, work, lease, error, reason=str(error)))
    else:
        log.error("%s failed", work, exc_info=error)
        _settle(partial(_retry, work, lease, error))


def _settle(write: Callable[[], object]) -> None:
    """Write the outcome of work. Wait for a database that is away: this worker can do nothing without it."""
    while True:
        try:
            write()
            return
        except Error as error:
            if connection.in_atomic_block or stop_requested.is_set() or not is_database_away(error):
                raise
            log.warning("the database does not take what became of work: %s", error)
            time.sleep(DATABASE_PAUSE)
            close_old_connections()


def is_deadlock(error: BaseException) -> bool:
    """Whether the database ended the transaction in favour of another one, so that it may be repeated."""
    return getattr(error.__cause__, "pgcode", None) in DEADLOCKS


def _put_back(work: Work, lease: Lease, seconds: float, **changes: Any) -> bool:
    """Queue work again after so many seconds and do not count the attempt; returns whether the lease was held."""
    changes = {"attempts": F("attempts") - 1, "not_before": from_now(seconds) if seconds > 0 else None} | changes
    was_held = work.release(lease.id, Work.State.QUEUED, **changes)
    if was_held:
        transaction.on_commit(partial(wake, work, seconds))
    return was_held


def _wait(work: Work, lease: Lease, error: BaseException) -> None:
    """Let work wait for the board, and with it the rescoring that it is part of."""
    if isinstance(error, ArtefactLost):
        note_loss(error)
    durations = type(work)._default_manager.annotate(waited=Now() - F("waits_since")).values_list("waited", flat=True)
    duration: timedelta | None = durations.get(pk=work.pk)
    longest = min(LONGEST_BACKOFF, duration.total_seconds() / 2) if duration else 0.0
    pause = max(FIRST_BACKOFF, longest) * random.uniform(0.5, 1.5)  # noqa: S311
    waits = {
        "reason": f"{type(error).__name__}: {error}",
        "fault": fault_of(error),
        "waits_since": Coalesce("waits_since", Now()),
        "waits_for": "",
    }
    if not _put_back(work, lease, pause, **waits):
        return
    if isinstance(work, Scoring) and not failure_called(work.fault).of_one_file:
        other_scorings = Scoring.objects.filter(
            metric_version=work.metric_version_id, state=Work.State.QUEUED, held=False
        )
        active = Rescoring.objects.active().filter(to_version=OuterRef("metric_version"))
        other_scorings.filter(Exists(active)).update(not_before=work.not_before, **waits)
    if duration is None:
        say(work, f"It has to wait. {explain(work).what} It is tried again by itself, until that is fixed.")


def end_waiting(fault: str) -> None:
    """Resume at once all work that waits for this fault of the board: other work that waited for it is done.

    Work that was resumed before and did not begin yet has its message.
    """
    count = 0
    for table in WORK_TABLES:
        rows = table.objects.filter(state=Work.State.QUEUED, fault=fault, waits_since__isnull=False)
        count += rows.filter(not_before__gt=Now()).update(not_before=None, enqueued_at=None)
    if count:
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
    changes = {"attempts": attempts, "reason": reason, "fault": fault_of(error), "waits_since": None}
    if _put_back(work, lease, pause, **changes):
        say(work, f"Attempt {attempts} came to nothing. {explain(work).what} It is tried again in {pause:.0f} s.")


def _give_up(work: Work, lease: Lease, attempts: int, last_worker: str) -> None:
    """End work whose every attempt killed its worker."""
    last_one = f", the last of them {last_worker}" if last_worker else ""
    error = WorkersDied(
        f"{attempts} attempts began and none came to an end: each time the worker that was at it died{last_one}. Look "
        "into that worker's log; where memory ran out, give it more or the work less"
    )
    log.error("%s is given up: %s", work, error)
    _fail(work, lease, error, reason=str(error), attempts=attempts)


def _fail(work: Work, lease: Lease, error: BaseException, **changes: Any) -> None:
    if work.release(lease.id, Work.State.FAILED, fault=fault_of(error), waits_since=None, **changes):
        say(work, f"Failed. {explain(work).what}")
