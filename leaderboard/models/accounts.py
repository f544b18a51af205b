"""Access: invitations to sign up, and tokens for programs. Only the hash of a secret is stored."""

from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import sha256_shape


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self) -> "InvitationQuerySet":
        """Those with which somebody may still sign up."""
        return self.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


class Invitation(models.Model):
    """Permission to sign up on a board that asks for invitations: for one person, once, until a day."""

    email = models.EmailField(blank=True, help_text="The only address it is good for; empty: any.")
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", help_text="Nobody: at the terminal."
    )
    created_at = birth_field()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)
    used_by = models.OneToOneField(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        constraints = (
            sha256_shape("token_hash"),
            models.CheckConstraint(
                condition=Q(used_at=None, used_by=None) | Q(used_at__isnull=False, used_by__isnull=False),
                name="invitation_used_by_somebody",
            ),
            models.CheckConstraint(
                condition=Q(used_at=None) | Q(revoked_at=None), name="invitation_used_or_revoked_not_both"
            ),
        )

    def __str__(self) -> str:
        return f"invitation {self.pk}"

    def state(self) -> str:
        """In a word: Open, Used, Revoked or Expired."""
        if self.used_at:
            return "Used"
        if self.revoked_at:
            return "Revoked"
        return "Open" if self.expires_at > timezone.now() else "Expired"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> "ApiTokenQuerySet":
        """Those that a program may still use."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), revoked_at=None)


class ApiToken(models.Model):
    """A secret that identifies its owner to the API."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=60, help_text="What it is for, in its owner's words.")
    token_hash = models.CharField(max_length=64, unique=True)
    last_four = models.CharField(max_length=4)
    created_at = birth_field()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="To the hour.")

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-pk")
        constraints = (
            sha256_shape("token_hash"),
            models.CheckConstraint(condition=~Q(name=""), name="apitoken_has_a_name"),
        )

    def __str__(self) -> str:
        return f"API token {self.pk} of {self.owner}"

    def has_expired(self, moment: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= moment

    def state(self) -> str:
        """In a word: Live, Revoked or Expired."""
        if self.revoked_at:
            return "Revoked"
        return "Expired" if self.has_expired(timezone.now()) else "Live"


class Preferences(models.Model):
    """The preferences of a user; without a row, the defaults."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="preferences")
    letters = models.BooleanField(default=True, help_text="Whether to be written when a submission has news.")

    class Meta:
        verbose_name_plural = "preferences"

    def __str__(self) -> str:
        return f"preferences of {self.user}"
