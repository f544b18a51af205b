"""Successions: what is left of a metric's numbers when another scorer takes over."""

from django.db import models
from django.db.models import F, Q

from leaderboard.models.control import Rescoring
from leaderboard.models.metrics import Metric
from leaderboard.models.work import Work, WorkKind


class Succession(Work):
    """A comparison of a metric's scorer with a successor, on the texts that both have scored.

    The newest that is done is the one that pages show. At most one of a metric and a successor is under way.
    """

    kind = WorkKind(
        "succession",
        "comparison with a successor",
        "comparisons with successors",
        task="compare_successor",
        queue="default",
        related=("metric",),
        abilities={"scorer": "successor"},
        on_pages=True,
    )

    metric = models.ForeignKey(Metric, models.CASCADE, related_name="successions")
    scorer = models.CharField(max_length=120, help_text="That the successor is to follow.")
    successor = models.CharField(max_length=120)
    fingerprint = models.CharField(max_length=64, blank=True, help_text="Of the successor, as it scored the texts.")
    result = models.JSONField(default=dict, blank=True, help_text="What is preserved, in texts and in ranks.")
    rescoring = models.ForeignKey(
        Rescoring,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="successions",
        help_text="By which the successor took over.",
    )

    class Meta(Work.Meta):
        abstract = False
        ordering = ("-created_at", "-pk")
        constraints = (
            *Work.Meta.constraints,
            models.CheckConstraint(condition=~Q(scorer=F("successor")), name="succession_goes_somewhere"),
            models.CheckConstraint(
                condition=~Q(state="done") | ~Q(fingerprint=""), name="succession_done_has_fingerprint"
            ),
            models.UniqueConstraint(
                fields=["metric", "scorer", "successor"],
                condition=Q(state__in=["queued", "running"]),
                name="succession_one_at_a_time",
            ),
        )

    def __str__(self) -> str:
        return f"succession of {self.scorer} by {self.successor} on {self.metric}"
