"""News of submissions: letters that are written when they are sent, from what the submission is then."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from leaderboard.models import OutboxMessage, Preferences, Submission
from leaderboard.rankings.places import places_of
from leaderboard.services.outbox import Sender
from leaderboard.submissions.services.evaluations import EvaluationStep, evaluations, is_without_rank

SUBJECTS = {
    Submission.State.ACCEPTED: "accepted: {name}",
    Submission.State.REFUSED: "refused: {name}",
    Submission.State.RETURNED: "changes are asked for: {name}",
    Submission.State.RANKED: "ranked: {name}",
    Submission.State.FAILED: "failed: {name}",
}
UNRANKED = "shown without a rank: {name}"


def wants_letters(user: User) -> bool:
    """Whether somebody wants to be written to; most do."""
    return not Preferences.objects.filter(user=user, letters=False).exists()


def choose_letters(user: User, wants: bool) -> None:
    """Keep whether somebody wants to be written to."""
    Preferences.objects.update_or_create(user=user, defaults={"letters": wants})


def send_news(message: OutboxMessage) -> bool:
    """Write to the submitter, if one with a confirmed address wants it. Raises OSError, SMTPException."""
    submission = Submission.objects.select_related("submitter", "model").get(messages=message)
    user = submission.submitter
    address = EmailAddress.objects.filter(user=user, verified=True).order_by("-primary").first()
    if address is None or not user.is_active or not wants_letters(user):
        return False
    name = " ".join(submission.name.split())
    submission_evaluations = evaluations([submission])[submission.pk] if submission.model else []
    versions = [
        one.scoring.metric_version
        for one in submission_evaluations
        if one.scoring and one.step == EvaluationStep.RANKED
    ]
    unranked_scorings = [one.scoring for one in submission_evaluations if one.why_unranked]
    is_unranked = message.event == Submission.State.RANKED and is_without_rank(submission_evaluations)
    context = {
        "name": name,
        "user": user,
        "news": message.event,
        "submission": submission,
        "places": list(places_of(submission.model, versions).values()) if submission.model else [],
        "unranked_scorings": unranked_scorings,
        "is_unranked": is_unranked,
        "site": settings.SITE_URL,
    }
    subject = UNRANKED if is_unranked else SUBJECTS[Submission.State(message.event)]
    text = render_to_string("submissions/letter.txt", context)
    subject = "Plumbline: " + subject.format(name=name[:100])
    return bool(EmailMessage(subject, text.strip() + "\n", None, [address.email]).send())


NEWS = Sender(OutboxMessage.Kind.NEWS, send_news)
