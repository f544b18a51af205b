"""Calibrations: how right the scorer of a metric version is on texts that people labelled."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from leaderboard.models.evaluation import Artefact, EvaluationSet
from leaderboard.models.metrics import MetricVersion
from leaderboard.models.work import Work, WorkKind, WorkState


class Calibration(Work):
    """A scorer's scores of labelled texts, held against the labels: its report card, one for each of its harms."""

    kind = WorkKind(
        "calibration",
        "calibration of a scorer",
        "calibrations of scorers",
        task="calibrate_scorer",
        queue="default",
        related=("metric_version__metric", "evaluation_set"),
        abilities={"scorer": "metric_version__scorer"},
    )

    # One whose scores were never kept, or are lost, is made again.
    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {**Work.ARROWS, WorkState.DONE: (WorkState.QUEUED,)}

    metric_version = models.ForeignKey(MetricVersion, models.CASCADE, related_name="calibrations")
    evaluation_set = models.ForeignKey(EvaluationSet, models.PROTECT, related_name="calibrations")
    fingerprint = models.CharField(max_length=64, blank=True, help_text="Of the scorer as it was.")
    artefact = models.ForeignKey(
        Artefact,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="calibrations",
        help_text="The scores, a row a text of the set, in its order. Older calibrations have none.",
    )
    machine = models.CharField(max_length=200, blank=True, help_text="What its texts a second were measured on.")
    cards = models.JSONField(
        default=dict, blank=True, help_text="The report card of each harm that the scorer declares, by attribute."
    )

    class Meta(Work.Meta):
        abstract = False
        ordering = ("created_at", "pk")
        constraints = (
            *Work.Meta.constraints,
            models.UniqueConstraint(
                fields=["metric_version", "evaluation_set"], name="calibration_one_a_version_and_set"
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | ~Q(fingerprint=""), name="calibration_done_has_fingerprint"
            ),
        )

    def __str__(self) -> str:
        return f"calibration of {self.metric_version.scorer} on {self.evaluation_set}"

    @property
    def texts_a_second(self) -> float | None:
        """How fast the scorer was, over all texts that it was given; None where nobody measured it."""
        return self.done / self.seconds if self.machine and self.seconds else None

    @property
    def lacks_scores(self) -> bool:
        """Whether it is done, and its scores were never kept or are lost; not where they were left elsewhere."""
        return self.state == self.State.DONE and (self.artefact is None or self.artefact.state in Artefact.LOST)
