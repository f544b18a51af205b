"""Who did what."""

from typing import Any, Never

from django.conf import settings
from django.db import models


class AuditEvent(models.Model):
    """One act of a person, or of the board itself (no actor). Append-only."""

    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+")
    verb = models.CharField(max_length=60)
    subject = models.CharField(max_length=200, help_text="What it was done to, as in `metric safety-toxigen`.")
    detail = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-at", "-pk")
        constraints = (models.CheckConstraint(condition=~models.Q(verb=""), name="auditevent_has_a_verb"),)
        indexes = (models.Index(fields=["-at", "-id"], name="auditevent_newest"),)

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk:
            raise ValueError("an audit event cannot be changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Never:
        raise ValueError("an audit event cannot be deleted")
