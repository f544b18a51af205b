"""The log that submitters read: what happens to their models, written where it happens."""

from django.db import connection
from django.db.models import QuerySet

from leaderboard.models import (
    ControlCheck,
    LanguageModel,
    MetricVersion,
    Run,
    Scoring,
    Submission,
    SubmissionLine,
    Work,
)

LONGEST = SubmissionLine._meta.get_field("text").max_length


def say(work: Work, text: str) -> None:
    """Write a line into the log of each submission that waits for `work`; a no-op for the board's own.

    One query at most. Say nothing that only operators may read: paths, secrets, answers of other machines.
    """
    if (isinstance(work, Run) and work.requester_id is not None) or isinstance(work, Scoring):
        say_to(Submission.objects.filter(model=work.model_id), text)
    elif isinstance(work, ControlCheck) and work.trigger == ControlCheck.Trigger.SUBMISSION:
        say_to_entries(Scoring.objects.unfinished().filter(metric_version__metric=work.metric_id), text)


def say_to_model(model: LanguageModel, text: str) -> None:
    """Write a line into the log of each submission of the model, in one query."""
    say_to(Submission.objects.filter(model=model), text)


def say_to_version(version: MetricVersion, text: str) -> None:
    """Write a line into the log of each submission whose model waits for its numbers under `version`, in one query."""
    say_to_entries(version.scorings.unfinished(), text)


def say_to_entries(scorings: "QuerySet[Scoring]", text: str) -> None:
    """Write a line into the log of each submission whose model is among these entries, in one query."""
    say_to(Submission.objects.filter(model__in=scorings.values("model")), text)


def say_to(submissions: "QuerySet[Submission]", text: str) -> None:
    """Write a line into the log of those submissions that are under way, in one query: most often there are none."""
    under_way = submissions.filter(state=Submission.State.ACCEPTED).order_by().values("id")
    selection, parameters = under_way.query.sql_with_params()
    line = SubmissionLine._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {line} (submission_id, text) SELECT waiting.id, %s FROM ({selection}) AS waiting",  # noqa: S608
            [text[:LONGEST], *parameters],
        )
