"""Submissions."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of
from leaderboard.models.evaluation import Artefact
from leaderboard.models.language_models import LanguageModel
from leaderboard.models.states import StateMachine
from leaderboard.models.work import Scoring, Work, WorkKind


class Form(models.TextChoices):
    HUB = "hub", "Hub model"
    OUTPUTS = "outputs", "Outputs of a closed model"
    TOOL = "tool", "Results of another tool"


class SubmissionState(models.TextChoices):
    CHECKING = "checking", "Its file is being checked"
    REFUSED = "refused", "Refused"
    MODERATED = "moderated", "Waiting for a moderator"
    RETURNED = "returned", "Changes are asked for"
    ACCEPTED = "accepted", "Under way"
    RANKED = "ranked", "Ranked"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    WITHDRAWN = "withdrawn", "Withdrawn"


OPEN = (
    SubmissionState.CHECKING.value,
    SubmissionState.MODERATED.value,
    SubmissionState.RETURNED.value,
    SubmissionState.ACCEPTED.value,
)
NEEDS_REASON = (SubmissionState.REFUSED.value, SubmissionState.RETURNED.value, SubmissionState.FAILED.value)
NEWS_STATES = (
    SubmissionState.REFUSED.value,
    SubmissionState.RETURNED.value,
    SubmissionState.RANKED.value,
    SubmissionState.FAILED.value,
)  # the states that notify the submitter


class SubmissionQuerySet(models.QuerySet["Submission"]):
    def to_moderate(self) -> "SubmissionQuerySet":
        """Those that wait for a moderator: to be accepted, or for a new name of their model."""
        return self.filter(Q(state=SubmissionState.MODERATED) | ~Q(name_asked=""))

    def unfinished(self) -> "SubmissionQuerySet":
        """Those that wait for a worker, a moderator or their submitter: they count against the limit."""
        return self.filter(state__in=OPEN)


class Submission(StateMachine):
    """What one of the three forms sent, what its validation said, and the scorings it led to.

    `payload` is what the form's service checked, and all that is needed to begin the work; `report` what is wrong with
    the file, as `scoring.contributed.Report.as_dict` has it; `upload` is there until the file was read.
    """

    Form = Form
    State = SubmissionState
    OPEN = OPEN

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        SubmissionState.CHECKING: (
            SubmissionState.REFUSED,
            SubmissionState.MODERATED,
            SubmissionState.ACCEPTED,
            SubmissionState.WITHDRAWN,
        ),
        SubmissionState.MODERATED: (
            SubmissionState.ACCEPTED,
            SubmissionState.REFUSED,
            SubmissionState.RETURNED,
            SubmissionState.WITHDRAWN,
        ),
        SubmissionState.RETURNED: (SubmissionState.MODERATED, SubmissionState.REFUSED, SubmissionState.WITHDRAWN),
        SubmissionState.ACCEPTED: (
            SubmissionState.RANKED,
            SubmissionState.FAILED,
            SubmissionState.CANCELLED,
            SubmissionState.WITHDRAWN,
        ),
        SubmissionState.FAILED: (SubmissionState.ACCEPTED, SubmissionState.WITHDRAWN),
        SubmissionState.CANCELLED: (SubmissionState.ACCEPTED, SubmissionState.WITHDRAWN),
        SubmissionState.RANKED: (SubmissionState.WITHDRAWN,),
        SubmissionState.REFUSED: (
            SubmissionState.CHECKING,
        ),  # where its file is kept, as it was not the file that failed
        SubmissionState.WITHDRAWN: (),
    }

    submitter = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="submissions")
    form = models.CharField(max_length=20, choices=Form)
    payload = models.JSONField()
    report = models.JSONField(default=dict, blank=True, help_text="What is wrong with the file.")
    reason = models.TextField(blank=True, help_text="Why it was refused or failed, or what is to be changed.")
    concerns = models.JSONField(default=list, blank=True, help_text="Why a moderator looks at it on any board.")
    name_asked = models.CharField(
        max_length=200, blank=True, help_text="What its ranked model is to be called, once a moderator agrees."
    )
    state = models.CharField(max_length=20, choices=SubmissionState)
    upload = models.FileField(upload_to="submissions/", blank=True, help_text="Until it was read.")
    artefact = models.ForeignKey(Artefact, models.PROTECT, null=True, blank=True, related_name="+")
    model = models.ForeignKey(LanguageModel, models.PROTECT, null=True, blank=True, related_name="submissions")
    scorings = models.ManyToManyField(Scoring, related_name="submissions", blank=True)
    created_at = birth_field()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = SubmissionQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        permissions = (("moderate_submission", "Can accept and refuse submissions"),)
        constraints = (
            one_of("form", Form),
            one_of("state", SubmissionState),
            models.CheckConstraint(condition=~Q(state__in=NEEDS_REASON) | ~Q(reason=""), name="submission_says_why"),
        )
        indexes = (models.Index(fields=["state"], condition=Q(state__in=OPEN), name="submission_open"),)

    def __str__(self) -> str:
        return f"submission {self.pk} by {self.submitter}"

    def get_absolute_url(self) -> str:
        return reverse("submission", args=[self.pk])

    def move(self, target: str, **changes: Any) -> bool:
        """Change the state as in any state machine; add a line to the log, and a letter if this is news.

        A moderator's consent is such news: work begins. On a board without moderators nobody waits for it.
        """
        with transaction.atomic():
            is_news = target in NEWS_STATES or (
                target == SubmissionState.ACCEPTED and self.state == SubmissionState.MODERATED
            )
            if target not in OPEN:
                changes.setdefault("ended_at", Now())
            was_moved = super().move(target, **changes)
            if was_moved:
                SubmissionLine.objects.create(submission=self, text=f"{SubmissionState(target).label}.")
            if was_moved and is_news:
                self.messages.add_news(target)
        return was_moved

    @property
    def can_be_retried(self) -> bool:
        """Whether it may begin again: it failed, was cancelled, or was refused through no fault of its file."""
        is_kept = self.state == SubmissionState.REFUSED and bool(self.upload)
        return is_kept or self.state in (SubmissionState.FAILED, SubmissionState.CANCELLED)

    @property
    def name(self) -> str:
        """The name that its submitter gave the model."""
        return str(self.payload.get("name") or self.payload.get("hub_id") or f"Submission {self.pk}")


class Reading(Work):
    """The work of reading a submission's upload."""

    kind = WorkKind(
        "reading",
        "reading of a file",
        "readings of files",
        task="read_submission",
        queue="readings",
        related=("submission__submitter",),
    )

    submission = models.OneToOneField(Submission, models.CASCADE, related_name="reading")

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")

    def __str__(self) -> str:
        return f"reading of {self.submission}"


class SubmissionLine(models.Model):
    """A line of the log that its submitter reads."""

    submission = models.ForeignKey(Submission, models.CASCADE, related_name="lines")
    at = birth_field()
    text = models.CharField(max_length=500)

    class Meta:
        ordering = ("at", "pk")

    def __str__(self) -> str:
        return self.text
