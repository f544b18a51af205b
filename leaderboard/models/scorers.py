"""Scorers that an operator has retired."""

from django.db import models
from django.db.models import Q


class RetiredScorer(models.Model):
    """Nothing new is scored with it, under any metric; what it scored stays."""

    name = models.CharField(max_length=120, unique=True)
    reason = models.TextField()
    retired_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(condition=~Q(name=""), name="retiredscorer_has_a_name"),
            models.CheckConstraint(condition=~Q(reason=""), name="retiredscorer_has_a_reason"),
        )

    def __str__(self) -> str:
        return self.name
