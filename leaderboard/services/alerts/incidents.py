"""Incidents: opened when something is the case, resolved when it is no more; each told once to each receiver."""

import logging
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone

from leaderboard.models import AlertMessage, Incident
from leaderboard.services.alerts.conditions import Finding, findings
from leaderboard.services.alerts.delivery import deliver, receivers

log = logging.getLogger(__name__)

SETTLED = timedelta(seconds=30)  # who looks at the same time as another sees the incident open


def look() -> None:
    """Open incidents for what is the case, resolve those that are over, and note whom to tell.

    Safe to do twice at a time: the database allows one open incident a key.
    """
    now = timezone.now()
    found = {finding.key: finding for finding in findings()}
    for finding in found.values():
        open_incident(finding, now)
    for incident in Incident.objects.filter(resolved_at=None):
        finding_now = found.get(incident.key)
        gone = finding_now is None or finding_now.over
        if gone and not (finding_now and finding_now.once and incident.opened_at > now - SETTLED):
            resolve(incident, now)


def open_incident(finding: Finding, now: datetime) -> None:
    """An incident for `finding`, unless there is one."""
    known = Incident.objects.filter(key=finding.key)
    if (known if finding.once else known.filter(resolved_at=None)).exists():
        return
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                key=finding.key,
                kind=finding.kind,
                subject=finding.subject,
                summary=finding.summary,
                path=finding.path,
                opened_at=now,
            )
            note_messages(incident, AlertMessage.Event.OPENED, now)
    except IntegrityError:
        return  # somebody else saw it in the same moment
    log.warning("incident %d: %s", incident.pk, incident.summary)


def resolve(incident: Incident, now: datetime) -> None:
    """The incident is over; of two who say so at a time, one tells."""
    with transaction.atomic():
        if not Incident.objects.filter(pk=incident.pk, resolved_at=None).update(resolved_at=now):
            return
        incident.resolved_at = now
        note_messages(incident, AlertMessage.Event.RESOLVED, now)
    log.info("incident %d is over: %s", incident.pk, incident)


def note_messages(incident: Incident, event: str, now: datetime) -> None:
    """A message to each receiver that the settings name."""
    AlertMessage.objects.bulk_create(
        AlertMessage(incident=incident, event=event, receiver=name, created_at=now, not_before=now)
        for name in receivers()
    )


def keep_looking() -> None:
    """Look and deliver, for ever: the thread in beat, which lives where no worker does."""
    while True:
        time.sleep(min(60.0, settings.CHECK_SECONDS))
        try:
            close_old_connections()
            look()
            deliver()
        except Exception:
            log.exception("looking for incidents failed: it is tried again")
        finally:
            connection.close()
