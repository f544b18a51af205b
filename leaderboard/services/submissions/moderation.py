"""Moderating: somebody looks at what was sent before any work is done for it."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import Submission
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.roles import operates
from leaderboard.services.submissions.letters import send_soon
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

    decision: one of DECISIONS; all but `accept` need a reason, which the submitter reads. Raises CannotModerate.
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
    with transaction.atomic():
        if not _move(submission, decision, reason, by):
            said = submission.get_state_display().lower()
            raise CannotModerate(f"It does not wait for a moderator any more: {said}.")
        change = {"state": State.MODERATED}, {"state": submission.state}
        record(f"{decision} submission", f"submission {submission.pk}", {"reason": reason}, by, change)
        transaction.on_commit(send_soon)


def _move(submission: Submission, decision: str, reason: str, by: User | None) -> bool:
    moderated = Submission.objects.select_for_update().filter(pk=submission.pk, state=State.MODERATED)
    if not moderated.exists():
        submission.refresh_from_db()
        return False
    if decision != "accept":
        return submission.move(DECISIONS[decision], reason=reason)
    try:
        with transaction.atomic():
            return begin(submission, by)
    except CannotEvaluate as error:
        raise CannotModerate(f"It cannot be evaluated: {error}") from error
