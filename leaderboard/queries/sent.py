"""What somebody submitted and how far it is, for programs: the API and the command say the same."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from leaderboard.models import Scoring, Submission, Work


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
    """What somebody submitted, the newest first, with what `described` needs: three queries for any number."""
    return (
        Submission.objects.filter(submitter=user)
        .select_related("model")
        .prefetch_related("scorings__run", "scorings__metric_version__metric")
    )


def described(submission: Submission) -> Sent:
    """How far one is."""
    payload, model = submission.payload, submission.model
    work = {scoring.metric_version.metric.slug: _next(scoring) for scoring in submission.scorings.all()}
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


def _next(scoring: Scoring) -> Work:
    """What has to be done next, or ended it: collecting, and then scoring."""
    return scoring if scoring.run is None or scoring.run.state == Work.State.DONE else scoring.run


def _asked(metric: str, work: Work | None) -> Asked:
    return Asked(metric, work.state, work.done, work.total, work.reason) if work else Asked(metric, "", 0, 0, "")
