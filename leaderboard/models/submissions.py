"""What a person sent."""

from typing import ClassVar

from django.conf import settings
from django.db import models

from leaderboard.models.constraints import one_of
from leaderboard.models.states import StateMachine
from leaderboard.models.work import Run


class Form(models.TextChoices):
    HUB = "hub", "Hub model"
    OUTPUTS = "outputs", "Outputs of a closed model"
    TOOL = "tool", "Results of another tool"


class State(models.TextChoices):
    RECEIVED = "received", "Received"
    REFUSED = "refused", "Refused"
    MODERATED = "moderated", "Waiting for a moderator"
    ACCEPTED = "accepted", "Accepted"
    RANKED = "ranked", "Ranked"
    FAILED = "failed", "Failed"
    WITHDRAWN = "withdrawn", "Withdrawn"


class Submission(StateMachine):
    """A form's payload, what its validation said, and the runs it led to."""

    Form = Form
    State = State

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        State.RECEIVED: (State.REFUSED, State.MODERATED, State.ACCEPTED, State.WITHDRAWN),
        State.MODERATED: (State.ACCEPTED, State.REFUSED, State.WITHDRAWN),
        State.ACCEPTED: (State.RANKED, State.FAILED, State.WITHDRAWN),
        State.FAILED: (State.ACCEPTED, State.WITHDRAWN),
        State.RANKED: (State.WITHDRAWN,),
        State.REFUSED: (),
        State.WITHDRAWN: (),
    }

    submitter = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="submissions")
    form = models.CharField(max_length=20, choices=Form)
    payload = models.JSONField()
    report = models.JSONField(default=dict, blank=True, help_text="What validation found, by field.")
    state = models.CharField(max_length=20, choices=State, default=State.RECEIVED)
    runs = models.ManyToManyField(Run, related_name="submissions", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        permissions = (("moderate_submission", "Can accept and refuse submissions"),)
        constraints = (one_of("form", Form), one_of("state", State))

    def __str__(self) -> str:
        return f"submission {self.pk} by {self.submitter}"
