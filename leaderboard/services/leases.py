"""Holding a piece of work: a claim that a thread keeps alive, and the ways it ends."""

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog
from celery import current_task
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from leaderboard.models import Work, Worker
from leaderboard.services.failures import explain
from leaderboard.services.submission_log import say
from scoring.artefacts import ArtefactError
from scoring.cage import CageUnavailable
from scoring.generation import ServerRefused, UnsupportedKind
from scoring.language_models import ModelRefused
from scoring.likelihood import NotApplicable
from scoring.scorers import LexiconError, ScorerState, ScorerUnavailable, UnknownScorer

log = logging.getLogger(__name__)

stop_requested = threading.Event()  # set when this worker is asked to go down

FIRST_BACKOFF = 10.0  # seconds; doubles with every attempt
LONGEST_BACKOFF = 600.0
PROGRESS_EVERY = 1.0  # seconds between writes of progress
STUCK_SECONDS = 30.0  # in which a worker is to notice that its work was taken from it
STUCK_AFTER = 1.5  # times the seconds without progress after which a worker that did not notice is stuck
LOOK_EVERY = 1.5  # seconds between two looks whether the work was cancelled
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


NEVER_RETRIED = (
    ArtefactError,
    LexiconError,
    ModelRefused,
    NotApplicable,
    OutOfTime,
    ScorerChanged,
    ServerRefused,
    UnknownScorer,
    UnsupportedKind,
    WorkersDied,
)
PATIENT = (CageUnavailable, InterfaceError, OperationalError)  # faults of the board, which end no work


class Lease:
    """A claim on `work`, renewed by a thread until it is given back."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.id: UUID = uuid4()
        self.attempt = 0  # which one of the work's this is, from 1: a row that a transaction took back says another
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
        if not self.work.release(self.id, Work.State.DONE, reason="", fault="", attempts=self.attempt - 1, **changes):
            raise LeaseLost

    def count_anew(self) -> None:
        """A part of the work is finished for good: only this attempt counts from here on. Raises LeaseLost."""
        self.attempt = 1
        self.note(at_once=True, attempts=1)

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

    What the block raises decides what becomes of the work: the one retry policy. A refusal is final; anything else is
    tried again after a growing, jittered pause, up to MOST_ATTEMPTS times, or until it answers where a scorer or the
    database is unavailable: that is no fault of the work.
    """
    lease = Lease(work)
    last_worker = work.worker
    if not work.claim(lease.id, worker_name()[:200]):
        yield None
        return
    lease.attempt = work.attempts
    before = lease.attempt - 1
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
        not_before = timezone.now() + timedelta(seconds=wait.seconds)
        orderly = {"attempts": lease.attempt - 1, "not_before": not_before, "reason": wait.reason, "fault": ""}
        work.release(lease.id, Work.State.QUEUED, **orderly)
    except Interrupted:
        work.release(lease.id, Work.State.QUEUED, attempts=lease.attempt - 1)
    except NEVER_RETRIED as error:
        log.error("%s failed for good: %s", work, error)
        _fail(work, lease, error, reason=str(error))
    except Exception as error:
        log.exception("%s failed", work)
        if not connection.in_atomic_block:
            close_old_connections()  # the error may be that this one is lost
        _retry(work, lease, error)
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        log.exception("%s failed", work)
        _retry(work, lease, error)


def worker_name() -> str:
    """What Celery calls this worker, "" where this process is none."""
    task = current_task
    return str(getattr(getattr(task, "request", None), "hostname", None) or "")


def note_stuck(worker: str, at: str) -> None:
    """Note in the worker's row what it is stuck at; "" where it is not any more."""
    since = timezone.now() if at else None
    Worker.objects.filter(name=worker).update(stuck_at=at[:200], stuck_since=since)


def _retry(work: Work, lease: Lease, error: BaseException) -> None:
    attempts = lease.attempt
    reason = f"{type(error).__name__}: {error}"
    away = isinstance(error, ScorerUnavailable) and error.state is not ScorerState.RETIRED
    patient = away or isinstance(error, PATIENT)
    if attempts >= settings.MOST_ATTEMPTS and not patient:
        _fail(work, lease, error, reason=f"{reason} ({attempts} attempts)")
        return
    if patient:  # it counts no attempts, so the pause grows with how long it waits already
        attempts -= 1
        waited = (timezone.now() - (work.started_at or timezone.now())).total_seconds()
        pause = max(FIRST_BACKOFF, min(LONGEST_BACKOFF, waited / 2))
    else:
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(attempts - 1, 10))
    pause *= random.uniform(0.5, 1.5)  # noqa: S311
    not_before = timezone.now() + timedelta(seconds=pause)
    fault = type(error).__name__
    again = {"attempts": attempts, "reason": reason, "fault": fault, "not_before": not_before}
    if work.release(lease.id, Work.State.QUEUED, **again):
        began = "It has to wait." if patient else f"Attempt {attempts} came to nothing."
        say(work, f"{began} {explain(work).what} It is tried again in {pause:.0f} s.")


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
    if work.release(lease.id, Work.State.FAILED, fault=type(error).__name__, **changes):
        say(work, f"Failed. {explain(work).what}")
