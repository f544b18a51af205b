"""Submissions to test with: as they are once their form was checked, whatever the form."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User

from leaderboard.models import LanguageModel, Metric, Submission
from leaderboard.services.submissions import lifecycle
from tests.leaderboard.living import entrant
from tests.leaderboard.test_accounts import person

HUB_ID = "an-institute/a-model"
__all__ = ["entered_by_number", "person", "sent"]


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
