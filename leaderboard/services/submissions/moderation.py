"""Moderating: somebody looks at what was sent before any work is done for it."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import LanguageModel, Submission, SubmissionLine
from leaderboard.services.audit import record
from leaderboard.services.courier import post
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.locks import lock_model
from leaderboard.services.roles import operates
from leaderboard.services.submissions.concerns import models_of_others
from leaderboard.services.submissions.letters import wants_letters
from leaderboard.services.submissions.lifecycle import begin

State = Submission.State
DECISIONS = {"accept": State.ACCEPTED, "reject": State.REFUSED, "return": State.RETURNED}
LONGEST_REASON = 2000


class CannotModerate(ValueError):
    """The decision cannot be made; the message says why."""


def why_not_theirs(submission: Submission, by: User | None) -> str:
    """Why somebody may not decide upon a submission; "" where they may. Nobody: at the terminal, where one may."""
    if by is not None and submission.submitter_id == by.pk and not operates(by):
        return "This submission is your own: another moderator decides upon it."
    return ""


def decide(submission: Submission, decision: str, reason: str = "", by: User | None = None) -> None:
    """Accept a submission, reject it, or return it for changes, for the record; its submitter is written to.

    Where its model is ranked and is to have another name, that is decided upon. decision: one of DECISIONS; all but
    `accept` need a reason, which the submitter reads. Raises CannotModerate.
    """
    if decision not in DECISIONS:
        raise CannotModerate(f"decision = {decision!r}: use one of {', '.join(DECISIONS)}")
    reason = reason.strip()
    if decision != "accept" and not reason:
        raise CannotModerate("reason: it is empty; say what is wrong or to be changed, its submitter reads it")
    if len(reason) > LONGEST_REASON:
        raise CannotModerate(f"reason: it has {len(reason)} characters; use {LONGEST_REASON} at most")
    if why := why_not_theirs(submission, by):
        raise CannotModerate(why)
    if submission.name_asked:
        decide_name(submission, decision, reason, by)
        return
    with transaction.atomic():
        if not _move(submission, decision, reason, by):
            said = submission.get_state_display().lower()
            raise CannotModerate(f"It does not wait for a moderator any more: {said}.")
        change = {"state": State.MODERATED}, {"state": submission.state}
        record(f"{decision} submission", f"submission {submission.pk}", {"reason": reason}, by, change)


def _move(submission: Submission, decision: str, reason: str, by: User | None) -> bool:
    moderated = Submission.objects.select_for_update(no_key=True)
    if not moderated.filter(pk=submission.pk, state=State.MODERATED).exists():
        submission.refresh_from_db()
        return False
    if decision != "accept":
        return submission.move(DECISIONS[decision], reason=reason)
    try:
        with transaction.atomic():
            return begin(submission, by)
    except CannotEvaluate as error:
        raise CannotModerate(f"It cannot be evaluated: {error}") from error


def decide_name(submission: Submission, decision: str, reason: str, by: User | None) -> None:
    """Give the ranked model the name that its submitter asks for, or leave it as it is. Raises CannotModerate."""
    if decision == "return":
        raise CannotModerate("decision = 'return': a name is accepted or rejected; its submitter can ask for another.")
    name = submission.name_asked
    with transaction.atomic():
        if not Submission.objects.filter(pk=submission.pk, name_asked=name).update(name_asked="", concerns=[]):
            raise CannotModerate("The name does not wait for a moderator any more.")
        submission.refresh_from_db()
        if decision == "accept":
            if models_of_others(submission).filter(name__iexact=name).exists():
                raise CannotModerate(f"{name} is the name of another model by now: reject it.")
            if submission.model is None:
                raise CannotModerate("Its model is not entered: there is nothing to rename.")
            _rename(submission, submission.model, name, by)
        else:
            record("reject name", f"submission {submission.pk}", {"name": name, "reason": reason}, by)
        outcome = "accepted" if decision == "accept" else f"rejected: {reason}"
        SubmissionLine.objects.create(submission=submission, text=f"The new name {name!r} is {outcome}"[:500])
        _write_to_submitter(submission, f"The new name {name!r} that you asked for is {outcome}")


def _rename(submission: Submission, model: LanguageModel, name: str, by: User | None) -> None:
    model = lock_model(model.pk)
    LanguageModel.objects.filter(pk=model.pk).update(name=name)
    Submission.objects.filter(pk=submission.pk).update(payload={**submission.payload, "name": name})
    record("correct model", f"model {model.slug}", {}, by, ({"name": model.name}, {"name": name}))


def _write_to_submitter(submission: Submission, text: str) -> None:
    address = EmailAddress.objects.filter(user=submission.submitter_id, verified=True).order_by("-primary").first()
    if address and wants_letters(submission.submitter):
        page = f"{settings.SITE_URL}{submission.get_absolute_url()}"
        post(address.email, "Plumbline: the name of your model", f"{text}\n\n{page}\n")
