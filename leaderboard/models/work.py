"""The two kinds of work: collecting a model's outputs, and scoring them."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection, models
from django.db.models import Expression, ExpressionWrapper, F, Q
from django.db.models.functions import Coalesce, Now

from leaderboard.models.constraints import one_of
from leaderboard.models.evaluation import Artefact, Protocol
from leaderboard.models.language_models import LanguageModel
from leaderboard.models.metrics import MetricVersion
from leaderboard.models.states import StateMachine

W = TypeVar("W", bound="Work")


class WorkQuerySet(models.QuerySet[W], Generic[W]):
    def unfinished(self) -> "WorkQuerySet[W]":
        return self.filter(state__in=[Work.State.QUEUED, Work.State.RUNNING])

    def unclaimed(self) -> "WorkQuerySet[W]":
        """Unfinished, not paused, in no living worker's hands, and not waiting for its next attempt.

        By the clock of the database, which is one, where those of workers on several hosts differ.
        """
        return self.unfinished().filter(
            Q(held=False),
            Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now()),
            Q(not_before__isnull=True) | Q(not_before__lte=Now()),
        )

    def in_hand(self) -> "WorkQuerySet[W]":
        """What living workers are at."""
        return self.filter(state=Work.State.RUNNING, lease_expires_at__gt=Now())


def from_now(seconds: float) -> Expression:
    """So many seconds from now, by the clock of the database."""
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=models.DateTimeField())


def database_now() -> datetime:
    """The time by the clock of the database."""
    query = (
        "STATEMENT_TIMESTAMP()" if connection.vendor == "postgresql" else "STRFTIME('%Y-%m-%d %H:%M:%f+00:00', 'NOW')"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {query}")
        moment = cursor.fetchone()[0]
    return moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)


class State(models.TextChoices):
    QUEUED = "queued", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


UNENDED = (State.QUEUED.value, State.RUNNING.value, State.FAILED.value)  # what somebody may have to look at


class Work(StateMachine):
    """A state machine whose running state belongs to one worker, for as long as the worker renews its lease."""

    State = State
    UNENDED = UNENDED
    CANCELLED_BY_SOMEBODY = "Cancelled"  # the fault of work that a person gave up; a rescoring that moves on gives none

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        State.QUEUED: (State.RUNNING, State.CANCELLED),
        State.RUNNING: (State.RUNNING, State.QUEUED, State.DONE, State.FAILED, State.CANCELLED),
        State.FAILED: (State.QUEUED,),
        State.CANCELLED: (State.QUEUED,),
        State.DONE: (),
    }

    state = models.CharField(max_length=20, choices=State, default=State.QUEUED)
    reason = models.TextField(blank=True, help_text="Why it failed, or is tried again.")
    fault = models.CharField(max_length=80, blank=True, help_text="The kind of error behind the reason.")
    attempts = models.PositiveIntegerField(
        default=0, help_text="Attempts that began since the last finished shard and came to nothing, or go on."
    )
    held = models.BooleanField(default=False, help_text="Paused by someone.")
    not_before = models.DateTimeField(null=True, blank=True, help_text="When it may be tried again.")
    waits_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it waits for the board to be mended; the reason says what for."
    )
    lease = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    enqueued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    turn_at = models.DateTimeField(null=True, blank=True, help_text="When its last slice began.")
    progressed_at = models.DateTimeField(null=True, blank=True, help_text="When it last came further.")
    worker = models.CharField(max_length=200, blank=True, help_text="Whose hands it is or was in.")
    finished_at = models.DateTimeField(null=True, blank=True)
    done = models.PositiveIntegerField(default=0, help_text="Texts finished.")
    total = models.PositiveIntegerField(default=0, help_text="Texts in all.")
    seconds = models.FloatField(default=0, help_text="Time spent working, over all attempts.")

    objects = WorkQuerySet.as_manager()

    class Meta:
        abstract = True
        constraints: ClassVar[tuple[models.BaseConstraint, ...]] = (
            one_of("state", State),
            models.CheckConstraint(
                condition=Q(state="running") | Q(lease__isnull=True), name="%(class)s_lease_only_while_running"
            ),
            models.CheckConstraint(
                condition=Q(lease__isnull=True, lease_expires_at__isnull=True)
                | Q(lease__isnull=False, lease_expires_at__isnull=False),
                name="%(class)s_lease_has_an_end",
            ),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(reason=""), name="%(class)s_failure_has_a_reason"),
            models.CheckConstraint(condition=Q(done__lte=F("total")), name="%(class)s_done_within_total"),
        )
        indexes: ClassVar[tuple[models.Index, ...]] = (
            models.Index(fields=["state"], condition=Q(state__in=UNENDED), name="%(class)s_unended"),
        )

    @property
    def percent(self) -> int:
        """Progress, 0 to 100."""
        return 100 * self.done // self.total if self.total else 0

    @property
    def time_left(self) -> timedelta | None:
        """Estimated from the pace so far; None before there is one."""
        if self.state != self.State.RUNNING or not self.done or not self.seconds:
            return None
        return timedelta(seconds=round(self.seconds / self.done * (self.total - self.done)))

    def queue_again(self) -> bool:
        """Begin anew what failed or was cancelled; says whether there was something to begin."""
        gone = self.state in (self.State.FAILED, self.State.CANCELLED)
        return gone and self.move(
            self.State.QUEUED,
            attempts=0,
            held=False,
            not_before=None,
            waits_since=None,
            reason="",
            fault="",
            started_at=None,  # a control check that was made before does not count
            finished_at=None,
        )

    def claim(self, lease: UUID, worker: str = "") -> bool:
        """Take the work, if nobody living holds it. One UPDATE: of two workers exactly one succeeds.

        The attempt counts from here on: whoever dies in it cannot say so afterwards.
        """
        taken = (
            type(self)
            .objects.unclaimed()
            .filter(pk=self.pk)
            .update(
                state=self.State.RUNNING,
                lease=lease,
                lease_expires_at=from_now(settings.LEASE_SECONDS),
                heartbeat_at=Now(),
                turn_at=Now(),
                progressed_at=Now(),
                worker=worker,
                attempts=F("attempts") + 1,
                started_at=Coalesce("started_at", Now()),
                not_before=None,
            )
        )
        self.refresh_from_db()
        return bool(taken)

    def renew(self, lease: UUID, **progress: Any) -> bool:
        """Keep the lease for another term and note `progress`. False: the lease is lost, so stop and write nothing."""
        kept = type(self).objects.filter(pk=self.pk, state=self.State.RUNNING, lease=lease)
        if "done" in progress:
            progress["progressed_at"] = Now()
        return bool(kept.update(lease_expires_at=from_now(settings.LEASE_SECONDS), heartbeat_at=Now(), **progress))

    def was_given_up(self) -> bool:
        """Whether a person cancelled it, and nobody has queued it again since."""
        return bool(self.state == self.State.CANCELLED and self.fault == self.CANCELLED_BY_SOMEBODY)

    def is_held(self, lease: UUID) -> bool:
        """Whether the lease is still good: it may have been taken over, or the work cancelled."""
        return type(self).objects.filter(pk=self.pk, state=self.State.RUNNING, lease=lease).exists()

    def release(self, lease: UUID, state: str, **changes: Any) -> bool:
        """Give the lease back and go to `state`, with `changes`, if the lease is still held."""
        if state in (self.State.DONE, self.State.FAILED):
            changes.setdefault("finished_at", Now())
        held = type(self).objects.filter(pk=self.pk, state=self.State.RUNNING, lease=lease)
        released = held.update(state=state, lease=None, lease_expires_at=None, **changes)
        self.refresh_from_db()
        return bool(released)


class Download(Work):
    """A hub model's files, fetched into the cache that workers share. `done` and `total`: the kilobytes that came."""

    model = models.OneToOneField(LanguageModel, models.CASCADE, related_name="download")

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")

    def __str__(self) -> str:
        return f"download of {self.model}"


class Run(Work):
    """Model x protocol: outputs collected once, and kept."""

    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="runs")
    protocol = models.ForeignKey(Protocol, models.PROTECT, related_name="runs")
    epoch = models.PositiveIntegerField(default=1, help_text="Raised where outputs are collected anew.")
    environment = models.JSONField(default=dict, blank=True, help_text="Library versions and device.")
    special_tokens = models.CharField(
        max_length=200, blank=True, help_text="What the tokenizer puts around a text, as in [CLS] text [SEP]."
    )
    loaded_files = models.JSONField(
        default=list, blank=True, help_text="Files that the model was loaded from: name, size and sha256 of each."
    )
    tokenizer_report = models.JSONField(
        default=dict, blank=True, help_text="What the tokenizer read of the texts and of canary sentences, with flags."
    )
    self_test = models.JSONField(
        default=dict, blank=True, help_text="How far the engine was from the model's plain forward; and where."
    )
    artefact = models.ForeignKey(Artefact, models.PROTECT, null=True, blank=True, related_name="runs")
    requester = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="In whose turn it is done; nobody: the board's own.",
    )

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")
        constraints = (
            *Work.Meta.constraints,
            models.UniqueConstraint(fields=["model", "protocol", "epoch"], name="run_one_a_model_and_protocol"),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(artefact__isnull=False), name="run_done_has_artefact"
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} on {self.protocol.evaluation_set}"


class Scoring(Work):
    """Run x metric version: the numbers, from what was collected."""

    run = models.ForeignKey(Run, models.PROTECT, null=True, blank=True, related_name="scorings")
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="scorings")
    metric_version = models.ForeignKey(MetricVersion, models.PROTECT, related_name="scorings")
    artefact = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="scorings", help_text="A row a text."
    )
    replicates = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="Its numbers in each resample."
    )
    texts = models.PositiveIntegerField(null=True, blank=True, help_text="That were to be scored; null: not counted.")
    texts_missing = models.PositiveIntegerField(null=True, blank=True, help_text="Of these, how many have no score.")
    scored_at = models.DateTimeField(null=True, blank=True)
    lost_files = models.TextField(
        blank=True, help_text="Which of the files behind its numbers are damaged or missing; empty where none is."
    )

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")
        constraints = (
            *Work.Meta.constraints,
            models.CheckConstraint(
                condition=Q(texts__isnull=True, texts_missing__isnull=True) | Q(texts_missing__lte=F("texts")),
                name="scoring_missing_within_texts",
            ),
            models.UniqueConstraint(fields=["run", "metric_version"], name="scoring_one_a_run_and_version"),
            models.UniqueConstraint(fields=["model", "metric_version"], name="scoring_one_a_model_and_version"),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(scored_at__isnull=False), name="scoring_done_has_date"
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} under {self.metric_version}"

    def lacks_too_many(self, most: float | None) -> bool:
        """Whether more than this share of its texts have no score; not where nobody counted, or any share will do."""
        return most is not None and bool(self.texts) and (self.texts_missing or 0) > (self.texts or 0) * most

    @property
    def why_unranked(self) -> str:
        """Why the entry is shown and not ranked; "" where it is."""
        most = self.metric_version.most_missing
        if most is None or not self.texts or not self.lacks_too_many(most):
            return ""
        missing = self.texts_missing or 0
        return (
            f"{missing:,} of {self.texts:,} texts have no score ({missing / self.texts:.1%}): an entry is ranked "
            f"where at most {100 * most:g}% have none"
        )


def unranked(scoring: str = "") -> Q:
    """Of scorings that lack too many scores to be ranked. scoring: the way there, as in `scoring__`."""
    limit = F(f"{scoring}texts") * F(f"{scoring}metric_version__most_missing")
    return Q(**{f"{scoring}texts_missing__gt": limit})
