"""What becomes of a submission: it is taken, perhaps moderated, begun, and ends ranked or with a reason."""

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from leaderboard.models import EntryCheck, LanguageModel, Metric, Run, Scoring, Submission, SubmissionLine, Work
from leaderboard.services import downloads
from leaderboard.services.accounts import may_submit, submissions_are_moderated
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.failures import Failure, explain
from leaderboard.services.locks import lock_metrics
from leaderboard.services.places import places_of
from leaderboard.services.submissions import hub, outputs, tool
from leaderboard.services.submissions.concerns import find_concerns
from leaderboard.services.submissions.evaluations import ENDED, Evaluation, Step, evaluations

State = Submission.State
# Of each form: enters the model that the payload describes; and its run, where there are outputs already.
ENTERS: dict[str, Callable[[Submission], LanguageModel]] = {
    Submission.Form.HUB: hub.enter,
    Submission.Form.OUTPUTS: outputs.enter,
    Submission.Form.TOOL: tool.enter,
}
NO_LONGER = Failure("Its evaluation was given up with a version of the metric.", "Retry it.")


class CannotChange(ValueError):
    """The submission cannot go that way now; the message says why and what to do."""


def take(submission: Submission) -> None:
    """Go on with what is checked: to a moderator where the board or a concern asks for one, else to work.

    In the caller's transaction.
    """
    concerns = find_concerns(submission)
    if concerns or submissions_are_moderated():
        submission.move(State.MODERATED, concerns=concerns)
        SubmissionLine.objects.bulk_create(
            SubmissionLine(submission=submission, text=f"For a moderator: {concern}"[:500]) for concern in concerns
        )
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
    asked = Metric.objects.filter(slug__in=submission.payload["metrics"])
    for metric in lock_metrics(asked.values_list("pk", flat=True)):
        scoring = request_evaluation(submission.model, metric)
        submission.scorings.add(scoring)
        Run.objects.unfinished().filter(scorings=scoring, requester=None).update(requester=submission.submitter)
    return True


def settle() -> int:
    """End the submissions under way whose evaluations have all ended; returns how many. Safe to call at any time."""
    under_way = list(Submission.objects.filter(state=State.ACCEPTED).select_related("model"))
    if not under_way:
        return 0
    found = evaluations(under_way)
    return sum(_end(submission, found[submission.pk]) for submission in under_way)


def _end(submission: Submission, found: list[Evaluation]) -> bool:
    under_way = [one for one in found if one.step not in (*ENDED, Step.NOT_BEGUN)]
    late = [one for one in under_way if one.waits_for_scorer]
    if len(late) < len(under_way) or submission.model is None:
        return False
    if late and not any(one.step == Step.RANKED for one in found):
        return False  # there is nothing to show for it yet
    missed = [one for one in found if one.step != Step.RANKED and one not in late]
    with transaction.atomic():
        if not missed:
            return _rank(submission, found, late)
        if all(one.step == Step.CANCELLED for one in missed):
            return submission.move(State.CANCELLED, reason=_said(missed))
        return submission.move(State.FAILED, reason=_said(missed))


def _rank(submission: Submission, found: list[Evaluation], late: list[Evaluation]) -> bool:
    if not submission.move(State.RANKED, reason=""):
        return False
    assert submission.model is not None  # noqa: S101 (for mypy: the caller looked)
    ranked = [one for one in found if one not in late]
    versions = {one.scoring.metric_version_id: one.scoring.metric_version for one in ranked if one.scoring}
    for pk, place in places_of(submission.model, versions.values()).items():
        said = f"{versions[pk].metric.title}, version {versions[pk].number}: rank {place.words}."
        SubmissionLine.objects.create(submission=submission, text=said[:500])
    for one in late:
        said = f"{one.metric.title}: its scorer cannot be had now. It is scored by itself once the scorer is back."
        SubmissionLine.objects.create(submission=submission, text=said[:500])
    return True


def _said(missed: Iterable[Evaluation]) -> str:
    """Why these did not come to numbers, one sentence or two each."""
    told = []
    for one in missed:
        if one.check is not None and one.check.state == EntryCheck.State.REFUSED:
            told.append(f"{one.metric.title}: A moderator did not release it. {one.check.reason}")
            continue
        failure = explain(one.work) if one.work else NO_LONGER
        told.append(f"{one.metric.title}: {failure.what} {failure.remedy}")
    return "\n".join(told)


def cancel(submission: Submission, user: User | None = None) -> bool:
    """Stop the work that nobody else waits for. Says whether there was something to cancel."""
    with transaction.atomic():
        if not submission.move(State.CANCELLED, reason="You cancelled it."):
            return False
        change = {"state": State.ACCEPTED}, {"state": submission.state}
        record("cancel submission", f"submission {submission.pk}", {}, user, change)
        stop_work(submission)
    return True


def stop_work(submission: Submission) -> None:
    """Cancel what only this submission asked for: not what the board or somebody else waits for too."""
    mine = [one.scoring for one in evaluations([submission])[submission.pk] if one.scoring]
    others = Submission.objects.filter(model=submission.model_id, state=State.ACCEPTED).exclude(pk=submission.pk)
    wanted = {slug for payload in others.values_list("payload", flat=True) for slug in payload.get("metrics", [])}
    alone = [
        one.pk
        for one in mine
        if one.created_at >= submission.created_at and one.metric_version.metric.slug not in wanted
    ]
    Scoring.objects.unfinished().filter(pk__in=alone).update(**_cancelled())
    still = Scoring.objects.unfinished().filter(run=OuterRef("pk"))
    runs = Run.objects.unfinished().filter(pk__in={one.run_id for one in mine}, requester=submission.submitter_id)
    Run.objects.filter(pk__in=list(runs.exclude(Exists(still)).values_list("pk", flat=True))).unfinished().update(
        **_cancelled()
    )
    downloads.drop_unwanted()


def _cancelled() -> dict[str, Any]:
    return {
        "state": Work.State.CANCELLED,
        "lease": None,
        "lease_expires_at": None,
        "held": False,
        "reason": "cancelled by its submitter",
        "fault": Work.CANCELLED_BY_SOMEBODY,
        "finished_at": timezone.now(),
    }


def retry(submission: Submission, user: User) -> None:
    """Begin again what failed or was cancelled; what is ranked already stays as it is. Raises CannotChange."""
    if submission.state not in (State.FAILED, State.CANCELLED):
        raise CannotChange(f"It is {submission.get_state_display().lower()}: there is nothing to retry.")
    if not may_submit(user):
        raise CannotChange("Your account may not submit: confirm its e-mail address, or ask an operator for a role.")
    try:
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).get(pk=submission.submitter_id)
            under_way = Submission.objects.filter(submitter=submission.submitter_id).unfinished().count()
            if under_way >= settings.SUBMISSIONS_AT_ONCE:
                raise CannotChange(
                    f"You have {under_way} submissions under way, the most at once: wait for one to end."
                )
            before = submission.state
            if not begin(submission, user):
                raise CannotChange("It is under way already.")
            change = {"state": before}, {"state": submission.state}
            record("retry submission", f"submission {submission.pk}", {}, user, change)
    except CannotEvaluate as error:
        raise CannotChange(str(error)) from error
