"""Work: what a kind of work is, the state machine of all of them, and collecting, scoring and downloading."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now

from leaderboard.models.clock import birth_field, from_now
from leaderboard.models.constraints import one_of
from leaderboard.models.evaluation import Artefact, Protocol
from leaderboard.models.language_models import LanguageModel
from leaderboard.models.metrics import MetricVersion
from leaderboard.models.states import StateMachine

W = TypeVar("W", bound="Work")


@dataclass(frozen=True)
class WorkKind:
    """The declaration of a kind of work: the `kind` of the model that holds its rows.

    key: its name in logs, metrics and the audit trail. one, many: what people call it. task: the function in
    `leaderboard.tasks` that does it; queue: where its messages go. ready: which rows could begin, of those that nobody
    holds. related: what a row's name speaks of, for `select_related`. abilities: where a row names what its worker has
    to be able to do, by the sort of ability. evaluates: it is a step of evaluating a model, whose texts and time are
    measured; requesters take turns at it, so its messages name no row, and its task does the one whose turn it is.
    on_pages: readers' pages say how far it is.
    """

    key: str
    one: str
    many: str
    task: str
    queue: str
    related: tuple[str, ...]
    ready: Q = field(default_factory=Q)
    abilities: Mapping[str, str] = field(default_factory=dict)
    evaluates: bool = False
    on_pages: bool = False

    @property
    def label(self) -> str:
        """The kind as the title of a list."""
        return self.many.capitalize()

    @property
    def task_name(self) -> str:
        """The Celery name of its task."""
        return f"leaderboard.tasks.{self.task}"


LONGEST_REASON = 500  # characters of why work was cancelled


class WorkQuerySet(models.QuerySet[W], Generic[W]):
    def unfinished(self) -> "WorkQuerySet[W]":
        return self.filter(state__in=[Work.State.QUEUED, Work.State.RUNNING])

    def unclaimed(self) -> "WorkQuerySet[W]":
        """Unfinished work that no living worker holds, and that neither is paused nor waits for its next attempt.

        By the clock of the database, which is one, where those of workers on several hosts differ.
        """
        return self.unfinished().filter(
            Q(held=False),
            Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=Now()),
            Q(not_before__isnull=True) | Q(not_before__lte=Now()),
        )

    def cancel(self, reason: str, *, by_person: bool = False) -> int:
        """Cancel what waits or runs; its workers stop at the next batch. Returns the number of cancelled rows.

        by_person: somebody gave it up, and it does not come back by itself.
        """
        return self.unfinished().update(
            state=Work.State.CANCELLED,
            lease=None,
            lease_expires_at=None,
            held=False,
            not_before=None,
            waits_since=None,
            waits_for="",
            reason=reason[:LONGEST_REASON],
            fault=Work.CANCELLED_BY_SOMEBODY if by_person else "",
            finished_at=Now(),
        )

    def in_hand(self) -> "WorkQuerySet[W]":
        """Work that living workers hold."""
        return self.filter(state=Work.State.RUNNING, lease_expires_at__gt=Now())


class WorkState(models.TextChoices):
    QUEUED = "queued", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class WaitsFor(models.TextChoices):
    """What work waits for beside a worker; its label begins the reason."""

    CHECK = "check", "the control check had no answer"
    OPENING = "opening", "the version is being opened"
    STEADINESS = "steadiness", "the version is not opened"


UNENDED = (WorkState.QUEUED.value, WorkState.RUNNING.value, WorkState.FAILED.value)  # what somebody may have to look at


class Work(StateMachine):
    """A state machine whose running state belongs to one worker, for as long as the worker renews its lease."""

    kind: ClassVar[WorkKind]
    State = WorkState
    WaitsFor = WaitsFor
    UNENDED = UNENDED
    CANCELLED_BY_SOMEBODY = "Cancelled"  # the fault of work that a person gave up; a rescoring that moves on gives none

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        WorkState.QUEUED: (WorkState.RUNNING, WorkState.CANCELLED),
        WorkState.RUNNING: (WorkState.RUNNING, WorkState.QUEUED, WorkState.DONE, WorkState.FAILED, WorkState.CANCELLED),
        WorkState.FAILED: (WorkState.QUEUED,),
        WorkState.CANCELLED: (WorkState.QUEUED,),
        WorkState.DONE: (),
    }

    state = models.CharField(max_length=20, choices=WorkState, default=WorkState.QUEUED)
    reason = models.TextField(blank=True, help_text="Why it failed, or is tried again.")
    fault = models.CharField(max_length=80, blank=True, help_text="The kind of error behind the reason.")
    attempts = models.PositiveIntegerField(
        default=0, help_text="Attempts that began since the last finished shard and came to nothing, or go on."
    )
    held = models.BooleanField(default=False, help_text="Paused by someone.")
    not_before = models.DateTimeField(null=True, blank=True, help_text="When it may be tried again.")
    waits_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it waits for the board to work again; the reason says for what."
    )
    waits_for = models.CharField(
        max_length=20, choices=WaitsFor, blank=True, help_text="What it waits for beside a worker; empty: for nothing."
    )
    lease = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    created_at = birth_field()
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
            one_of("state", WorkState),
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
            models.CheckConstraint(
                condition=Q(waits_for="") | Q(waits_for__in=WaitsFor.values, state__in=["queued", "running"]),
                name="%(class)s_waits_only_unfinished",
            ),
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
        """The time left at the pace so far; None before there is a pace."""
        if self.state != self.State.RUNNING or not self.done or not self.seconds:
            return None
        return timedelta(seconds=round(self.seconds / self.done * (self.total - self.done)))

    def queue_again(self) -> bool:
        """Queue failed or cancelled work again; returns whether it had failed or was cancelled."""
        has_ended = self.state in (self.State.FAILED, self.State.CANCELLED)
        return has_ended and self.move(
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

    def move(self, target: str, **changes: Any) -> bool:
        """Change the state as in any state machine; in its new state the work waits for nothing."""
        return super().move(target, **{"waits_for": "", **changes})

    def claim(self, lease: UUID, worker: str = "") -> bool:
        """Take the work, if no living worker holds it. One UPDATE: of two workers exactly one succeeds.

        The attempt counts from here on, because a worker that dies cannot count it later.
        """
        count = (
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
        return bool(count)

    def renew(self, lease: UUID, **progress: Any) -> bool:
        """Keep the lease for another term and note `progress`. False: the lease is lost, so stop and write nothing."""
        own_work = type(self).objects.filter(pk=self.pk, state=self.State.RUNNING, lease=lease)
        if "done" in progress:
            progress["progressed_at"] = Now()
        return bool(own_work.update(lease_expires_at=from_now(settings.LEASE_SECONDS), heartbeat_at=Now(), **progress))

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
        changes.setdefault("waits_for", "")
        own_work = type(self).objects.filter(pk=self.pk, state=self.State.RUNNING, lease=lease)
        count = own_work.update(state=state, lease=None, lease_expires_at=None, **changes)
        self.refresh_from_db()
        return bool(count)


def course_fields(work: str = "") -> list[str]:
    """Return the fields that say how work went, for `defer`: half of a row that is read for its numbers alone.

    work: the lookup of its row, as in `result__scoring__`.
    """
    return [f"{work}{field.name}" for field in Work._meta.get_fields() if field.name != "state"]


class Download(Work):
    """A hub model's files, fetched into the cache that workers share. `done` and `total`: the kilobytes that came."""

    kind = WorkKind("download", "download", "downloads", task="fetch_model", queue="downloads", related=("model",))

    model = models.OneToOneField(LanguageModel, models.CASCADE, related_name="download")

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")

    def __str__(self) -> str:
        return f"download of {self.model}"


class Run(Work):
    """Model x protocol: outputs collected once, and kept."""

    kind = WorkKind(
        "run",
        "run",
        "runs",
        task="collect_run",
        queue="gpu",
        related=("model", "protocol__evaluation_set"),
        ready=~Q(model__source=LanguageModel.Source.HUB) | Q(model__download__state=WorkState.DONE),
        abilities={"model": "model__slug"},
        evaluates=True,
        on_pages=True,
    )

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
    chat = models.JSONField(
        default=dict,
        blank=True,
        help_text="Of answers of a chat: the template's hash, how it was used, and counts of what was found in them.",
    )
    requests_made = models.PositiveBigIntegerField(default=0, db_default=0, help_text="To a server, over all attempts.")
    tokens_used = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Of a server: read and written, as it says or as the most that it may be."
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

    @property
    def output_settings(self) -> Any:
        """How its outputs are collected: as the protocol says, in the precision that the model's entry declares."""
        precision = {"precision": self.model.precision} if self.model.precision else {}
        return self.protocol.outputs.settings({**self.protocol.parameters, **precision})


class Scoring(Work):
    """Run x metric version: the numbers, from what was collected."""

    kind = WorkKind(
        "scoring",
        "scoring",
        "scorings",
        task="score_run",
        queue="default",
        related=("model", "metric_version__metric"),
        ready=Q(run__state=WorkState.DONE),
        abilities={"scorer": "metric_version__scorer"},
        evaluates=True,
        on_pages=True,
    )

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
        """Whether more than `most` of its texts have no score. False if nobody counted, or if any share may."""
        return most is not None and bool(self.texts) and (self.texts_missing or 0) > (self.texts or 0) * most

    @property
    def why_unranked(self) -> str:
        """Why the entry is shown without a rank; "" if it is ranked."""
        most = self.metric_version.most_missing
        if most is None or not self.texts or not self.lacks_too_many(most):
            return ""
        count = self.texts_missing or 0
        return (
            f"{count:,} of {self.texts:,} texts have no score ({count / self.texts:.1%}): an entry is ranked "
            f"where at most {100 * most:g}% have none"
        )


def is_unranked(scoring: str = "") -> Q:
    """Return the condition for scorings that lack too many scores. scoring: the lookup prefix, as in `scoring__`."""
    limit = F(f"{scoring}texts") * F(f"{scoring}metric_version__most_missing")
    has_limit = {f"{scoring}metric_version__most_missing__isnull": False}  # or it could not be negated
    return Q(**has_limit, **{f"{scoring}texts_missing__gt": limit})
