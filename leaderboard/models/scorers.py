"""Scorers: those that are retired, by an operator or as they ended, and whether workers could load the others."""

from django.db import models
from django.db.models import Q

from leaderboard.models.clock import birth_field


class RetiredScorer(models.Model):
    """A retired scorer: it scores nothing new under any metric, and its scores stay."""

    name = models.CharField(max_length=120, unique=True)
    reason = models.TextField()
    retired_at = birth_field()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=~Q(name=""), name="retiredscorer_has_a_name"),
            models.CheckConstraint(condition=~Q(reason=""), name="retiredscorer_has_a_reason"),
        )

    def __str__(self) -> str:
        return self.name


class ScorerProbe(models.Model):
    """The last attempt of a worker to load a scorer, and why it failed; "" if it succeeded."""

    name = models.CharField(max_length=120, unique=True)
    problem = models.TextField(blank=True)
    worker = models.CharField(max_length=200, blank=True)
    probed_at = models.DateTimeField()

    class Meta:
        ordering = ("name",)
        constraints = (models.CheckConstraint(condition=~Q(name=""), name="scorerprobe_has_a_name"),)

    def __str__(self) -> str:
        return self.name
