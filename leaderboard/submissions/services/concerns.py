"""What needs a moderator even on an open board: names like those of others, and new public rankings."""

from typing import Any

from django.db.models import QuerySet

from leaderboard.models import LanguageModel, Submission
from leaderboard.submissions.services import tool
from leaderboard.submissions.services.lookalikes import outline

MOST_ALIKE = 5  # that are named


def find_concerns(submission: Submission, payload: dict[str, Any]) -> list[str]:
    """List why a moderator has to review a submission before it becomes public, one sentence each.

    `payload`: what the submission is to hold.
    """
    concerns = name_concerns(submission, payload["name"])
    if submission.form == Submission.Form.TOOL:
        concerns += tab_concerns(payload)
    return concerns


def name_concerns(submission: Submission, name: str) -> list[str]:
    """List the models of other people that have a similar name."""
    shape = outline(name)
    names = models_of_others(submission).values_list("name", flat=True)
    alike = sorted({other for other in names if outline(other) == shape})
    return [f"The name {name!r} could be taken for another model's here: {other!r}." for other in alike[:MOST_ALIKE]]


def tab_concerns(payload: dict[str, Any]) -> list[str]:
    """List the new rankings that a submission with this payload would open."""
    k = payload["k"]
    if k is None:
        return []
    metrics = tool.list_metrics_without_ranking(payload)
    return [
        f"It opens a new public ranking: {metric.title} with k = {k} continuations per prompt." for metric in metrics
    ]


def models_of_others(submission: Submission) -> QuerySet[LanguageModel]:
    """Return the models that are neither the submission's own nor other revisions of its model."""
    if submission.model:
        return LanguageModel.objects.exclude(pk__in=LanguageModel.objects.lineage(submission.model))
    if hub_id := submission.payload.get("hub_id"):
        return LanguageModel.objects.exclude(source=LanguageModel.Source.HUB, location=hub_id)
    return LanguageModel.objects.exclude(submissions__submitter=submission.submitter_id)
