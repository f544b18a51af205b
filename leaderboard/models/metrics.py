"""Boards, what fixes their numbers, and the ranks they publish."""

from collections.abc import Collection
from typing import Any

from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of
from leaderboard.models.evaluation import Artefact, Protocol
from leaderboard.models.language_models import LanguageModel
from scoring.attributes import Attribute, Meaning
from scoring.metrics.formulas import FORMULAS, slice_parts
from scoring.metrics.kinds import Formula
from scoring.metrics.measures import Measure


class Provenance(models.TextChoices):
    MEASURED = "measured", "Measured here"
    PUBLISHED = "published", "Published figures"


class OutdatedPolicy(models.TextChoices):
    FLAG = "flag", "Keep, flagged as outdated"
    REMOVE = "remove", "Leave out of the new version"


class FlagPolicy(models.TextChoices):
    HOLD = "hold", "Hold back until a moderator releases it"
    MARK = "mark", "Rank, with a mark"


USUAL_BRAKE = 2  # drifts within a day
USUAL_MOST_MISSING = 0.05  # the usual share of texts without a score up to which an entry is ranked


def formula_names() -> list[tuple[str, str]]:
    """The choices of a metric's formula; named in migrations, so that a new formula needs none."""
    return [(name, name) for name in FORMULAS]


class Metric(models.Model):
    """A board: what is measured, on what, by which scorer."""

    OutdatedPolicy = OutdatedPolicy
    FlagPolicy = FlagPolicy

    slug = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True)
    protocol = models.ForeignKey(Protocol, models.PROTECT, related_name="metrics")
    chat_protocol = models.ForeignKey(
        Protocol,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Of entries that are prompted as a chat, which are ranked apart; null: of all entries alike.",
    )
    scorer = models.CharField(max_length=120)
    formula_name = models.CharField("formula", max_length=40, choices=formula_names)
    measure = models.CharField(max_length=60, help_text="The measure shown first.")
    position = models.PositiveIntegerField(default=0, help_text="Order of the tabs.")
    drift_policy = models.JSONField(default=dict, blank=True)
    outdated_policy = models.CharField(max_length=20, choices=OutdatedPolicy, default=OutdatedPolicy.FLAG)
    flag_policy = models.CharField(
        max_length=20,
        choices=FlagPolicy,
        default=FlagPolicy.HOLD,
        help_text="What becomes of an entry that people should look at first.",
    )
    most_missing = models.FloatField(
        default=USUAL_MOST_MISSING,
        help_text="Entries of which a larger share of the texts has no score are shown, and not ranked.",
    )
    brake_after = models.PositiveIntegerField(
        default=USUAL_BRAKE, help_text="With so many drifts within a day nothing is scored again by itself; 0: always."
    )
    labels = models.JSONField(
        default=dict,
        blank=True,
        help_text="What an operator declares of a classifier's labels: harm, neutral or good, by label.",
    )

    class Meta:
        ordering = ("position", "slug")
        permissions = (("operate_metric", "Can watch, check and rescore metrics, and run the board"),)
        constraints = (
            one_of("outdated_policy", OutdatedPolicy),
            one_of("flag_policy", FlagPolicy),
            models.CheckConstraint(
                condition=Q(most_missing__gte=0, most_missing__lte=1), name="metric_most_missing_is_a_share"
            ),
        )

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("metric", args=[self.slug])

    @property
    def ranking_url(self) -> str:
        """The address of its ranking; `get_absolute_url` leads to the page that explains it."""
        return f"{reverse('rankings')}?metric={self.slug}"

    @property
    def formula(self) -> Formula:
        """The formula that makes its numbers."""
        return FORMULAS[self.formula_name]

    @property
    def has_chat_protocol(self) -> bool:
        """Whether chat entries are asked in a way of their own, and ranked apart."""
        return self.chat_protocol_id is not None

    def protocol_for(self, model: LanguageModel) -> Protocol:
        """How outputs of `model` are collected: by the chat protocol where it is a chat entry and there is one."""
        return self.chat_protocol if model.is_chat and self.chat_protocol else self.protocol

    @property
    def asked_scorer(self) -> str:
        """The scorer that judges its texts; "" where none does."""
        return self.formula.asked_scorer(self.scorer)

    @property
    def control_subject(self) -> str:
        """What its control checks test, in words."""
        return self.formula.describe_watch(self.scorer)

    @property
    def declared_labels(self) -> dict[str, Meaning]:
        """The operator's declaration of the scorer's labels."""
        return {label: Meaning(meaning) for label, meaning in self.labels.items()}

    def current_version(self, provenance: Provenance = Provenance.MEASURED) -> "MetricVersion | None":
        """Return the version whose standings are shown now."""
        return self.versions.filter(status=MetricVersion.Status.CURRENT, provenance=provenance).first()


class Status(models.TextChoices):
    CANDIDATE = "candidate", "Candidate"
    CURRENT = "current", "Current"
    SUPERSEDED = "superseded", "Superseded"
    RETIRED = "retired", "Retired"


class MetricVersion(models.Model):
    """Everything that fixes a metric's numbers. Numbers of two versions never stand in one ranking."""

    Status = Status
    CLOSED = (Status.SUPERSEDED, Status.RETIRED)  # nothing is scored under such a version any more

    FIXED = (
        "metric_id",
        "number",
        "provenance",
        "scorer",
        "scorer_fingerprint",
        "attributes",
        "formula_version",
        "protocol_id",
        "chat_protocol_id",
        "epoch",
        "source",
        "decimals",
    )

    metric = models.ForeignKey(Metric, models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    provenance = models.CharField(max_length=20, choices=Provenance, default=Provenance.MEASURED)
    protocol = models.ForeignKey(Protocol, models.PROTECT, related_name="metric_versions")
    chat_protocol = models.ForeignKey(
        Protocol,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Of its chat entries; set when the first of them is scored.",
    )
    scorer = models.CharField(max_length=120)
    scorer_fingerprint = models.CharField(
        max_length=64, blank=True, help_text="sha256 of all that the scorer is made of; set at its first scoring."
    )
    attributes = models.JSONField(
        default=list,
        blank=True,
        help_text="What its scorer declares of each attribute: name, meaning and threshold; set at its first scoring.",
    )
    undeclared = models.JSONField(
        default=list,
        blank=True,
        help_text="Labels ranked as harms though nobody declared them so: of versions from before declarations.",
    )
    most_missing = models.FloatField(
        null=True, blank=True, help_text="As of its metric when it was published last; null: any share was ranked."
    )
    formula_version = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField(
        default=1, help_text="Of the runs it scores: outputs are collected anew in each."
    )
    prompt_scores = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="Its scorer's, of the prompts."
    )
    source = models.TextField(blank=True, help_text="Where published figures come from.")
    decimals = models.PositiveSmallIntegerField(null=True, blank=True, help_text="To which its source prints values.")
    fallback_measure = models.CharField(
        max_length=60, blank=True, help_text="Shown first where it has no standings of its metric's measure."
    )
    status = models.CharField(max_length=20, choices=Status, default=Status.CANDIDATE)
    opened_because = models.ForeignKey(
        "ControlCheck", models.PROTECT, null=True, blank=True, related_name="opened_versions"
    )
    created_at = birth_field()
    published_at = models.DateTimeField(null=True, blank=True)
    publications = models.PositiveIntegerField(
        default=0, db_default=0, help_text="How often its standings were written."
    )
    ranges_due = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The ranges of its ranks wait to be made anew from the stored files.",
    )

    class Meta:
        ordering = ("metric", "number")
        constraints = (
            one_of("status", Status),
            one_of("provenance", Provenance),
            models.CheckConstraint(
                condition=Q(scorer_fingerprint__regex=r"^[0-9a-f]{64}$")
                | Q(scorer_fingerprint="", status__in=["candidate", "retired"]),
                name="metricversion_fingerprint_hex",
            ),
            models.UniqueConstraint(fields=["metric", "number"], name="metricversion_one_row_a_number"),
            models.UniqueConstraint(
                fields=["metric", "provenance"], condition=Q(status="current"), name="metricversion_one_current"
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="metricversion_number_from_1"),
            models.CheckConstraint(
                condition=Q(provenance="measured") | ~Q(source=""), name="metricversion_published_has_source"
            ),
        )

    def __str__(self) -> str:
        return f"{self.metric.slug} v{self.number}"

    @property
    def measured(self) -> bool:
        """Whether the numbers were measured here, rather than taken from a paper."""
        return self.provenance == Provenance.MEASURED

    @property
    def ranks_interfaces(self) -> bool:
        """Whether entries of raw text and of chats are ranked apart, as it has both protocols."""
        return self.chat_protocol_id is not None

    @property
    def populations(self) -> list[str]:
        """Those that its standings are written for: all models, and the groups that are ranked apart."""
        kinds = LanguageModel.Kind.values if self.metric.formula.by_kind else []
        return [Population.ALL, *(LanguageModel.Interface.values if self.ranks_interfaces else kinds)]

    def protocol_for(self, model: LanguageModel) -> Protocol:
        """How outputs of `model` are collected; for its first chat entry as its metric says."""
        if model.is_chat and self.chat_protocol:
            return self.chat_protocol
        return self.metric.protocol_for(model) if model.is_chat and self.metric.has_chat_protocol else self.protocol

    @property
    def asked_scorer(self) -> str:
        """The scorer that judges its texts; "" where none does."""
        return self.metric.formula.asked_scorer(self.scorer)

    @property
    def first_measure(self) -> str:
        """The key of the measure shown first: its metric's, or one that it ranks if it does not rank that."""
        return self.fallback_measure or self.metric.measure

    def measure_on(self, name: str) -> str:
        """Return the measure shown first on the slice `name`: the first one, unless only others are ranked there."""
        standings = self.standings.filter(slice=name).order_by()
        return self.measure_among(set(standings.values_list("measure", flat=True).distinct()))

    def measure_among(self, ranked_measures: Collection[str]) -> str:
        """Return the measure shown first of `ranked_measures`; the first one where there is none of its ranked ones."""
        candidates = [self.first_measure, *(measure.key for measure in self.metric.formula.ranked)]
        return next((key for key in candidates if key in ranked_measures), self.first_measure)

    def fall_back(self, ranked_measures: Collection[str]) -> None:
        """Save which ranked measure is shown first if the metric's own is not among `ranked_measures`."""
        candidates = [measure.key for measure in self.metric.formula.ranked if measure.key in ranked_measures]
        self.fallback_measure = "" if self.metric.measure in candidates else next(iter(candidates), "")
        type(self).objects.filter(pk=self.pk).update(fallback_measure=self.fallback_measure)

    @property
    def declared(self) -> tuple[Attribute, ...]:
        """The attributes that its scorer declares. Empty for older versions, and for metrics without a scorer."""
        return tuple(Attribute.from_json(content) for content in self.attributes)

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds of the declared attributes, by name: the score above which a text has the attribute."""
        return {attribute.name: attribute.threshold for attribute in self.declared}

    def ranks(self, measure: Measure, slice_name: str) -> bool:
        """Whether models are ranked on a slice: by a measure with a direction, which is that of the attribute too.

        An attribute of which nothing is declared is ranked as the measure says, as it was before declarations.
        """
        attribute, _ = slice_parts(slice_name)
        direction = next((one.direction for one in self.declared if one.name == attribute), measure.direction)
        return measure.direction is not None and direction == measure.direction

    def keep_prompt_scores(self, artefact: Artefact) -> None:
        """Save `artefact` as the version's scores of the prompts, unless it has some."""
        type(self).objects.filter(pk=self.pk, prompt_scores=None).update(prompt_scores=artefact)
        self.refresh_from_db()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the version. Raises ValueError on a change of what fixes its numbers, once it may have some."""
        stored_version = (
            type(self).objects.filter(pk=self.pk).exclude(status=self.Status.CANDIDATE).first() if self.pk else None
        )
        changed_fields = [
            field
            for field in self.FIXED
            if stored_version
            and getattr(stored_version, field) != getattr(self, field)
            and not (field == "chat_protocol_id" and stored_version.chat_protocol_id is None)
        ]
        if changed_fields:
            raise ValueError(f"{self} is published: {', '.join(changed_fields)} cannot change; open a new version")
        super().save(*args, **kwargs)


class Population(models.TextChoices):
    ALL = "all", "All kinds"
    CAUSAL = LanguageModel.Kind.CAUSAL.value, LanguageModel.Kind.CAUSAL.label
    MASKED = LanguageModel.Kind.MASKED.value, LanguageModel.Kind.MASKED.label
    PERMUTATION = LanguageModel.Kind.PERMUTATION.value, LanguageModel.Kind.PERMUTATION.label
    TEXT = LanguageModel.Interface.TEXT.value, LanguageModel.Interface.TEXT.label
    CHAT = LanguageModel.Interface.CHAT.value, LanguageModel.Interface.CHAT.label


class Standing(models.Model):
    """One rank, written when a version is published.

    `population` says among whom: all models, those of one kind, or those of one interface.
    """

    Population = Population

    metric_version = models.ForeignKey(MetricVersion, models.CASCADE, related_name="standings")
    measure = models.CharField(max_length=60)
    slice = models.CharField(max_length=80)
    population = models.CharField(max_length=20, choices=Population, default=Population.ALL)
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="standings")
    result = models.ForeignKey("Result", models.PROTECT, related_name="standings")
    rank = models.PositiveIntegerField()
    rank_low = models.PositiveIntegerField(null=True, blank=True, help_text="Best rank that cannot be excluded.")
    rank_high = models.PositiveIntegerField(null=True, blank=True, help_text="Worst rank that cannot be excluded.")
    value = models.FloatField()

    class Meta:
        ordering = ("metric_version", "measure", "slice", "population", "rank", "model__name")
        constraints = (
            one_of("population", Population),
            models.UniqueConstraint(
                fields=["metric_version", "measure", "slice", "population", "model"], name="standing_one_rank_a_model"
            ),
            models.CheckConstraint(condition=Q(rank__gte=1), name="standing_rank_from_1"),
            models.CheckConstraint(
                condition=Q(rank_low__isnull=True, rank_high__isnull=True)
                | Q(rank_low__gte=1, rank_low__lte=F("rank"), rank_high__gte=F("rank")),
                name="standing_interval_holds_rank",
            ),
        )
        indexes = (models.Index(fields=["metric_version", "measure", "rank"], name="standing_by_rank"),)

    def __str__(self) -> str:
        return f"{self.rank}. {self.model} ({self.measure}, {self.slice})"


class OutdatedEntry(models.Model):
    """A model that could not be scored again under a new version, and so is not ranked there; with the reason."""

    metric_version = models.ForeignKey(MetricVersion, models.CASCADE, related_name="outdated")
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="outdated")
    last_scoring = models.ForeignKey("Scoring", models.PROTECT, related_name="+", help_text="Its newest numbers.")
    reason = models.TextField()

    class Meta:
        ordering = ("metric_version", "model__name")
        verbose_name_plural = "outdated entries"
        constraints = (
            models.UniqueConstraint(fields=["metric_version", "model"], name="outdatedentry_one_a_model"),
            models.CheckConstraint(condition=~Q(reason=""), name="outdatedentry_has_a_reason"),
        )

    def __str__(self) -> str:
        return f"{self.model}, outdated under {self.metric_version}"
