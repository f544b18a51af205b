"""What a moderator looks at on any board, however open: names like others' names, and new public rankings."""

from django.db.models import QuerySet

from leaderboard.models import LanguageModel, Submission
from leaderboard.services.submissions import tool
from leaderboard.services.submissions.lookalikes import outline

MOST_ALIKE = 5  # that are named


def find_concerns(submission: Submission) -> list[str]:
    """Why a moderator has to look at a submission before anything of it is public, a sentence each."""
    concerns = [*name_concerns(submission, submission.name)]
    if submission.form == Submission.Form.TOOL:
        concerns += tab_concerns(submission)
    return concerns


def name_concerns(submission: Submission, name: str) -> list[str]:
    """Which models of others a name can be taken for."""
    shape = outline(name)
    names = models_of_others(submission).values_list("name", flat=True)
    alike = sorted({other for other in names if outline(other) == shape})
    return [f"The name {name!r} can be taken for another model's here: {other!r}." for other in alike[:MOST_ALIKE]]


def tab_concerns(submission: Submission) -> list[str]:
    """Which rankings it would open that the board does not have."""
    k = submission.payload["k"]
    if k is None:
        return []
    missing = tool.without_ranking(submission.payload)
    return [f"It opens a new public ranking: {metric.title} with k = {k} continuations a prompt." for metric in missing]


def models_of_others(submission: Submission) -> QuerySet[LanguageModel]:
    """The models that are neither the submission's own nor other revisions of it."""
    if submission.model:
        return LanguageModel.objects.exclude(pk__in=LanguageModel.objects.lineage(submission.model))
    if located := submission.payload.get("hub_id"):
        return LanguageModel.objects.exclude(source=LanguageModel.Source.HUB, location=located)
    return LanguageModel.objects.exclude(submissions__submitter=submission.submitter_id)
