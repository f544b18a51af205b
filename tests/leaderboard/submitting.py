"""Submissions to test with: as they are once their form was checked, whatever the form."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import reverse

from leaderboard import tasks
from leaderboard.models import LanguageModel, Metric, Scoring, Submission
from leaderboard.services.evaluate import request_evaluation
from leaderboard.submissions.services import lifecycle
from tests.leaderboard.living import SLUG, drain, entrant, small_metric, standing_in, submit
from tests.leaderboard.test_accounts import person
from tests.rows import Board, load_board

HUB_ID = "an-institute/a-model"
__all__ = ["person"]


@contextmanager
def entered_by_number(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Submissions of `sent` enter a model whose continuations are collected already, of the number that they name."""

    def enter(submission: Submission) -> LanguageModel:
        number = submission.payload["number"]
        found = LanguageModel.objects.filter(slug=f"entrant-{number}").first()
        if found is None:
            found = entrant(number, Metric.objects.get(slug=submission.payload["metrics"][0]))
            found.source, found.location = LanguageModel.Source.HUB, submission.payload["hub_id"]
            found.name, found.licence = submission.payload["name"], submission.payload["licence"]
            found.save()
        return found

    with patch.context() as patched:
        patched.setitem(lifecycle.ENTERS, Submission.Form.HUB, enter)
        yield


def sent(user: User, *metrics: str, number: int = 1, state: str = "checking", **payload: Any) -> Submission:
    """A submission in a state before any work was done for it."""
    return Submission.objects.create(
        submitter=user,
        form=Submission.Form.HUB,
        state=state,
        reason="Say which texts it was trained on." if state == "returned" else "",
        payload={
            "hub_id": HUB_ID,
            "revision": "main",
            "name": f"Entrant {number}",
            "metrics": list(metrics),
            "licence": "mit",
            "family": "",
            "notes": "",
            "number": number,
            "resolved": {"revision": hashlib.sha256(str(number).encode()).hexdigest()[:40]},
            **payload,
        },
    )


@pytest.fixture
def stage():
    with standing_in() as found:
        yield found


@pytest.fixture(scope="session")
def small_rows(recall, tmp_path_factory) -> Board:
    """The rows of `small`, computed once."""
    folder = tmp_path_factory.mktemp("small")

    def build() -> None:
        metric = small_metric(folder)
        submit(entrant(0, metric), metric)

    with standing_in():
        return recall("submitting", build)


@pytest.fixture
def small(small_rows, db, stage, monkeypatch) -> Metric:
    """A metric of ten prompts with one entry, and submissions that bring their outputs along."""
    load_board(small_rows)
    with entered_by_number(monkeypatch):
        yield Metric.objects.get(slug=SLUG)


@pytest.fixture
def ada(db) -> User:
    return person("ada")


def begun(user: User, number: int = 1, *metrics: str) -> Submission:
    submission = sent(user, *(metrics or [SLUG]), number=number)
    with transaction.atomic():
        lifecycle.begin(submission)
    return submission


def ranked(user: User, number: int = 1) -> Submission:
    submission = begun(user, number)
    drain()
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == Submission.State.RANKED
    return submission


def submit_of_the_board(metric: Metric) -> Scoring:
    return request_evaluation(entrant(7, metric), metric, send=False)


def page(user: User, submission: Submission, name: str = "submission", **headers) -> str:
    client = Client()
    client.force_login(user)
    return client.get(reverse(name, args=[submission.pk]), headers=headers).content.decode()
