"""The audit trail."""

from typing import Any

from django.contrib.auth.models import User

from leaderboard.models import AuditEvent


def record(verb: str, subject: str, detail: dict[str, Any], actor: User | None = None) -> AuditEvent:
    """Append one event. No actor: the board itself, or someone at its terminal."""
    return AuditEvent.objects.create(actor=actor, verb=verb, subject=subject, detail=detail)
