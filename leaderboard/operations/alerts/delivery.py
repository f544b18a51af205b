"""Sending messages about incidents: to webhooks and by e-mail."""

import hashlib
import hmac
import json
import logging
import smtplib
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from leaderboard.models import Incident, OutboxMessage
from leaderboard.services.outbox import NotTaken, ReceiverGone, Sender

log = logging.getLogger(__name__)

FORMAT = 1
SIGNATURE = "X-Plumbline-Signature"
EMAIL = "e-mail"
TIMEOUT = httpx.Timeout(10.0, connect=5.0)


def receivers() -> dict[str, str]:
    """The receivers, each by a name that gives no address away: every webhook, and all of ALERT_EMAIL together."""
    addresses = {f"webhook {hashlib.sha256(url.encode()).hexdigest()[:12]}": url for url in settings.ALERT_WEBHOOK}
    return addresses | ({EMAIL: ", ".join(settings.ALERT_EMAIL)} if settings.ALERT_EMAIL else {})


def send_alert(message: OutboxMessage) -> bool:
    """Tell one receiver of one incident. Raises NotTaken."""
    if message.recipient not in receivers():
        raise ReceiverGone("the settings do not name this receiver any more")
    transmit(message.recipient, payload(str(message.pk), message.event, Incident.objects.get(messages=message)))
    return True


ALERTS = Sender(
    OutboxMessage.Kind.ALERT,
    send_alert,
    lease=timedelta(seconds=60),
    first_pause=timedelta(seconds=30),
    longest_pause=timedelta(hours=1),
    most_attempts=60,  # two days
)


def payload(message: str, event: str, incident: Incident) -> dict[str, Any]:
    """The body of a webhook's request; deploy/README.md says what it means."""
    board = settings.SITE_URL
    is_over = event == OutboxMessage.Event.RESOLVED
    return {
        "plumbline_alert": FORMAT,
        "id": message,
        "event": event,
        "sent_at": timezone.now().isoformat(timespec="seconds"),
        "board": board,
        "text": f"[Plumbline] {'Over: ' if is_over else ''}{incident.summary}",
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
    subject = " ".join(body["text"].split())  # a summary quotes reasons and errors, and a header is one line
    try:
        send_mail(subject[:200], "\n".join(lines), None, settings.ALERT_EMAIL)
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
    problems = {}
    for receiver in receivers():
        try:
            transmit(receiver, payload(str(uuid4()), "test", incident))
            problems[receiver] = ""
        except NotTaken as error:
            problems[receiver] = str(error)
    return problems
