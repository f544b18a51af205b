"""Decide about entries that are held back."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, EntryCheck, MetricVersion, Submission
from leaderboard.models.clock import database_now
from leaderboard.people.services.roles import operates
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_version
from leaderboard.services.publish import publish_from_database
from scoring.refusals import Refused

State = EntryCheck.State
DECISIONS = {"release": State.RELEASED, "refuse": State.REFUSED}
VERBS = {"release": AuditVerb.RELEASE_ENTRY, "refuse": AuditVerb.REFUSE_ENTRY}
LONGEST_REASON = 2000


def decide(check: EntryCheck, decision: str, reason: str, user: User | None = None) -> None:
    """Release or refuse an entry that is held back, and record the reason. Raises Refused.

    A released entry is ranked at once if its version is the current one. Only operators decide about entries of their
    own.
    """
    if decision not in DECISIONS:
        raise Refused.of_value("decision", decision, f"use one of {', '.join(DECISIONS)}")
    reason = reason.strip()
    if not reason or len(reason) > LONGEST_REASON:
        raise Refused.of_field(
            "reason", f"it has {len(reason)} characters; give 1 to {LONGEST_REASON}, the record shows it"
        )
    if objection := find_objection(check, user):
        raise Refused(objection)
    scoring = check.scoring
    previous_state = check.state
    with transaction.atomic():
        version = lock_version(scoring.metric_version_id)  # which may be published since the page was opened
        changes = {"reason": reason, "decided_by": user, "decided_at": database_now()}
        if not check.move(DECISIONS[decision], **changes):
            raise Refused(f"It is not held back any more: {check.get_state_display().lower()}.")
        detail = {"model": scoring.model.slug, "version": version.number, "reason": reason}
        change = {"state": previous_state}, {"state": check.state}
        record(VERBS[decision], f"metric {version.metric.slug}", detail, user, change)
        if check.state == State.RELEASED and version.status == MetricVersion.Status.CURRENT:
            publish_from_database(version)


def find_objection(check: EntryCheck, user: User | None) -> str:
    """Say why `user` may not decide; "" if they may. None: the terminal, which may."""
    if user is None or operates(user):
        return ""
    # The scorings of later versions belong to no submission: the model tells whose entry it is.
    if not Submission.objects.filter(model=check.scoring.model, submitter=user).exists():
        return ""
    return "This entry is your own: another moderator decides on it."
