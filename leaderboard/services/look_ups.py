"""Looking into a model of the hub: in a cage of this host, or of a worker's where this host has no engine."""

import time
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from django.core.cache import cache
from kombu.exceptions import OperationalError

from leaderboard.celery import app
from leaderboard.services import cages
from leaderboard.services.devices import has_engine
from scoring.cage import LOOK_UP, CageError, CageUnavailable
from scoring.language_models import (
    Architecture,
    Gated,
    HubUnavailable,
    ModelRefused,
    NoSuchRevision,
    NotOnHub,
    ResolvedModel,
)

READING = LOOK_UP.seconds  # beyond the answers of the hub: for what the configuration describes
PAUSE_SECONDS = 0.2  # between two looks for a worker's answer
ANSWER_SECONDS = 120  # for which an answer is kept
TASK = "leaderboard.tasks.look_up"
QUEUE = "readings"
# What a look-up raises, the special before the general.
ERRORS: dict[str, type[Exception]] = {
    error.__name__: error
    for error in (NoSuchRevision, NotOnHub, Gated, ModelRefused, HubUnavailable, CageUnavailable, CageError)
}


def prepare() -> None:
    """Start what takes seconds before anybody waits for a look-up. Raises CageUnavailable."""
    if has_engine():
        cages.prepare()


def look_up(hub_id: str, revision: str | None, patience: float) -> ResolvedModel:
    """What the hub has under that id. The hub has `patience` seconds to answer.

    Raises ModelRefused, HubUnavailable; CageError where nobody can look into models now.
    """
    if has_engine():
        return cages.look_up(hub_id, revision, patience)
    return ask_worker(hub_id, revision, patience)


def ask_worker(hub_id: str, revision: str | None, patience: float) -> ResolvedModel:
    """As `look_up`, by a worker that reads what people send. Raises the same."""
    key, seconds = f"look-up:{uuid4().hex}", patience + READING
    try:
        app.send_task(TASK, [key, hub_id, revision, patience], queue=QUEUE, expires=seconds)
    except OperationalError as error:
        raise CageUnavailable("no worker can be asked: the broker does not answer") from error
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := cache.get(key):
            cache.delete(key)
            return read_answer(answer)
        time.sleep(PAUSE_SECONDS)
    raise CageUnavailable(f"no worker looked into {hub_id} within {seconds:g} s")


def answer_look_up(key: str, hub_id: str, revision: str | None, patience: float) -> None:
    """Look up a model for a web server that waits for it, and leave the answer in the cache."""
    try:
        answer: dict[str, Any] = {"model": asdict(cages.look_up(hub_id, revision, patience))}
    except tuple(ERRORS.values()) as error:
        name = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        answer = {"error": name, "message": str(error)}
    cache.set(key, answer, ANSWER_SECONDS)


def read_answer(answer: dict[str, Any]) -> ResolvedModel:
    """The model that a worker answered with. Raises what the look-up raised there."""
    if "model" in answer:
        return ResolvedModel(**{**answer["model"], "architecture": Architecture(**answer["model"]["architecture"])})
    raise ERRORS[answer["error"]](answer["message"])
