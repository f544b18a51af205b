"""The audit trail."""

from enum import StrEnum
from typing import Any, Never

from django.conf import settings
from django.db import models

from leaderboard.models.clock import birth_field


class LogSection(StrEnum):
    """The section of the public change log that shows an event. The last two are of none: only operators see them."""

    ADDED = "added"
    ACCESS = "withdrawn"
    CORRECTED = "corrected"
    RESCORED = "rescored"
    PUBLISHED = "published"
    DRIFT = "drift"
    SERVICE = "service"
    OUTDATED = "outdated"
    SCORER = "scorer"
    POLICY = "policy"
    TEXTS = "texts"
    OPERATORS = "operators"
    PEOPLE = "people"  # what people ask for and may do, of which no public page shows anything


class AuditVerb(StrEnum):
    """All recorded actions, in words, with the section of the public change log that shows them."""

    section: LogSection

    def __new__(cls, verb: str, section: LogSection) -> "AuditVerb":
        member = str.__new__(cls, verb)
        member._value_ = verb
        member.section = section
        return member

    ADD_MODEL = "add model", LogSection.ADDED
    ADD_ENTRY = "add entry", LogSection.ADDED
    WITHDRAW_MODEL = "withdraw model", LogSection.ACCESS
    RESTRICT_MODEL = "restrict model", LogSection.ACCESS
    REOPEN_MODEL = "reopen model", LogSection.ACCESS
    HIDE_MODEL = "hide model", LogSection.ACCESS
    SHOW_MODEL_AGAIN = "show model again", LogSection.ACCESS
    CORRECT_MODEL = "correct model", LogSection.CORRECTED
    JOIN_MODEL = "join model", LogSection.CORRECTED
    SPLIT_MODEL = "split model", LogSection.CORRECTED
    OPEN_RESCORING = "open rescoring", LogSection.RESCORED
    CANCEL_RESCORING = "cancel rescoring", LogSection.RESCORED
    SCORE_ENTRY_AGAIN = "score entry again", LogSection.RESCORED
    PUBLISH_VERSION = "publish version", LogSection.PUBLISHED
    FIND_DRIFT = "find drift", LogSection.DRIFT
    FIND_SERVICE_CHANGE = "find service change", LogSection.SERVICE
    LEAVE_OUTDATED = "leave outdated", LogSection.OUTDATED
    REPLACE_SCORER = "replace scorer", LogSection.SCORER
    COMPARE_SUCCESSOR = "compare successor", LogSection.OPERATORS
    RETIRE_SCORER = "retire scorer", LogSection.SCORER
    BRING_BACK_SCORER = "bring back scorer", LogSection.SCORER
    SET_DRIFT_POLICY = "set drift policy", LogSection.POLICY
    IMPORT_EVALUATION_SET = "import evaluation set", LogSection.TEXTS
    REQUEST_CONTROL_CHECK = "request control check", LogSection.OPERATORS
    FIND_DISAGREEMENT = "find disagreement", LogSection.OPERATORS
    HOLD_RESCORING_BACK = "hold rescoring back", LogSection.OPERATORS
    PAUSE_RESCORING = "pause rescoring", LogSection.OPERATORS
    RESUME_RESCORING = "resume rescoring", LogSection.OPERATORS
    HOLD_ENTRY_BACK = "hold entry back", LogSection.OPERATORS
    RELEASE_ENTRY = "release entry", LogSection.OPERATORS
    REFUSE_ENTRY = "refuse entry", LogSection.OPERATORS
    ADD_DERIVED_FIGURES = "add derived figures", LogSection.OPERATORS
    RETRY_RUN = "retry run", LogSection.OPERATORS
    RETRY_SCORING = "retry scoring", LogSection.OPERATORS
    CANCEL_RUN = "cancel run", LogSection.OPERATORS
    CANCEL_SCORING = "cancel scoring", LogSection.OPERATORS
    RESTART_WORKER = "restart worker", LogSection.OPERATORS
    CHANGE_STATE_OF_FILE = "change state of file", LogSection.OPERATORS
    COLLECT_FILE_AGAIN = "collect file again", LogSection.OPERATORS
    MARK_STORAGE = "mark storage", LogSection.OPERATORS
    RESTORE_BOARD = "restore board", LogSection.OPERATORS
    IMPORT_BOARD = "import board", LogSection.OPERATORS
    CHANGE_IN_ADMIN = "change in admin", LogSection.OPERATORS
    SUBMIT = "submit", LogSection.PEOPLE
    ACCEPT_SUBMISSION = "accept submission", LogSection.OPERATORS
    REFUSE_SUBMISSION = "refuse submission", LogSection.PEOPLE
    REJECT_SUBMISSION = "reject submission", LogSection.PEOPLE
    RETURN_SUBMISSION = "return submission", LogSection.PEOPLE
    SEND_SUBMISSION_AGAIN = "send submission again", LogSection.OPERATORS
    RETRY_SUBMISSION = "retry submission", LogSection.OPERATORS
    CANCEL_SUBMISSION = "cancel submission", LogSection.OPERATORS
    WITHDRAW_SUBMISSION = "withdraw submission", LogSection.OPERATORS
    ASK_FOR_NAME = "ask for name", LogSection.PEOPLE
    REJECT_NAME = "reject name", LogSection.PEOPLE
    INVITE = "invite", LogSection.PEOPLE
    USE_INVITATION = "use invitation", LogSection.PEOPLE
    REVOKE_INVITATION = "revoke invitation", LogSection.PEOPLE
    SET_ROLE = "set role", LogSection.PEOPLE
    MAKE_API_TOKEN = "make API token", LogSection.PEOPLE
    REVOKE_API_TOKEN = "revoke API token", LogSection.PEOPLE


class AuditEvent(models.Model):
    """One action of a person, or of the board itself (no actor). Append-only."""

    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    verb = models.CharField(max_length=60, choices=[(verb.value, verb.value) for verb in AuditVerb])
    subject = models.CharField(max_length=200, help_text="What it was done to, as in `metric safety-toxigen`.")
    detail = models.JSONField(default=dict, blank=True)
    at = birth_field()

    class Meta:
        ordering = ("-at", "-pk")
        constraints = (models.CheckConstraint(condition=~models.Q(verb=""), name="auditevent_has_a_verb"),)
        indexes = (models.Index(fields=["-at", "-id"], name="auditevent_newest"),)

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk:
            raise ValueError("an audit event cannot be changed")
        if self.verb not in list(AuditVerb):
            raise ValueError(f"verb = {self.verb!r}: the audit trail knows no such verb; declare it in AuditVerb")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Never:
        raise ValueError("an audit event cannot be deleted")
