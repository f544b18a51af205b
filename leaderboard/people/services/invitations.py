"""Invitations: links with which one person can sign up once."""

from datetime import timedelta
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import AuditVerb, Invitation
from leaderboard.people.services.credentials import digest, new_secret
from leaderboard.services.audit import record
from leaderboard.services.outbox import post
from scoring.refusals import Refused

DAYS = 14
MOST_DAYS = 365


@transaction.atomic
def invite(site: str, email: str = "", days: int = DAYS, inviter: User | None = None) -> tuple[Invitation, str]:
    """Make an invitation; returns it and its link, which is not stored and cannot be shown again.

    site: the address of the board, as in https://board.example.org. email: the only one it is good for; empty: any.
    Raises Refused.
    """
    if not 1 <= days <= MOST_DAYS:
        raise Refused(f"days = {days}: use a number from 1 to {MOST_DAYS}")
    if email:
        try:
            validate_email(email)
        except ValidationError as error:
            raise Refused.of_value("email", email, "use an address such as ada@example.org, or none") from error
    token = new_secret("invitation_")
    invitation = Invitation.objects.create(
        email=email.lower(),
        token_hash=digest(token),
        invited_by=inviter,
        expires_at=timezone.now() + timedelta(days=days),
    )
    detail = {"email": invitation.email, "expires_at": invitation.expires_at.isoformat(timespec="seconds")}
    record(AuditVerb.INVITE, str(invitation), detail, inviter)
    return invitation, f"{site.rstrip('/')}{reverse('account_signup')}?{urlencode({'invitation': token})}"


def send_invitation(invitation: Invitation, link: str) -> None:
    """Mail an invitation to its address."""
    text = render_to_string("account/email/invitation_message.txt", {"invitation": invitation, "link": link})
    post(invitation.email, "Plumbline: you are invited", text.strip() + "\n")


def find_invitation(token: str) -> Invitation | None:
    """Return the invitation of a link, if somebody may still sign up with it."""
    return Invitation.objects.open().filter(token_hash=digest(token)).first()


def use_invitation(pk: int, user: User) -> None:
    """Use up the invitation for `user`. In the transaction that makes the user.

    Raises Refused: of several at once one comes in.
    """
    for_them = Invitation.objects.open().filter(Q(email="") | Q(email__iexact=user.email), pk=pk)
    if not for_them.update(used_at=timezone.now(), used_by=user):
        raise Refused("This invitation has been used, was withdrawn, or is for another e-mail address.")
    record(AuditVerb.USE_INVITATION, f"invitation {pk}", {}, user)


@transaction.atomic
def revoke_invitation(pk: int, operator: User | None = None) -> bool:
    """Revoke an open invitation. False if there was nothing to revoke."""
    count = Invitation.objects.open().filter(pk=pk).update(revoked_at=timezone.now())
    if count:
        record(AuditVerb.REVOKE_INVITATION, f"invitation {pk}", {}, operator, ({"state": "Open"}, {"state": "Revoked"}))
    return bool(count)
