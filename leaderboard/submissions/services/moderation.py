"""Moderation: a person reviews a submission before any work is done for it."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, LanguageModel, Submission, SubmissionLine
from leaderboard.people.services.roles import operates
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.locks import lock_model
from leaderboard.services.outbox import post
from leaderboard.submissions.services.concerns import models_of_others
from leaderboard.submissions.services.letters import wants_letters
from leaderboard.submissions.services.lifecycle import begin
from scoring.refusals import Refused

State = Submission.State
DECISIONS = {"accept": State.ACCEPTED, "reject": State.REFUSED, "return": State.RETURNED}
VERBS = {
    "accept": AuditVerb.ACCEPT_SUBMISSION,
    "reject": AuditVerb.REJECT_SUBMISSION,
    "return": AuditVerb.RETURN_SUBMISSION,
}
LONGEST_REASON = 2000


def find_objection(submission: Submission, moderator: User | None) -> str:
    """Say why `moderator` may not decide about a submission; "" if they may. None: the terminal, which may."""
    if moderator is not None and submission.submitter_id == moderator.pk and not operates(moderator):
        return "This submission is your own: another moderator decides on it."
    return ""


def decide(submission: Submission, decision: str, reason: str = "", moderator: User | None = None) -> None:
    """Accept a submission, reject it, or return it for changes; record that, and notify its submitter.

    If a new name waits, the decision is about that name. decision: one of DECISIONS; all but
    `accept` need a reason, which the submitter reads. Raises Refused.
    """
    if decision not in DECISIONS:
        raise Refused.of_value("decision", decision, f"use one of {', '.join(DECISIONS)}")
    reason = reason.strip()
    if decision != "accept" and not reason:
        raise Refused.of_field("reason", "it is empty; say what is wrong or what to change, as the submitter reads it")
    if len(reason) > LONGEST_REASON:
        raise Refused.of_field("reason", f"it has {len(reason)} characters; use {LONGEST_REASON} at most")
    if objection := find_objection(submission, moderator):
        raise Refused(objection)
    if submission.name_asked:
        decide_name(submission, decision, reason, moderator)
        return
    with transaction.atomic():
        if not _move(submission, decision, reason, moderator):
            state = submission.get_state_display().lower()
            raise Refused(f"It no longer waits for a moderator: {state}.")
        change = {"state": State.MODERATED}, {"state": submission.state}
        record(VERBS[decision], f"submission {submission.pk}", {"reason": reason}, moderator, change)


def _move(submission: Submission, decision: str, reason: str, moderator: User | None) -> bool:
    locked_submissions = Submission.objects.select_for_update(no_key=True)
    if not locked_submissions.filter(pk=submission.pk, state=State.MODERATED).exists():
        submission.refresh_from_db()
        return False
    if decision != "accept":
        return submission.move(DECISIONS[decision], reason=reason)
    try:
        with transaction.atomic():
            return begin(submission, moderator)
    except CannotEvaluate as error:
        raise Refused(f"It cannot be evaluated: {error}") from error


def decide_name(submission: Submission, decision: str, reason: str, moderator: User | None) -> None:
    """Give the model the name that its submitter asks for, or keep the old one. Raises Refused."""
    if decision == "return":
        raise Refused("decision = 'return': a name is accepted or rejected; its submitter can ask for another.")
    name = submission.name_asked
    with transaction.atomic():
        if not Submission.objects.filter(pk=submission.pk, name_asked=name).update(name_asked="", concerns=[]):
            raise Refused("The name no longer waits for a moderator.")
        submission.refresh_from_db()
        if decision == "accept":
            if models_of_others(submission).filter(name__iexact=name).exists():
                raise Refused(f"{name} is the name of another model by now: reject it.")
            if submission.model is None:
                raise Refused("Its model is not entered: there is nothing to rename.")
            _rename(submission, submission.model, name, moderator)
        else:
            record(AuditVerb.REJECT_NAME, f"submission {submission.pk}", {"name": name, "reason": reason}, moderator)
        outcome = "accepted" if decision == "accept" else f"rejected: {reason}"
        SubmissionLine.objects.create(submission=submission, text=f"The new name {name!r} is {outcome}"[:500])
        _write_to_submitter(submission, f"The new name {name!r} that you asked for is {outcome}")


def _rename(submission: Submission, model: LanguageModel, name: str, moderator: User | None) -> None:
    model = lock_model(model.pk)
    LanguageModel.objects.filter(pk=model.pk).update(name=name)
    Submission.objects.filter(pk=submission.pk).update(payload={**submission.payload, "name": name})
    record(AuditVerb.CORRECT_MODEL, f"model {model.slug}", {}, moderator, ({"name": model.name}, {"name": name}))


def _write_to_submitter(submission: Submission, text: str) -> None:
    address = EmailAddress.objects.filter(user=submission.submitter_id, verified=True).order_by("-primary").first()
    if address and wants_letters(submission.submitter):
        page = f"{settings.SITE_URL}{submission.get_absolute_url()}"
        post(address.email, "Plumbline: the name of your model", f"{text}\n\n{page}\n")
