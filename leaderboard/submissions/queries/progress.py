"""The progress of submissions for programs: the API and the command show the same."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from leaderboard.models import LanguageModel, Submission, Work
from leaderboard.services.failures import redact
from leaderboard.submissions.services.evaluations import Evaluation, evaluations


@dataclass(frozen=True)
class MetricProgress:
    """A metric that a submission asked for. `state`: "" before its work is queued; `done` of `total` texts."""

    metric: str
    state: str
    done: int
    total: int
    reason: str


@dataclass(frozen=True)
class SubmissionProgress:
    """A submission. `path`: of its page. `model` and `model_path`: set once the model is entered."""

    id: int
    form: str
    state: str
    in_words: str
    reason: str
    report: dict[str, Any]
    name: str
    hub_id: str | None
    revision: str
    interface: str
    precision: str
    metrics: list[MetricProgress]
    model: str | None
    path: str
    model_path: str | None
    created_at: datetime
    ended_at: datetime | None


def submissions_by(user: User) -> QuerySet[Submission]:
    """Return the submissions of `user`, newest first."""
    return Submission.objects.filter(submitter=user).select_related("model")


def describe_submissions(submissions: list[Submission]) -> list[SubmissionProgress]:
    """Describe the progress of each submission, in three queries for any number."""
    evaluations_by_submission = evaluations(submissions)
    return [_describe_submission(submission, evaluations_by_submission[submission.pk]) for submission in submissions]


def _describe_submission(submission: Submission, submission_evaluations: list[Evaluation]) -> SubmissionProgress:
    payload, model = submission.payload, submission.model
    work = {one.metric.slug: one.work for one in submission_evaluations}
    return SubmissionProgress(
        id=submission.pk,
        form=submission.form,
        state=submission.state,
        in_words=submission.get_state_display(),
        reason=submission.reason,
        report=submission.report,
        name=payload.get("name", ""),
        hub_id=payload.get("hub_id"),
        revision=payload.get("resolved", payload).get("revision", ""),
        interface=payload.get("interface", LanguageModel.Interface.TEXT.value),
        precision=payload.get("precision", ""),
        metrics=[_describe_metric(slug, work.get(slug)) for slug in payload.get("metrics", [])],
        model=model.slug if model else None,
        path=submission.get_absolute_url(),
        model_path=model.get_absolute_url() if model else None,
        created_at=submission.created_at,
        ended_at=submission.ended_at,
    )


def _describe_metric(metric: str, work: Work | None) -> MetricProgress:
    return (
        MetricProgress(metric, work.state, work.done, work.total, redact(work.reason))
        if work
        else MetricProgress(metric, "", 0, 0, "")
    )
