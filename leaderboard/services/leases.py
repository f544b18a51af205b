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
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from leaderboard.models import Work
from leaderboard.services.failures import explain
from leaderboard.services.submission_log import say
from scoring.artefacts import ArtefactError
from scoring.generation import ServerRefused, UnsupportedKind
from scoring.language_models import ModelRefused
from scoring.likelihood import NotApplicable
from scoring.scorers import LexiconError, ScorerState, ScorerUnavailable, UnknownScorer

log = logging.getLogger(__name__)

stop_requested = threading.Event()  # set when this worker is asked to go down

FIRST_BACKOFF = 10.0  # seconds; doubles with every attempt
LONGEST_BACKOFF = 600.0
PROGRESS_EVERY = 1.0  # seconds between writes of progress


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


class Interrupted(Exception):
    """This worker goes down, has worked long enough on one thing, or the work was paused: give it back."""


NEVER_RETRIED = (
    ArtefactError,
    LexiconError,
    ModelRefused,
    NotApplicable,
    ScorerChanged,
    ServerRefused,
    UnknownScorer,
    UnsupportedKind,
)


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
        if not self.work.renew(self.id, **progress):
            raise LeaseLost

    def finish(self, **changes: Any) -> None:
        """Mark the work done. Raises LeaseLost, so that a surrounding transaction takes back what it wrote."""
        if not self.work.release(self.id, Work.State.DONE, reason="", fault="", **changes):
            raise LeaseLost

    def _beat(self) -> None:
        try:
            while not self._done.wait(settings.LEASE_SECONDS / 3):
                close_old_connections()
                try:
                    kept = self.work.renew(self.id)
                except Error as error:
                    log.warning("%s: no heartbeat, the database says: %s", self.work, error)
                    continue  # the lease outlasts a missed beat or two
                if not kept:
                    self._lost.set()
                    return
        finally:
            connection.close()  # this thread's own

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
    if not work.claim(lease.id):
        yield None
        return
    try:
        with structlog.contextvars.bound_contextvars(**{str(work._meta.model_name): work.pk}), lease.beating():
            yield lease
    except LeaseLost:
        log.warning("%s: cancelled, or taken over by another worker", work)
    except Deferred as wait:
        not_before = timezone.now() + timedelta(seconds=wait.seconds)
        work.release(lease.id, Work.State.QUEUED, not_before=not_before, reason=wait.reason)
    except Interrupted:
        work.release(lease.id, Work.State.QUEUED)
    except NEVER_RETRIED as error:
        log.error("%s failed for good: %s", work, error)
        _fail(work, lease, error, reason=str(error))
    except Exception as error:
        log.exception("%s failed", work)
        if not connection.in_atomic_block:
            close_old_connections()  # the error may be that this one is lost
        _retry(work, lease, error)


def _retry(work: Work, lease: Lease, error: Exception) -> None:
    attempts = work.attempts + 1
    reason = f"{type(error).__name__}: {error}"
    away = isinstance(error, ScorerUnavailable) and error.state is not ScorerState.RETIRED
    patient = away or isinstance(error, (InterfaceError, OperationalError))
    if attempts >= settings.MOST_ATTEMPTS and not patient:
        _fail(work, lease, error, reason=f"{reason} ({attempts} attempts)", attempts=attempts)
        return
    pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(work.attempts, 10)) * random.uniform(0.5, 1.5)  # noqa: S311
    not_before = timezone.now() + timedelta(seconds=pause)
    fault = type(error).__name__
    again = {"attempts": attempts, "reason": reason, "fault": fault, "not_before": not_before}
    if work.release(lease.id, Work.State.QUEUED, **again):
        say(work, f"Attempt {attempts} came to nothing. {explain(work).what} It is tried again in {pause:.0f} s.")


def _fail(work: Work, lease: Lease, error: Exception, **changes: Any) -> None:
    if work.release(lease.id, Work.State.FAILED, fault=type(error).__name__, **changes):
        say(work, f"Failed. {explain(work).what}")
