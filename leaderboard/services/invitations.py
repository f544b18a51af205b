"""Asking people in: an invitation is a link that one person can sign up with once."""

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

from leaderboard.models import Invitation
from leaderboard.services.audit import record
from leaderboard.services.courier import post
from leaderboard.services.credentials import digest, new_secret

DAYS = 14
MOST_DAYS = 365


class CannotInvite(ValueError):
    """What was asked for makes no invitation; says which field and what to do."""


class InvitationSpent(Exception):
    """Somebody else was first, it was revoked or has expired, or it is for another address."""


@transaction.atomic
def invite(site: str, email: str = "", days: int = DAYS, by: User | None = None) -> tuple[Invitation, str]:
    """An invitation, and the link to send, which is not kept and cannot be had again.

    site: the address of the board, as in https://board.example.org. email: the only one it is good for; empty: any.
    Raises CannotInvite.
    """
    if not 1 <= days <= MOST_DAYS:
        raise CannotInvite(f"days = {days}: use a number from 1 to {MOST_DAYS}")
    if email:
        try:
            validate_email(email)
        except ValidationError as error:
            raise CannotInvite(f"email = {email!r}: use an address such as ada@example.org, or none") from error
    token = new_secret("invitation_")
    invitation = Invitation.objects.create(
        email=email.lower(), token_hash=digest(token), invited_by=by, expires_at=timezone.now() + timedelta(days=days)
    )
    detail = {"email": invitation.email, "expires_at": invitation.expires_at.isoformat(timespec="seconds")}
    record("invite", str(invitation), detail, by)
    return invitation, f"{site.rstrip('/')}{reverse('account_signup')}?{urlencode({'invitation': token})}"


def send_invitation(invitation: Invitation, link: str) -> None:
    """Mail an invitation to the address it is for."""
    text = render_to_string("account/email/invitation_message.txt", {"invitation": invitation, "link": link})
    post(invitation.email, "Plumbline: you are invited", text.strip() + "\n")


def find_invitation(token: str) -> Invitation | None:
    """The invitation of a link, as long as somebody may sign up with it."""
    return Invitation.objects.open().filter(token_hash=digest(token)).first()


def use_invitation(pk: int, user: User) -> None:
    """Let `user` be the one person who signs up with it. In the transaction that makes the user.

    Raises InvitationSpent: of several at once one comes in.
    """
    for_them = Invitation.objects.open().filter(Q(email="") | Q(email__iexact=user.email), pk=pk)
    if not for_them.update(used_at=timezone.now(), used_by=user):
        raise InvitationSpent("This invitation has been used, was withdrawn, or is for another e-mail address.")
    record("use invitation", f"invitation {pk}", {}, user)


@transaction.atomic
def revoke_invitation(pk: int, by: User | None = None) -> bool:
    """Nobody signs up with it any more. False where there was nothing to revoke."""
    revoked = Invitation.objects.open().filter(pk=pk).update(revoked_at=timezone.now())
    if revoked:
        record("revoke invitation", f"invitation {pk}", {}, by, ({"state": "Open"}, {"state": "Revoked"}))
    return bool(revoked)
