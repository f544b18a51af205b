"""What a person sent."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from leaderboard.models.constraints import one_of
from leaderboard.models.evaluation import Artefact
from leaderboard.models.language_models import LanguageModel
from leaderboard.models.states import StateMachine
from leaderboard.models.work import Scoring, Work


class Form(models.TextChoices):
    HUB = "hub", "Hub model"
    OUTPUTS = "outputs", "Outputs of a closed model"
    TOOL = "tool", "Results of another tool"


class State(models.TextChoices):
    CHECKING = "checking", "Its file is being checked"
    REFUSED = "refused", "Refused"
    MODERATED = "moderated", "Waiting for a moderator"
    RETURNED = "returned", "Changes are asked for"
    ACCEPTED = "accepted", "Under way"
    RANKED = "ranked", "Ranked"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    WITHDRAWN = "withdrawn", "Withdrawn"


OPEN = (State.CHECKING.value, State.MODERATED.value, State.RETURNED.value, State.ACCEPTED.value)
NEEDS_REASON = (State.REFUSED.value, State.RETURNED.value, State.FAILED.value)
TOLD = (
    State.REFUSED.value,
    State.RETURNED.value,
    State.RANKED.value,
    State.FAILED.value,
)  # its submitter is written to


class SubmissionQuerySet(models.QuerySet["Submission"]):
    def to_moderate(self) -> "SubmissionQuerySet":
        """Those that a moderator decides upon: whether they are accepted, or a new name of what is ranked."""
        return self.filter(Q(state=State.MODERATED) | ~Q(name_asked=""))

    def unfinished(self) -> "SubmissionQuerySet":
        """Those that a worker, a moderator or their submitter still has to do with: they count against the limit."""
        return self.filter(state__in=OPEN)


class Submission(StateMachine):
    """What one of the three forms sent, what its validation said, and the scorings it led to.

    `payload` is what the form's service checked, and all that is needed to begin the work; `report` what is wrong with
    the file, as `scoring.contributed.Report.as_dict` has it; `upload` is there until the file was read.
    """

    Form = Form
    State = State
    OPEN = OPEN

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        State.CHECKING: (State.REFUSED, State.MODERATED, State.ACCEPTED, State.WITHDRAWN),
        State.MODERATED: (State.ACCEPTED, State.REFUSED, State.RETURNED, State.WITHDRAWN),
        State.RETURNED: (State.MODERATED, State.REFUSED, State.WITHDRAWN),
        State.ACCEPTED: (State.RANKED, State.FAILED, State.CANCELLED, State.WITHDRAWN),
        State.FAILED: (State.ACCEPTED, State.WITHDRAWN),
        State.CANCELLED: (State.ACCEPTED, State.WITHDRAWN),
        State.RANKED: (State.WITHDRAWN,),
        State.REFUSED: (State.CHECKING,),  # where its file is kept, as it was not the file that failed
        State.WITHDRAWN: (),
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
    state = models.CharField(max_length=20, choices=State)
    upload = models.FileField(upload_to="submissions/", blank=True, help_text="Until it was read.")
    artefact = models.ForeignKey(Artefact, models.PROTECT, null=True, blank=True, related_name="+")
    model = models.ForeignKey(LanguageModel, models.PROTECT, null=True, blank=True, related_name="submissions")
    scorings = models.ManyToManyField(Scoring, related_name="submissions", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = SubmissionQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        permissions = (("moderate_submission", "Can accept and refuse submissions"),)
        constraints = (
            one_of("form", Form),
            one_of("state", State),
            models.CheckConstraint(condition=~Q(state__in=NEEDS_REASON) | ~Q(reason=""), name="submission_says_why"),
        )
        indexes = (models.Index(fields=["state"], condition=Q(state__in=OPEN), name="submission_open"),)

    def __str__(self) -> str:
        return f"submission {self.pk} by {self.submitter}"

    def get_absolute_url(self) -> str:
        return reverse("submission", args=[self.pk])

    def move(self, to: str, **changes: Any) -> bool:
        """As of any state machine; with a line in the log, and a letter where its submitter waits for this.

        A moderator's consent is such news: work begins. On a board without moderators nobody waits for it.
        """
        with transaction.atomic():
            awaited = to in TOLD or (to == State.ACCEPTED and self.state == State.MODERATED)
            if to not in OPEN:
                changes.setdefault("ended_at", timezone.now())
            moved = super().move(to, **changes)
            if moved:
                SubmissionLine.objects.create(submission=self, text=f"{State(to).label}.")
            if moved and awaited:
                Letter.objects.create(submission=self, news=to)
        return moved

    @property
    def can_be_retried(self) -> bool:
        """Whether it may begin again: it failed, was cancelled, or was refused for no fault of its file."""
        kept = self.state == State.REFUSED and bool(self.upload)
        return kept or self.state in (State.FAILED, State.CANCELLED)

    @property
    def name(self) -> str:
        """What its submitter calls the model."""
        return str(self.payload.get("name") or self.payload.get("hub_id") or f"Submission {self.pk}")


class Reading(Work):
    """The work of reading a submission's upload."""

    submission = models.OneToOneField(Submission, models.CASCADE, related_name="reading")

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")

    def __str__(self) -> str:
        return f"reading of {self.submission}"


class SubmissionLine(models.Model):
    """A line of the log that its submitter reads."""

    submission = models.ForeignKey(Submission, models.CASCADE, related_name="lines")
    at = models.DateTimeField(auto_now_add=True)
    text = models.CharField(max_length=500)

    class Meta:
        ordering = ("at", "pk")

    def __str__(self) -> str:
        return self.text


class Letter(models.Model):
    """News of a submission that its submitter is written; kept, so that a mail server that is away loses none."""

    submission = models.ForeignKey(Submission, models.CASCADE, related_name="letters")
    news = models.CharField(max_length=20, choices=State, help_text="The state that it went to.")
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(default=timezone.now, help_text="When it may be tried; soon after: in work.")
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("pk",)
        constraints = (one_of("news", State),)
        indexes = (models.Index(fields=["not_before"], condition=Q(sent_at=None), name="letter_unsent"),)

    def __str__(self) -> str:
        return f"{self.news}: {self.submission}"
