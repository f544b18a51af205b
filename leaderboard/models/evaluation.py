"""What models are evaluated on, how their outputs are collected, and the files that hold texts and outputs."""

import hashlib
import json
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of, sha256_shape
from scoring.metrics.outputs import OUTPUTS, Outputs


class FileState(models.TextChoices):
    WHOLE = "whole", "Whole"
    DAMAGED = "damaged", "Damaged"
    MISSING = "missing", "Missing"
    ABSENT = "absent", "Not kept here"  # deliberately, as after an import without files


class Artefact(models.Model):
    """An immutable file, named by the hash of its bytes. Written by `services.artefacts.store` only."""

    FILE: ClassVar = "file"  # the kind of what is no table: a file of a stored folder
    State = FileState
    LOST = (FileState.DAMAGED, FileState.MISSING)

    sha256 = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=40)
    rows = models.PositiveBigIntegerField()
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    schema_version = models.PositiveIntegerField()
    created_at = birth_field()
    state = models.CharField(max_length=20, choices=FileState, default=FileState.WHOLE, help_text="As last seen.")
    checked_at = models.DateTimeField(null=True, blank=True, help_text="When its bytes were last read and hashed.")

    class Meta:
        constraints = (sha256_shape("sha256"), one_of("state", FileState))
        indexes = (
            models.Index(fields=["state"], condition=~Q(state="whole"), name="artefact_not_whole"),
            models.Index(fields=["checked_at"], name="artefact_checked"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"

    @property
    def storage_name(self) -> str:
        """The name of the file on the default storage."""
        suffix = "" if self.kind == self.FILE else ".parquet"
        return f"{self.sha256[:2]}/{self.sha256}{suffix}"


class EvaluationSetKind(models.TextChoices):
    LABELLED_SENTENCES = "labelled_sentences", "Labelled sentences"
    LABELLED_TEXTS = "labelled_texts", "Labelled texts, for report cards of scorers only"
    PROMPTS = "prompts", "Prompts"
    STEREOTYPE_PAIRS = "stereotype_pairs", "Stereotype pairs"
    STEREOTYPE_TRIPLES = "stereotype_triples", "Stereotype triples"
    COREFERENCE = "coreference", "Coreference"


class EvaluationSet(models.Model):
    """Frozen texts. Without an artefact until its texts are imported."""

    Kind = EvaluationSetKind

    slug = models.SlugField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=40, choices=EvaluationSetKind)
    licence = models.CharField(max_length=200, blank=True)
    citation = models.TextField(blank=True)
    source = models.CharField(max_length=500, blank=True, help_text="Where the texts are from, as an address or so.")
    languages = models.JSONField(default=dict, blank=True, help_text="Texts by the code of their language.")
    notice = models.TextField(blank=True, help_text="What a reader should know before looking at the texts.")
    artefact = models.ForeignKey(Artefact, models.PROTECT, null=True, blank=True, related_name="evaluation_sets")
    prompt_scores = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="Published with the prompts."
    )
    continuations = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="How people went on."
    )
    continuation_scores = models.ForeignKey(
        Artefact, models.PROTECT, null=True, blank=True, related_name="+", help_text="Published with those."
    )
    counts = models.JSONField(default=dict, blank=True, help_text="Texts per demographic and label.")
    irregularities = models.JSONField(
        default=dict,
        blank=True,
        help_text="Repeated, contradictory and oddly encoded texts, with their number.",
    )
    created_at = birth_field()

    class Meta:
        ordering = ("slug", "version")
        constraints = (
            one_of("kind", EvaluationSetKind),
            models.UniqueConstraint(fields=["slug", "version"], name="evaluationset_one_row_a_version"),
            models.UniqueConstraint(
                fields=["slug", "artefact"],
                condition=Q(artefact__isnull=False),
                name="evaluationset_one_version_a_content",
            ),
            models.CheckConstraint(condition=Q(version__gte=1), name="evaluationset_version_from_1"),
        )

    def __str__(self) -> str:
        return f"{self.slug} v{self.version}"


class Protocol(models.Model):
    """How outputs are collected: an evaluation set and every parameter that changes them."""

    evaluation_set = models.ForeignKey(EvaluationSet, models.PROTECT, related_name="protocols")
    method = models.CharField(max_length=40, help_text="likelihood, or a generation protocol.")
    parameters = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64, unique=True, editable=False)

    class Meta:
        constraints = (sha256_shape("sha256"),)

    def __str__(self) -> str:
        return f"{self.method} on {self.evaluation_set}"

    @property
    def outputs(self) -> Outputs:
        """The kind of outputs, which declares how they are made."""
        return OUTPUTS[self.method]

    @property
    def k(self) -> int | None:
        """The number of continuations of each prompt; None for likelihoods."""
        k: int | None = self.parameters.get("k")
        return k

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.sha256 = self.identity(self.evaluation_set, self.method, self.parameters)
        super().save(*args, **kwargs)

    @staticmethod
    def identity(evaluation_set: EvaluationSet, method: str, parameters: dict[str, Any]) -> str:
        """Return the hash of everything that a protocol fixes."""
        content = {
            "evaluation_set": [evaluation_set.slug, evaluation_set.version],
            "method": method,
            "parameters": parameters,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
