"""What somebody submitted and how far it is, for programs: the API and the command say the same."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from leaderboard.models import Submission, Work
from leaderboard.services.failures import shown
from leaderboard.services.submissions.evaluations import Evaluation, evaluations


@dataclass(frozen=True)
class Asked:
    """A metric that a submission asked for: `state` is "" before its work is queued; texts done, of how many."""

    metric: str
    state: str
    done: int
    total: int
    reason: str


@dataclass(frozen=True)
class Sent:
    """A submission. `path`: of its page; `model` and `model_path`: once it is entered."""

    id: int
    form: str
    state: str
    in_words: str
    reason: str
    report: dict[str, Any]
    name: str
    hub_id: str | None
    revision: str
    metrics: list[Asked]
    model: str | None
    path: str
    model_path: str | None
    created_at: datetime
    ended_at: datetime | None


def sent_by(user: User) -> QuerySet[Submission]:
    """What somebody submitted, the newest first."""
    return Submission.objects.filter(submitter=user).select_related("model")


def described(submissions: list[Submission]) -> list[Sent]:
    """How far each is. Three queries for any number."""
    found = evaluations(submissions)
    return [_described(submission, found[submission.pk]) for submission in submissions]


def _described(submission: Submission, found: list[Evaluation]) -> Sent:
    payload, model = submission.payload, submission.model
    work = {one.metric.slug: one.work for one in found}
    return Sent(
        id=submission.pk,
        form=submission.form,
        state=submission.state,
        in_words=submission.get_state_display(),
        reason=submission.reason,
        report=submission.report,
        name=payload.get("name", ""),
        hub_id=payload.get("hub_id"),
        revision=payload.get("resolved", payload).get("revision", ""),
        metrics=[_asked(slug, work.get(slug)) for slug in payload.get("metrics", [])],
        model=model.slug if model else None,
        path=submission.get_absolute_url(),
        model_path=model.get_absolute_url() if model else None,
        created_at=submission.created_at,
        ended_at=submission.ended_at,
    )


def _asked(metric: str, work: Work | None) -> Asked:
    return Asked(metric, work.state, work.done, work.total, shown(work.reason)) if work else Asked(metric, "", 0, 0, "")
