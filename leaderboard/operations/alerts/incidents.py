"""Incidents: opened when something is the case, resolved when it is no more; each told once to each receiver."""

import logging
import threading
import time
from datetime import datetime, timedelta
from uuid import uuid4

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from leaderboard.models import Incident, OutboxMessage
from leaderboard.models.clock import database_now
from leaderboard.operations.alerts.conditions import findings
from leaderboard.operations.alerts.delivery import ALERTS, payload, ping, receivers, transmit
from leaderboard.operations.alerts.finding import AlertFinding
from leaderboard.operations.alerts.machinery import beat_is_late_by, sweep_is_late_by
from leaderboard.services.failures import is_database_away
from leaderboard.services.outbox import NotTaken, send_due
from leaderboard.services.signs_of_life import hang_up, pulse

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0  # between two looks: receivers learn of an incident within two minutes
STUCK_SECONDS = 60.0  # a look takes a second or two; after so many the database takes connections and answers nothing
SETTLED = timedelta(seconds=30)  # who looks at the same time as another sees the incident open


def look() -> None:
    """Open incidents for what is the case, resolve those that are over, and note whom to tell.

    Safe to do twice at a time: the database allows one open incident a key.
    """
    now = database_now()
    findings_by_key = {}
    for finding in findings(now):  # what it raises at its end comes before anything is taken for over
        findings_by_key[finding.key] = finding
        open_incident(finding, now)
    for incident in Incident.objects.filter(resolved_at=None):
        finding_of_incident = findings_by_key.get(incident.key)
        is_over = finding_of_incident is None or finding_of_incident.over
        if is_over and not (finding_of_incident and finding_of_incident.once and incident.opened_at > now - SETTLED):
            resolve(incident, now)


def open_incident(finding: AlertFinding, now: datetime) -> None:
    """An incident for `finding`, unless there is one."""
    incidents = Incident.objects.filter(key=finding.key)
    if (incidents if finding.once else incidents.filter(resolved_at=None)).exists():
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
            incident.messages.add_alerts(OutboxMessage.Event.OPENED, receivers())
    except IntegrityError:
        return  # somebody else saw it in the same moment
    log.warning("incident %d: %s", incident.pk, incident.summary)


def resolve(incident: Incident, now: datetime) -> None:
    """The incident is over; of two who say so at a time, one tells."""
    with transaction.atomic():
        if not Incident.objects.filter(pk=incident.pk, resolved_at=None).update(resolved_at=now):
            return
        incident.resolved_at = now
        incident.messages.add_alerts(OutboxMessage.Event.RESOLVED, receivers())
    log.info("incident %d is over: %s", incident.pk, incident)


def keep_looking() -> None:
    """Look, for ever: a thread in beat, which lives where no worker does. Another one there sends what it notes."""
    watch = DatabaseWatch()
    while True:
        time.sleep(min(LOOK_SECONDS, settings.CHECK_SECONDS))
        look_in_time(watch, STUCK_SECONDS)


def keep_standing_in() -> None:
    """Look and send alerts while beat is silent, for ever: a thread in each worker."""
    while True:
        time.sleep(min(LOOK_SECONDS, settings.CHECK_SECONDS))
        try:
            stand_in()
        except Exception:
            log.exception("looking for incidents in beat's place failed: it is tried again")
        finally:
            hang_up()


def stand_in() -> None:
    """Look and send alerts where beat does not: that it is silent is an incident itself."""
    if beat_is_late_by() is not None:
        look()
        send_due([ALERTS])


def look_in_time(watch: "DatabaseWatch", seconds: float) -> None:
    """Look once, and tell where it takes longer than so many seconds, for as long as it does.

    A database that has stopped, or whose host has, refuses nothing: whoever asks it waits. So the look has a thread of
    its own.
    """
    thread = threading.Thread(target=look_once, args=(watch,), name="look", daemon=True)
    thread.start()
    thread.join(seconds)
    while thread.is_alive():
        log.warning("looking for incidents takes over %.0f s: the database does not answer", seconds)
        watch.note_silence(f"nothing within {seconds:.0f} s")
        ping("the database does not answer")
        thread.join(seconds)


def look_once(watch: "DatabaseWatch") -> None:
    """Look, and tell the dead man's switch that the board works, or what does not. Raises nothing."""
    try:
        pulse("look")
        look()
        late = sweep_is_late_by()
        ping(f"no sweep for {late:.0f} s" if late is not None else "")
        watch.note_answer()
    except Exception as error:
        if is_database_away(error):
            log.warning("looking for incidents failed: the database does not answer (%s)", type(error).__name__)
            watch.note_silence(type(error).__name__)
            ping("the database does not answer")
        else:
            log.exception("looking for incidents failed: it is tried again")
    finally:
        hang_up()


class DatabaseWatch:
    """Tells receivers that the database is away, and that it is back: of what cannot be written down while it is."""

    def __init__(self) -> None:
        self.incident: Incident | None = None
        self.untold: list[str] = []

    def note_silence(self, error: str) -> None:
        """The database did not answer: each receiver gets one message, sent again until it takes it."""
        if self.incident is None:
            self.incident = Incident(
                key="database",
                kind=Incident.Kind.DATABASE,
                subject="database",
                summary=f"The database does not answer ({error}): nothing works until it does.",
                path="/operate/",
                opened_at=timezone.now(),
            )
            self.untold = list(receivers())
        self._tell(self.incident)

    def note_answer(self) -> None:
        """It answers: who was told hears that it is over, and the incident is written down."""
        if self.incident is None:
            return
        incident, self.incident = self.incident, None
        incident.resolved_at = timezone.now()
        incident.save()
        incident.messages.add_alerts(OutboxMessage.Event.OPENED, self.untold)
        incident.messages.add_alerts(OutboxMessage.Event.RESOLVED, receivers())

    def _tell(self, incident: Incident) -> None:
        for receiver in list(self.untold):
            try:
                transmit(receiver, payload(str(uuid4()), OutboxMessage.Event.OPENED, incident))
                self.untold.remove(receiver)
            except NotTaken as error:
                log.warning("%s did not take a message that the database is away: %s", receiver, error)
