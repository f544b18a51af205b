"""What becomes of a submission: it is taken, perhaps moderated, begun, and ends ranked or with a reason."""

from collections.abc import Callable

from django.contrib.auth.models import User

from leaderboard.models import LanguageModel, Metric, Run, Submission
from leaderboard.services.accounts import submissions_are_moderated
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.submissions import hub

State = Submission.State
# Of each form: enters the model that the payload describes; and its run, where there are outputs already.
ENTERS: dict[str, Callable[[Submission], LanguageModel]] = {
    Submission.Form.HUB: hub.enter,
}


def take(submission: Submission) -> None:
    """Go on with what is checked: to a moderator on a moderated board, else to work. In the caller's transaction."""
    if submissions_are_moderated():
        submission.move(State.MODERATED)
    else:
        begin(submission)


def begin(submission: Submission, actor: User | None = None) -> bool:
    """Enter the model and queue its evaluations. In a transaction. False where the submission's state forbids it.

    Raises CannotEvaluate where a metric cannot be had any more.
    """
    if not submission.move(State.ACCEPTED, reason="", ended_at=None):
        return False
    submission.model = ENTERS[submission.form](submission)
    submission.save(update_fields=["model"])
    for metric in Metric.objects.filter(slug__in=submission.payload["metrics"]).order_by("slug"):
        scoring = request_evaluation(submission.model, metric)
        submission.scorings.add(scoring)
        Run.objects.unfinished().filter(scorings=scoring, requester=None).update(requester=submission.submitter)
    return True
