"""Messages leave from one place: a thread in beat, which alone needs the mail server's password.

Pages and tasks put messages into the database. So no page waits for a mail server, how long a page takes does not say
whether there is an account to write to, and a receiver that is away loses no message.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.db import Error, close_old_connections, connection
from django.db.models import Case, F, Q, When
from django.db.models.functions import Now

from leaderboard.models import OutboxMessage
from leaderboard.models.clock import from_now

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0  # between two rounds
ROUND_SECONDS = 30.0  # after which a round leaves the rest to the next one
KEPT_FOR = timedelta(days=90)  # after a message was sent or given up


class NotTaken(Exception):
    """The receiver did not take the message; the text says why, without its address."""


class ReceiverGone(NotTaken):
    """Nobody will ever take the message."""


@dataclass(frozen=True)
class Sender:
    """How messages of one kind are sent, and when they are tried again: after pauses that double up to the longest.

    send: writes and sends a message; says whether there was anything to send. Raises NotTaken, OSError, SMTPException.
    is_secret: the row goes once the message was sent or given up, for it may hold a link that lets one in.
    lease: after which whoever took the message is taken for dead.
    """

    kind: str
    send: Callable[[OutboxMessage], bool]
    is_secret: bool = False
    lease: timedelta = timedelta(minutes=10)
    first_pause: timedelta = timedelta(minutes=1)
    longest_pause: timedelta = timedelta(hours=6)
    most_attempts: int = 16  # two days, less than a link that resets a password is good


def post(recipient: str, subject: str, body: str) -> None:
    """Put a letter into the database, from where it is sent within seconds."""
    OutboxMessage.objects.create(kind=OutboxMessage.Kind.LETTER, recipient=recipient, subject=subject[:300], body=body)


def send_letter(message: OutboxMessage) -> bool:
    """Send a letter that was written when it was posted."""
    return bool(EmailMessage(message.subject, message.body, None, [message.recipient]).send())


LETTERS = Sender(OutboxMessage.Kind.LETTER, send_letter, is_secret=True)


def send_due(senders: Iterable[Sender]) -> int:
    """Send what is due of the senders' kinds until the round took long enough; returns how many went.

    Alerts go first, for a mail server that hangs keeps letters for hours; then what is oldest.
    """
    senders_by_kind = {sender.kind: sender for sender in senders}
    ends, count = time.monotonic() + ROUND_SECONDS, 0
    place = Case(When(kind=OutboxMessage.Kind.ALERT, then=0), default=1)
    due_messages = OutboxMessage.objects.due().filter(kind__in=senders_by_kind)
    for message in due_messages.order_by(place, "created_at", "event"):
        if time.monotonic() > ends:
            break
        count += attempt(message, senders_by_kind[message.kind])
    return count


def attempt(message: OutboxMessage, sender: Sender) -> bool:
    """Send one message, unless somebody else does; says whether it went. Who dies on the way leaves it to the next."""
    messages = OutboxMessage.objects.waiting().filter(pk=message.pk)
    lease_end = from_now(sender.lease.total_seconds())
    if not messages.filter(attempts=message.attempts).update(not_before=lease_end, attempts=F("attempts") + 1):
        return False
    attempts = message.attempts + 1
    problem, is_last, was_sent = "", attempts >= sender.most_attempts, False
    try:
        if attempts > sender.most_attempts:
            raise ReceiverGone("every attempt failed")
        was_sent = sender.send(message)
    except NotTaken as error:
        problem, is_last = str(error), is_last or isinstance(error, ReceiverGone)
        log.warning("a receiver did not take a message (%s): %s", message, problem)
    except (OSError, SMTPException) as error:
        problem = f"the mail server: {type(error).__name__}"
        log.error("%s could not be mailed: %s; see EMAIL_URL", message, type(error).__name__)
    if problem and not is_last:
        pause = min(sender.first_pause * 2 ** min(attempts - 1, 10), sender.longest_pause)
        messages.update(not_before=from_now(pause.total_seconds()), error=problem[:200])
    elif sender.is_secret:
        messages.delete()
    else:
        messages.update(**{"given_up_at" if problem else "sent_at": Now()}, error=problem[:200])
    return was_sent


def forget_old_messages() -> None:
    """Delete what was sent, or given up, so long ago that nobody asks any more whether it was."""
    end = from_now(-KEPT_FOR.total_seconds())
    OutboxMessage.objects.filter(Q(sent_at__lt=end) | Q(given_up_at__lt=end)).delete()


def keep_sending(senders: Iterable[Sender]) -> None:
    """Send what is due, for ever: a thread in beat."""
    while True:
        time.sleep(PAUSE_SECONDS)
        try:
            close_old_connections()
            send_due(senders)
        except Error as error:
            log.warning("messages wait for the database: %s", type(error).__name__)
            connection.close()
        except Exception:
            log.exception("sending messages failed: it is tried again")
