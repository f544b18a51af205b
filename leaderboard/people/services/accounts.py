"""How open the board is, and what an account may do."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore

from leaderboard.people.services.roles import SUBMIT


def needs_invitation() -> bool:
    """Whether people need an invitation to sign up."""
    return bool(settings.BOARD_ACCESS == "invited")


def submissions_are_moderated() -> bool:
    """Whether every submission waits for a moderator before its work begins."""
    return bool(settings.BOARD_ACCESS == "moderated")


def is_confirmed(user: User) -> bool:
    """Whether an e-mail address of the account is confirmed.

    Whoever has the board's terminal vouches for the staff that `createsuperuser` makes there.
    """
    return user.is_staff or EmailAddress.objects.filter(user=user, verified=True).exists()


def may_submit(user: User | AnonymousUser) -> bool:
    """Whether the user may submit models: signed in, with a confirmed address and a role that allows it."""
    return user.is_active and user.has_perm(SUBMIT) and isinstance(user, User) and is_confirmed(user)


def forget_expired_sessions() -> None:
    """Delete the sessions that are over, which Django keeps for ever."""
    SessionStore.clear_expired()
