"""Letters to submitters: sent by the courier, once each, as soon as the mail server takes them."""

import logging
from datetime import timedelta
from smtplib import SMTPException

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.db.models import F
from django.template.loader import render_to_string
from django.utils import timezone

from leaderboard.models import Letter, Preferences, Submission
from leaderboard.services.places import places_of
from leaderboard.services.submissions.evaluations import Step, evaluations

log = logging.getLogger(__name__)

IN_WORK = timedelta(minutes=10)  # after that a courier that took a letter is taken for dead
FIRST_PAUSE = timedelta(minutes=1)  # doubles with every attempt
LONGEST_PAUSE = timedelta(hours=6)
MOST_ATTEMPTS = 16  # three days
SUBJECTS = {
    Submission.State.ACCEPTED: "accepted: {name}",
    Submission.State.REFUSED: "refused: {name}",
    Submission.State.RETURNED: "changes are asked for: {name}",
    Submission.State.RANKED: "ranked: {name}",
    Submission.State.FAILED: "failed: {name}",
}


def wants_letters(user: User) -> bool:
    """Whether somebody wants to be written to; most do."""
    return not Preferences.objects.filter(user=user, letters=False).exists()


def choose_letters(user: User, wanted: bool) -> None:
    """Keep whether somebody wants to be written to."""
    Preferences.objects.update_or_create(user=user, defaults={"letters": wanted})


def send_due() -> int:
    """Send the letters that are due, each once; returns how many went. A mail server that is away costs time only."""
    sent = 0
    due = Letter.objects.filter(sent_at=None, not_before__lte=timezone.now(), attempts__lt=MOST_ATTEMPTS)
    for letter in due.select_related("submission__submitter", "submission__model"):
        now = timezone.now()
        mine = Letter.objects.filter(pk=letter.pk, sent_at=None, not_before=letter.not_before)
        if not mine.update(not_before=now + IN_WORK, attempts=F("attempts") + 1):
            continue  # another courier took it
        try:
            sent += _send(letter)
        except (OSError, SMTPException) as error:
            pause = min(FIRST_PAUSE * 2**letter.attempts, LONGEST_PAUSE)
            log.error("%s could not be mailed: %s; see EMAIL_URL", letter, type(error).__name__)
            Letter.objects.filter(pk=letter.pk).update(not_before=timezone.now() + pause)
        else:
            Letter.objects.filter(pk=letter.pk).update(sent_at=timezone.now())
    return sent


def _send(letter: Letter) -> int:
    submission, user = letter.submission, letter.submission.submitter
    address = EmailAddress.objects.filter(user=user, verified=True).order_by("-primary").first()
    if address is None or not user.is_active or not wants_letters(user):
        return 0
    name = " ".join(submission.name.split())
    found = evaluations([submission])[submission.pk] if submission.model else []
    versions = [one.scoring.metric_version for one in found if one.scoring and one.step == Step.RANKED]
    context = {
        "name": name,
        "user": user,
        "news": letter.news,
        "submission": submission,
        "places": list(places_of(submission.model, versions).values()) if submission.model else [],
        "site": settings.SITE_URL,
    }
    subject = "Plumbline: " + SUBJECTS[Submission.State(letter.news)].format(name=name[:100])
    text = render_to_string("submissions/letter.txt", context)
    return EmailMessage(subject, text.strip() + "\n", None, [address.email]).send()
