"""Delivering messages about incidents: to webhooks and by e-mail, at least once, with growing pauses until taken."""

import hashlib
import hmac
import json
import logging
import smtplib
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
from django.conf import settings
from django.core.mail import send_mail
from django.db.models import F
from django.utils import timezone

from leaderboard.models import AlertMessage, Incident

log = logging.getLogger(__name__)

FORMAT = 1
SIGNATURE = "X-Plumbline-Signature"
EMAIL = "e-mail"
TIMEOUT = httpx.Timeout(10.0, connect=5.0)
HELD = timedelta(seconds=60)  # a message that is being sent; after that its sender is taken for dead
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3600.0  # seconds
BUDGET = 30.0  # seconds, after which a round leaves the rest to the next one


class NotTaken(Exception):
    """The receiver did not take the message; the text says why, without its address."""


def receivers() -> dict[str, str]:
    """Who is told, by a name that gives no address away: the addresses of webhooks, and all of ALERT_EMAIL together."""
    found = {f"webhook {hashlib.sha256(url.encode()).hexdigest()[:12]}": url for url in settings.ALERT_WEBHOOK}
    return found | ({EMAIL: ", ".join(settings.ALERT_EMAIL)} if settings.ALERT_EMAIL else {})


def deliver() -> int:
    """Send what is due, oldest first, until it is done or the round has taken long enough; returns how many were taken.

    That something is over is told after that it began.
    """
    ends, taken = time.monotonic() + BUDGET, 0
    undelivered = AlertMessage.objects.filter(sent_at=None, given_up_at=None)
    for message in undelivered.filter(not_before__lte=timezone.now()).select_related("incident"):
        if time.monotonic() > ends:
            break
        began = undelivered.filter(
            incident=message.incident, receiver=message.receiver, event=AlertMessage.Event.OPENED
        )
        if message.event == AlertMessage.Event.RESOLVED and began.exists():
            continue
        taken += attempt(message)
    return taken


def attempt(message: AlertMessage) -> bool:
    """Send one message, if nobody else does; says whether it was taken. Who dies on the way leaves it to the next."""
    now = timezone.now()
    mine = AlertMessage.objects.filter(pk=message.pk, sent_at=None, given_up_at=None)
    if not mine.filter(not_before__lte=now).update(not_before=now + HELD, attempts=F("attempts") + 1):
        return False
    message.refresh_from_db()
    address = receivers().get(message.receiver)
    if address is None:
        mine.update(given_up_at=now, error="the settings do not name this receiver any more")
        return False
    try:
        transmit(message.receiver, payload(str(message.pk), message.event, message.incident))
    except NotTaken as error:
        log.warning("%s did not take a message about incident %d: %s", message.receiver, message.incident_id, error)
        if message.attempts >= AlertMessage.MOST_ATTEMPTS:
            mine.update(given_up_at=timezone.now(), error=str(error)[:200])
        else:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(message.attempts - 1, 10))
            mine.update(not_before=timezone.now() + timedelta(seconds=pause), error=str(error)[:200])
        return False
    return bool(mine.update(sent_at=timezone.now(), error=""))


def payload(message: str, event: str, incident: Incident) -> dict[str, Any]:
    """The body of a webhook's request; deploy/README.md says what it means."""
    board = settings.SITE_URL
    over = event == AlertMessage.Event.RESOLVED
    return {
        "plumbline_alert": FORMAT,
        "id": message,
        "event": event,
        "sent_at": timezone.now().isoformat(timespec="seconds"),
        "board": board,
        "text": f"[Plumbline] {'Over: ' if over else ''}{incident.summary}",
        "incident": {
            "id": incident.pk,
            "kind": incident.kind,
            "subject": incident.subject,
            "summary": incident.summary,
            "opened_at": incident.opened_at.isoformat(timespec="seconds"),
            "resolved_at": incident.resolved_at and incident.resolved_at.isoformat(timespec="seconds"),
            "url": f"{board}{incident.path}",
        },
    }


def transmit(receiver: str, body: dict[str, Any]) -> None:
    """Send a message. Raises NotTaken."""
    address = receivers()[receiver]
    if receiver == EMAIL:
        _mail(body)
    else:
        _post(address, json.dumps(body, ensure_ascii=False).encode())


def _mail(body: dict[str, Any]) -> None:
    incident = body["incident"]
    lines = [body["text"], "", f"Since {incident['opened_at']}", incident["url"]]
    try:
        send_mail(body["text"][:200], "\n".join(lines), None, settings.ALERT_EMAIL)
    except (smtplib.SMTPException, OSError) as error:
        raise NotTaken(f"the mail server: {type(error).__name__}") from error


def _post(address: str, content: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "plumbline-alerts"}
    if settings.ALERT_SECRET:
        headers[SIGNATURE] = f"sha256={signature(content)}"
    try:
        with httpx.stream("POST", address, content=content, headers=headers, timeout=TIMEOUT) as response:
            status = response.status_code  # of the body nothing is read
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotTaken(type(error).__name__) from error
    if not 200 <= status < 300:
        raise NotTaken(f"it answered {status}")


def ping(problem: str = "") -> bool:
    """Tell the dead man's switch of DEAD_MAN_PING that the board works, or what does not; whether it was reached.

    Healthchecks' protocol: a request to the address says that all is well, one to its /fail that it is not. Where
    none comes, as where this process is dead too, whoever keeps the switch tells the operator.
    """
    if not settings.DEAD_MAN_PING:
        return False
    address = settings.DEAD_MAN_PING + ("/fail" if problem else "")
    try:
        httpx.post(address, content=problem.encode(), timeout=TIMEOUT).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        log.warning("the dead man's switch was not reached: %s", type(error).__name__)
        return False
    return True


def signature(content: bytes) -> str:
    """HMAC-SHA256 of a request's body under ALERT_SECRET, in hexadecimal digits."""
    return hmac.new(settings.ALERT_SECRET.encode(), content, hashlib.sha256).hexdigest()


def send_test() -> dict[str, str]:
    """Send a test message to every receiver at once; what went wrong by receiver, empty where nothing did."""
    now = timezone.now()
    incident = Incident(
        kind="test",
        subject="this board",
        summary="This is a test message: alerts of this board arrive here.",
        path="/",
        opened_at=now,
    )
    found = {}
    for receiver in receivers():
        try:
            transmit(receiver, payload(str(uuid4()), "test", incident))
            found[receiver] = ""
        except NotTaken as error:
            found[receiver] = str(error)
    return found
