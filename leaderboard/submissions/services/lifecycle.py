"""The life of a submission: taken, perhaps moderated, begun, and ended by a rank or a reason."""

from collections.abc import Callable, Iterable
from functools import partial

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef

from leaderboard.models import (
    AuditVerb,
    EntryCheck,
    LanguageModel,
    Metric,
    Reading,
    Run,
    Scoring,
    Submission,
    SubmissionLine,
)
from leaderboard.people.services.accounts import may_submit, submissions_are_moderated
from leaderboard.rankings.places import places_of
from leaderboard.services import downloads
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.failures import Advice, explain
from leaderboard.services.locks import lock_metrics, lock_submission
from leaderboard.services.queue import enqueue
from leaderboard.submissions.services import hub, outputs, tool
from leaderboard.submissions.services.concerns import find_concerns
from leaderboard.submissions.services.evaluations import ENDED, Evaluation, EvaluationStep, evaluations
from scoring.refusals import Refused

State = Submission.State
# For each form: the function that enters the model of the payload, and its run if the outputs were sent.
ENTERS: dict[str, Callable[[Submission], LanguageModel]] = {
    Submission.Form.HUB: hub.enter,
    Submission.Form.OUTPUTS: outputs.enter,
    Submission.Form.TOOL: tool.enter,
}
GIVEN_UP_ADVICE = Advice("Its evaluation was given up with a version of the metric.", "Retry it.")


def take(submission: Submission) -> None:
    """Continue with a checked submission: with a moderator if the board or a concern asks for one, else with work.

    In the caller's transaction.
    """
    concerns = find_concerns(submission, submission.payload)
    if concerns or submissions_are_moderated():
        submission.move(State.MODERATED, concerns=concerns)
        SubmissionLine.objects.bulk_create(
            SubmissionLine(submission=submission, text=f"For a moderator: {concern}"[:500]) for concern in concerns
        )
    else:
        begin(submission)


def begin(submission: Submission, actor: User | None = None) -> bool:
    """Enter the model and queue its evaluations. In a transaction. False if the submission's state forbids it.

    Raises CannotEvaluate if a metric is not available any more.
    """
    if not submission.move(State.ACCEPTED, reason="", ended_at=None):
        return False
    submission.model = ENTERS[submission.form](submission)
    submission.save(update_fields=["model"])
    metrics = Metric.objects.filter(slug__in=submission.payload["metrics"])
    for metric in lock_metrics(metrics.values_list("pk", flat=True)):
        scoring = request_evaluation(submission.model, metric)
        submission.scorings.add(scoring)
        Run.objects.unfinished().filter(scorings=scoring, requester=None).update(requester=submission.submitter)
    return True


def settle() -> int:
    """End the submissions under way whose evaluations have all ended; returns how many. Safe to call at any time."""
    under_way = list(Submission.objects.filter(state=State.ACCEPTED).select_related("model"))
    if not under_way:
        return 0
    evaluations_by_submission = evaluations(under_way)
    candidates = [
        submission for submission in under_way if _is_over(submission, evaluations_by_submission[submission.pk])
    ]
    ended_submissions = []

    def end(submission: Submission) -> None:
        if _end(submission.pk):
            ended_submissions.append(submission)

    each_alone(end, candidates)
    return len(ended_submissions)


def _is_over(submission: Submission, submission_evaluations: list[Evaluation]) -> bool:
    """Whether no evaluation goes on, but for those that wait for a scorer while other metrics rank the model."""
    under_way = _list_under_way(submission_evaluations)
    if submission.model is None or not all(evaluation.waits_for_scorer for evaluation in under_way):
        return False
    return not under_way or any(evaluation.step == EvaluationStep.RANKED for evaluation in submission_evaluations)


def _list_under_way(submission_evaluations: list[Evaluation]) -> list[Evaluation]:
    done_steps = (*ENDED, EvaluationStep.NOT_BEGUN)
    return [evaluation for evaluation in submission_evaluations if evaluation.step not in done_steps]


@transaction.atomic
def _end(pk: int) -> bool:
    """End a submission by what its evaluations are now: its submitter may have retried it since `settle` looked."""
    submission = lock_submission(pk)
    submission_evaluations = evaluations([submission])[pk]
    if submission.state != State.ACCEPTED or not _is_over(submission, submission_evaluations):
        return False
    late_evaluations = _list_under_way(submission_evaluations)
    unranked_evaluations = [
        evaluation
        for evaluation in submission_evaluations
        if evaluation.step != EvaluationStep.RANKED and evaluation not in late_evaluations
    ]
    if not unranked_evaluations:
        return _rank(submission, submission_evaluations, late_evaluations)
    if all(evaluation.step == EvaluationStep.CANCELLED for evaluation in unranked_evaluations):
        return submission.move(State.CANCELLED, reason=_explain_failures(unranked_evaluations))
    return submission.move(State.FAILED, reason=_explain_failures(unranked_evaluations))


def _rank(submission: Submission, submission_evaluations: list[Evaluation], late_evaluations: list[Evaluation]) -> bool:
    if not submission.move(State.RANKED, reason=""):
        return False
    assert submission.model is not None  # noqa: S101 (for mypy: the caller looked)
    ranked_evaluations = [evaluation for evaluation in submission_evaluations if evaluation not in late_evaluations]
    versions = {
        evaluation.scoring.metric_version_id: evaluation.scoring.metric_version
        for evaluation in ranked_evaluations
        if evaluation.scoring
    }
    for pk, place in places_of(submission.model, versions.values()).items():
        text = f"{versions[pk].metric.title}, version {versions[pk].number}: rank {place.words}."
        SubmissionLine.objects.create(submission=submission, text=text[:500])
    for evaluation in late_evaluations:
        text = f"{evaluation.metric.title}: its scorer is unavailable. It will be scored once the scorer is back."
        SubmissionLine.objects.create(submission=submission, text=text[:500])
    return True


def _explain_failures(unranked_evaluations: Iterable[Evaluation]) -> str:
    """Explain why these evaluations gave no numbers, in one or two sentences each."""
    sentences = []
    for evaluation in unranked_evaluations:
        if evaluation.check is not None and evaluation.check.state == EntryCheck.State.REFUSED:
            sentences.append(f"{evaluation.metric.title}: A moderator did not release it. {evaluation.check.reason}")
            continue
        failure = explain(evaluation.work) if evaluation.work else GIVEN_UP_ADVICE
        sentences.append(f"{evaluation.metric.title}: {failure.what} {failure.remedy}")
    return "\n".join(sentences)


def cancel(submission: Submission, user: User | None = None) -> bool:
    """Stop the work that nobody else waits for. Returns whether there was something to cancel."""
    with transaction.atomic():
        if not submission.move(State.CANCELLED, reason="You cancelled it."):
            return False
        change = {"state": State.ACCEPTED}, {"state": submission.state}
        record(AuditVerb.CANCEL_SUBMISSION, f"submission {submission.pk}", {}, user, change)
        stop_work(submission)
    return True


def stop_work(submission: Submission) -> None:
    """Cancel the work that only this submission asked for. Work that others wait for goes on."""
    own_scorings = [scoring.scoring for scoring in evaluations([submission])[submission.pk] if scoring.scoring]
    others = Submission.objects.filter(model=submission.model_id, state=State.ACCEPTED).exclude(pk=submission.pk)
    slugs_of_others = {
        slug for payload in others.values_list("payload", flat=True) for slug in payload.get("metrics", [])
    }
    cancelled_scorings = [
        scoring.pk
        for scoring in own_scorings
        if scoring.created_at >= submission.created_at and scoring.metric_version.metric.slug not in slugs_of_others
    ]
    reason = "cancelled by its submitter"
    Scoring.objects.filter(pk__in=cancelled_scorings).cancel(reason, by_person=True)
    waiting_scorings = Scoring.objects.unfinished().filter(run=OuterRef("pk"))
    runs = Run.objects.unfinished().filter(
        pk__in={scoring.run_id for scoring in own_scorings}, requester=submission.submitter_id
    )
    unneeded_runs = list(runs.exclude(Exists(waiting_scorings)).values_list("pk", flat=True))
    Run.objects.filter(pk__in=unneeded_runs).cancel(reason, by_person=True)
    downloads.drop_unwanted()


def read_again(submission: Submission) -> bool:
    """Queue the reading of the stored file again. In a transaction. False if the submission's state forbids it."""
    if not submission.move(State.CHECKING, reason="", report={}, ended_at=None):
        return False
    work = Reading.objects.get(submission=submission)
    work.queue_again()
    transaction.on_commit(partial(enqueue, work))
    return True


def retry(submission: Submission, user: User) -> None:
    """Begin a failed or cancelled submission again; what is ranked stays as it is. Raises Refused.

    A file that was refused through no fault of its own is read again.
    """
    if not submission.can_be_retried:
        raise Refused(f"It is {submission.get_state_display().lower()}: there is nothing to retry.")
    if not may_submit(user):
        raise Refused("Your account may not submit: confirm its e-mail address, or ask an operator for a role.")
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=submission.submitter_id)
        under_way = Submission.objects.filter(submitter=submission.submitter_id).unfinished().count()
        if under_way >= settings.SUBMISSIONS_AT_ONCE:
            raise Refused(f"You have {under_way} submissions under way, the maximum: wait for one to end.")
        previous_state = submission.state
        is_retriable = lock_submission(submission.pk).can_be_retried
        if previous_state == State.REFUSED and not is_retriable:  # since the caller looked
            raise Refused("It is under way already, or its file is no longer kept: reload its page.")
        if not (read_again(submission) if previous_state == State.REFUSED else begin(submission, user)):
            raise Refused("It is under way already.")
        change = {"state": previous_state}, {"state": submission.state}
        record(AuditVerb.RETRY_SUBMISSION, f"submission {submission.pk}", {}, user, change)
