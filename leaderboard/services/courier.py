"""Letters leave from one place: a thread in beat, which alone needs the mail server's password.

Pages and tasks put letters into the database. So no page waits for a mail server, how long a page takes does not say
whether there is an account to write to, and a mail server that is away loses no letter.
"""

import logging
import time
from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.db import Error, close_old_connections, connection
from django.db.models import F
from django.utils import timezone

from leaderboard.models import OutgoingLetter
from leaderboard.services.password_resets import write_resets
from leaderboard.services.submissions import letters

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0  # between two looks
IN_WORK = timedelta(minutes=10)  # after that a courier that took a letter is taken for dead
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=6)
MOST_ATTEMPTS = 16  # three days, as long as a link that resets a password is good


def post(recipient: str, subject: str, body: str) -> None:
    """Put a letter into the database, from where it is sent within seconds."""
    OutgoingLetter.objects.create(recipient=recipient, subject=subject[:300], body=body)


def send_due() -> int:
    """Send what is due, each letter once; returns how many went. What went is deleted: it may hold a secret."""
    sent = letters.send_due()
    now = timezone.now()
    OutgoingLetter.objects.filter(attempts__gte=MOST_ATTEMPTS, not_before__lte=now).delete()
    for letter in OutgoingLetter.objects.filter(not_before__lte=now):
        mine = OutgoingLetter.objects.filter(pk=letter.pk, not_before=letter.not_before)
        if not mine.update(not_before=timezone.now() + IN_WORK, attempts=F("attempts") + 1):
            continue  # another courier took it
        try:
            for message in messages_of(letter):
                message.send()
        except (OSError, SMTPException) as error:
            log.error("%s could not be mailed: %s; see EMAIL_URL", letter, type(error).__name__)
            pause = min(FIRST_PAUSE * 2**letter.attempts, LONGEST_PAUSE)
            OutgoingLetter.objects.filter(pk=letter.pk).update(not_before=timezone.now() + pause)
        else:
            OutgoingLetter.objects.filter(pk=letter.pk).delete()
            sent += 1
    return sent


def messages_of(letter: OutgoingLetter) -> list[EmailMessage]:
    """What is sent: the letter, or the one that resets a password, which is written only now."""
    if letter.resets_password:
        return write_resets(letter.recipient)
    return [EmailMessage(letter.subject, letter.body, None, [letter.recipient])]


def keep_sending() -> None:
    """Send what is due, for ever: a thread in beat."""
    while True:
        time.sleep(PAUSE_SECONDS)
        try:
            close_old_connections()
            send_due()
        except Error as error:
            log.warning("letters wait for the database: %s", type(error).__name__)
            connection.close()
