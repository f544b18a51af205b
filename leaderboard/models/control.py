"""Watching the scorer: frozen control sets, checks of them, and what a drift sets off."""

from collections.abc import Collection
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of, sha256_shape
from leaderboard.models.evaluation import Artefact
from leaderboard.models.metrics import Metric, MetricVersion
from leaderboard.models.states import StateMachine
from leaderboard.models.work import Work, WorkKind
from scoring.drift import rule


def current_check_version() -> int:
    """Return the version of the rule of control checks in this code."""
    return rule.CHECK_VERSION


class ControlSet(models.Model):
    """Frozen items of a metric with their reference scores under one of its versions."""

    metric_version = models.OneToOneField(MetricVersion, models.PROTECT, related_name="control_set")
    items = models.ForeignKey(Artefact, models.PROTECT, related_name="+")
    reference = models.ForeignKey(Artefact, models.PROTECT, related_name="+")
    noise = models.FloatField(default=0, help_text="Standard deviation of a score between scorings; 0: there is none.")
    check_version = models.PositiveIntegerField(
        default=current_check_version, help_text="Of the rule of control checks that it was measured for."
    )
    fingerprint = models.CharField(max_length=64, help_text="Of what made the reference.")
    environment = models.JSONField(default=dict, help_text="Library versions and device.")
    created_at = birth_field()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(noise__gte=0), name="controlset_noise_from_0"),
            sha256_shape("fingerprint"),
        )

    def __str__(self) -> str:
        return f"control set of {self.metric_version}"


class Opening(models.Model):
    """The control set of a version that is being opened: its items are scored until the scorer's noise is known.

    Who first has hold of it chooses the items; it ends with the control set. `not_before`: when the next scoring is
    due, or how long a worker has hold of this one.
    """

    metric_version = models.OneToOneField(MetricVersion, models.CASCADE, related_name="opening")
    items = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="Empty until they are chosen."
    )
    fingerprint = models.CharField(max_length=64, help_text="Of what makes the scorings.")
    environment = models.JSONField(default=dict, help_text="Library versions and device.")
    wanted = models.PositiveIntegerField(help_text="Scorings of all items.")
    refusals = models.PositiveIntegerField(default=0, help_text="Times that the scorer was not steady enough.")
    reason = models.TextField(blank=True, help_text="Why it was not.")
    not_before = models.DateTimeField(null=True, blank=True)
    created_at = birth_field()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(wanted__gte=1), name="opening_wants_scorings"),
            sha256_shape("fingerprint"),
        )

    def __str__(self) -> str:
        return f"opening of {self.metric_version}"


class Replicate(models.Model):
    """One scoring of all items of an opening."""

    opening = models.ForeignKey(Opening, models.CASCADE, related_name="replicates")
    number = models.PositiveIntegerField(help_text="From 0.")
    artefact = models.ForeignKey(Artefact, models.PROTECT, related_name="+")
    scored_at = birth_field()

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=["opening", "number"], name="replicate_one_a_number"),)

    def __str__(self) -> str:
        return f"replicate {self.number} of {self.opening}"


class Trigger(models.TextChoices):
    SUBMISSION = "submission", "A model was added"
    SCHEDULE = "schedule", "On schedule"
    MANUAL = "manual", "By hand"
    UPGRADE = "upgrade", "Libraries changed"


class CheckVerdict(models.TextChoices):
    STABLE = "stable", "Stable"
    CHANGED = "changed", "Changed"
    DRIFTED = "drifted", "Drifted"
    UNAVAILABLE = "unavailable", "Unavailable"


class ControlCheck(Work):
    """One rescoring of a control set, with its verdict. Stored for ever; at most one a metric is under way."""

    kind = WorkKind(
        "check",
        "control check",
        "control checks",
        task="check_control",
        queue="default",
        related=("metric",),
        abilities={"scorer": "metric__scorer"},
        on_pages=True,
    )

    Trigger = Trigger
    Verdict = CheckVerdict

    metric = models.ForeignKey(Metric, models.PROTECT, related_name="checks")
    control_set = models.ForeignKey(ControlSet, models.PROTECT, null=True, blank=True, related_name="checks")
    trigger = models.CharField(max_length=20, choices=Trigger)
    verdict = models.CharField(max_length=20, choices=CheckVerdict, blank=True)
    fingerprint = models.CharField(max_length=64, blank=True)
    environment = models.JSONField(default=dict, blank=True)
    statistics = models.JSONField(default=dict, blank=True)
    artefact = models.ForeignKey(Artefact, models.PROTECT, null=True, blank=True, related_name="+")
    host = models.CharField(max_length=200, blank=True, help_text="Which scored the texts.")
    first_host = models.CharField(
        max_length=200, blank=True, help_text="Which found a drift that another host is asked about."
    )
    first_finding = models.TextField(blank=True, help_text="By what it found that.")

    class Meta(Work.Meta):
        abstract = False
        ordering = ("-created_at", "-pk")
        constraints = (
            *Work.Meta.constraints,
            one_of("trigger", Trigger),
            models.CheckConstraint(
                condition=Q(verdict="") | Q(verdict__in=CheckVerdict.values), name="controlcheck_verdict_known"
            ),
            models.CheckConstraint(
                condition=Q(fingerprint="") | Q(fingerprint__regex=r"^[0-9a-f]{64}$"),
                name="controlcheck_fingerprint_hex",
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | (~Q(verdict="") & Q(control_set__isnull=False)),
                name="controlcheck_done_has_verdict",
            ),
            models.CheckConstraint(
                condition=Q(verdict__in=["", "unavailable"]) | Q(artefact__isnull=False),
                name="controlcheck_has_scores",
            ),
            models.UniqueConstraint(
                fields=["metric"], condition=Q(state__in=["queued", "running"]), name="controlcheck_one_at_a_time"
            ),
        )

    def __str__(self) -> str:
        return f"check of {self.metric}: {self.get_verdict_display() or self.get_state_display()}"


def public_statistics(statistics: dict[str, Any], hidden_slugs: Collection[str]) -> dict[str, Any]:
    """What a check found, without the moves of hidden models that its estimate of the impact names."""
    impact = statistics.get("impact")
    if not impact or not hidden_slugs:
        return statistics
    moves = [move for move in impact["moves"] if move["entry"] not in hidden_slugs]
    return statistics | {"impact": impact | {"moves": moves}}


class RescoringState(models.TextChoices):
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    PUBLISHED = "published", "Published"
    CANCELLED = "cancelled", "Cancelled"


class RescoringQuerySet(models.QuerySet["Rescoring"]):
    def active(self) -> "RescoringQuerySet":
        """Those running or paused: at most one a metric."""
        return self.filter(state__in=[Rescoring.State.RUNNING, Rescoring.State.PAUSED])


class Rescoring(StateMachine):
    """The scoring of all entries of a metric under its next version."""

    State = RescoringState

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        RescoringState.RUNNING: (RescoringState.PAUSED, RescoringState.PUBLISHED, RescoringState.CANCELLED),
        RescoringState.PAUSED: (RescoringState.RUNNING, RescoringState.CANCELLED),
        RescoringState.PUBLISHED: (),
        RescoringState.CANCELLED: (),
    }

    metric = models.ForeignKey(Metric, models.PROTECT, related_name="rescorings")
    from_version = models.ForeignKey(MetricVersion, models.PROTECT, related_name="rescorings_from")
    to_version = models.ForeignKey(MetricVersion, models.PROTECT, related_name="rescorings_to")
    state = models.CharField(max_length=20, choices=RescoringState, default=RescoringState.RUNNING)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    reason = models.TextField()
    by_upgrade = models.BooleanField(
        default=False,
        help_text="The board opened it by itself: the code computes or checks otherwise than the version before.",
    )
    former_labels = models.JSONField(
        null=True,
        blank=True,
        help_text="What was declared of the scorer's labels before: it holds again where this one is cancelled.",
    )
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    created_at = birth_field()
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RescoringQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            one_of("state", RescoringState),
            models.UniqueConstraint(
                fields=["metric"], condition=Q(state__in=["running", "paused"]), name="rescoring_one_active_a_metric"
            ),
            models.CheckConstraint(condition=~Q(from_version=F("to_version")), name="rescoring_goes_somewhere"),
            models.CheckConstraint(condition=Q(done__lte=F("total")), name="rescoring_done_within_total"),
            models.CheckConstraint(condition=~Q(reason=""), name="rescoring_has_a_reason"),
        )

    def __str__(self) -> str:
        return f"{self.from_version} to {self.to_version}"
