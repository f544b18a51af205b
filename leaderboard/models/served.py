"""Watching services: what a served model's server said and answered when it was entered, and checks of that."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from leaderboard.models.constraints import one_of
from leaderboard.models.control import Trigger
from leaderboard.models.language_models import LanguageModel
from leaderboard.models.work import Work, WorkKind


class Service(models.Model):
    """The server behind an entry, as it was when it was entered.

    A service that answers otherwise than its baseline is another model: the entry stays as it was measured, no longer
    reproducible, and `successor` is the revision that the service is since.
    """

    model = models.OneToOneField(LanguageModel, models.CASCADE, related_name="service")
    identity = models.JSONField(default=dict, blank=True, help_text="What the server said of itself and the model.")
    likelihoods = models.JSONField(
        default=dict, blank=True, help_text="How it is asked for likelihoods: way and leads; empty: it gives none."
    )
    no_likelihoods = models.TextField(blank=True, help_text="Why it gives none, in its own answers.")
    verification = models.JSONField(
        default=dict, blank=True, help_text="How far its likelihoods were from those of the weights, or of itself."
    )
    baseline = models.JSONField(
        default=dict, blank=True, help_text="What it answered to the control texts at temperature 0; empty: not asked."
    )
    asked_at = models.DateTimeField(null=True, blank=True, help_text="When the baseline was asked.")
    change = models.TextField(blank=True, help_text="What was found to have changed.")
    successor = models.OneToOneField(
        LanguageModel, models.SET_NULL, null=True, blank=True, related_name="predecessor_service"
    )

    def __str__(self) -> str:
        return f"service of {self.model}"


class ServiceVerdict(models.TextChoices):
    BASELINE = "baseline", "Baseline taken"
    STABLE = "stable", "Stable"
    CHANGED = "changed", "Changed"
    UNAVAILABLE = "unavailable", "Unavailable"


class ServiceCheck(Work):
    """One asking of a service's control texts again, with its verdict. At most one a model is under way."""

    kind = WorkKind(
        "service_check",
        "check of a service",
        "checks of services",
        task="check_service",
        queue="default",
        related=("model",),
        on_pages=True,
    )

    Trigger: ClassVar[type[Trigger]] = Trigger
    Verdict = ServiceVerdict

    model = models.ForeignKey(LanguageModel, models.CASCADE, related_name="service_checks")
    trigger = models.CharField(max_length=20, choices=Trigger)
    verdict = models.CharField(max_length=20, choices=ServiceVerdict, blank=True)
    statistics = models.JSONField(default=dict, blank=True)

    class Meta(Work.Meta):
        abstract = False
        ordering = ("-created_at", "-pk")
        constraints = (
            *Work.Meta.constraints,
            one_of("trigger", Trigger),
            models.CheckConstraint(
                condition=Q(verdict="") | Q(verdict__in=ServiceVerdict.values), name="servicecheck_verdict_known"
            ),
            models.CheckConstraint(condition=~Q(state="done") | ~Q(verdict=""), name="servicecheck_done_has_verdict"),
            models.UniqueConstraint(
                fields=["model"], condition=Q(state__in=["queued", "running"]), name="servicecheck_one_at_a_time"
            ),
        )

    def __str__(self) -> str:
        return f"check of the service of {self.model}: {self.get_verdict_display() or self.get_state_display()}"
