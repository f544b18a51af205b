"""What the board has to tell somebody: letters to submitters and account holders, alerts to operators."""

from collections.abc import Iterable
from uuid import uuid4

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from leaderboard.models.clock import birth_field
from leaderboard.models.operations import Incident
from leaderboard.models.submissions import Submission, SubmissionState


class MessageKind(models.TextChoices):
    LETTER = "letter", "Letter"
    RESET = "reset", "Letter that resets a password"
    NEWS = "news", "News of a submission"
    ALERT = "alert", "Alert"


class IncidentEvent(models.TextChoices):
    OPENED = "opened", "It began"
    RESOLVED = "resolved", "It is over"


class OutboxManager(models.Manager["OutboxMessage"]):
    def waiting(self) -> "models.QuerySet[OutboxMessage]":
        """Those that were neither sent nor given up."""
        return self.filter(sent_at=None, given_up_at=None)

    def due(self) -> "models.QuerySet[OutboxMessage]":
        """Those that may be tried now. A receiver learns that an incident is over after it learnt that it began."""
        began = self.waiting().filter(
            incident=OuterRef("incident"), recipient=OuterRef("recipient"), event=IncidentEvent.OPENED
        )
        due = self.waiting().filter(not_before__lte=Now())
        return due.exclude(Exists(began), event=IncidentEvent.RESOLVED)

    def add_news(self, state: str) -> None:
        """Tell the submitter, of a submission's messages, which state it went to."""
        self.create(kind=MessageKind.NEWS, event=state)

    def add_alerts(self, event: str, receivers: Iterable[str]) -> None:
        """Tell each of `receivers`, of an incident's messages, that it began or is over."""
        for name in receivers:
            self.create(kind=MessageKind.ALERT, event=event, recipient=name)


class OutboxMessage(models.Model):
    """A message to one recipient: sent at least once, until it was taken or given up.

    The row of a letter goes once the letter went: it may hold a link that lets one in.
    """

    Kind = MessageKind
    Event = IncidentEvent

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    kind = models.CharField(max_length=20, choices=MessageKind)
    recipient = models.CharField(
        max_length=254,
        blank=True,
        help_text="An e-mail address, or the name of an alert's receiver, whose address is a secret. "
        "Empty: the submitter, whose address is looked up when the letter is sent.",
    )
    subject = models.CharField(max_length=300, blank=True)
    body = models.TextField(blank=True, help_text="Empty where the message is written when it is sent.")
    submission = models.ForeignKey(Submission, models.CASCADE, null=True, blank=True, related_name="messages")
    incident = models.ForeignKey(Incident, models.CASCADE, null=True, blank=True, related_name="messages")
    event = models.CharField(max_length=20, blank=True, help_text="The news: the state of the submission or incident.")
    created_at = birth_field()
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(db_default=Now(), help_text="When it may be tried; soon after: in work.")
    sent_at = models.DateTimeField(null=True, blank=True)
    given_up_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=200, blank=True)

    objects = OutboxManager()

    class Meta:
        ordering = ("created_at", "event")
        constraints = (
            models.CheckConstraint(
                condition=Q(kind=MessageKind.LETTER, submission=None, incident=None) & ~Q(body="")
                | Q(kind=MessageKind.RESET, submission=None, incident=None, body="")
                | Q(kind=MessageKind.NEWS, submission__isnull=False, incident=None, event__in=SubmissionState.values)
                | Q(kind=MessageKind.ALERT, submission=None, incident__isnull=False, event__in=IncidentEvent.values),
                name="outboxmessage_is_of_its_kind",
            ),
            models.UniqueConstraint(fields=["incident", "event", "recipient"], name="outboxmessage_one_a_receiver"),
        )
        indexes = (
            models.Index(
                fields=["not_before"], condition=Q(sent_at=None, given_up_at=None), name="outboxmessage_waiting"
            ),
        )

    def __str__(self) -> str:
        return f"{self.incident} {self.event}, to {self.recipient}" if self.incident else f"{self.kind} {self.pk}"
