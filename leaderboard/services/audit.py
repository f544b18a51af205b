"""The audit trail."""

from typing import Any

from django.contrib.auth.models import User

from leaderboard.models import AuditEvent, AuditVerb


def record(
    verb: AuditVerb,
    subject: str,
    detail: dict[str, Any],
    actor: User | None = None,
    change: tuple[dict[str, Any], dict[str, Any]] | None = None,
) -> AuditEvent:
    """Append one event. No actor: the board itself, or someone at its terminal.

    change: what the event changed, by name: the values before it and those after.
    """
    if change:
        detail = {**detail, "before": change[0], "after": change[1]}
    return AuditEvent.objects.create(actor=actor, verb=verb, subject=subject, detail=detail)
