"""API tokens: made for their owner, shown once, looked up by their hash, revoked."""

import logging
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard.models import ApiToken
from leaderboard.services.accounts import is_confirmed
from leaderboard.services.audit import record
from leaderboard.services.credentials import digest, new_secret
from leaderboard.services.roles import MAKE_TOKENS

log = logging.getLogger(__name__)

PREFIX = "plumb_"
MOST_TOKENS = 20
USED_WITHIN = timedelta(hours=1)  # how coarse the last use is: one write an hour, and no diary of a person's work


class CannotMakeToken(ValueError):
    """This account gets no token; says why and what to do."""


class TokenRefused(Exception):
    """Nobody can be known by this token; says why."""


@transaction.atomic
def make_token(owner: User, name: str, days: int | None = None) -> tuple[ApiToken, str]:
    """A token of `owner`, and its secret, which is not kept and cannot be had again.

    days: until it expires; None: never. Raises CannotMakeToken.
    """
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)  # or two at once would both be the last
    if not owner.has_perm(MAKE_TOKENS):
        raise CannotMakeToken("Your role does not include API tokens: ask the operators of this board.")
    if not is_confirmed(owner):
        raise CannotMakeToken("Confirm your e-mail address first.")
    if owner.api_tokens.live().count() >= MOST_TOKENS:
        raise CannotMakeToken(f"You have {MOST_TOKENS} live tokens, the most there can be: revoke one first.")
    secret = new_secret(PREFIX)
    token = ApiToken.objects.create(
        owner=owner,
        name=name,
        token_hash=digest(secret),
        last_four=secret[-4:],
        expires_at=timezone.now() + timedelta(days=days) if days else None,
    )
    expires_at = token.expires_at.isoformat(timespec="seconds") if token.expires_at else None
    record("make API token", f"API token {token.pk}", {"name": name, "expires_at": expires_at}, owner)
    return token, secret


@transaction.atomic
def revoke_token(pk: int, owner: User) -> bool:
    """Nobody is known by this token of `owner` any more. False where there was nothing to revoke."""
    revoked = ApiToken.objects.filter(pk=pk, owner=owner, revoked_at=None).update(revoked_at=timezone.now())
    if revoked:
        record("revoke API token", f"API token {pk}", {}, owner)
    return bool(revoked)


def owner_of(secret: str) -> User:
    """Whose token this is. Raises TokenRefused.

    The lookup compares hashes, so how long it takes says nothing about any secret.
    """
    token = ApiToken.objects.select_related("owner").filter(token_hash=digest(secret)).first()
    now = timezone.now()
    if token is None:
        raise TokenRefused("There is no such API token. Make one at /accounts/tokens/.")
    if token.revoked_at:
        raise TokenRefused("This API token has been revoked.")
    if token.has_expired(now):
        raise TokenRefused("This API token has expired.")
    if not token.owner.is_active or not is_confirmed(token.owner):
        raise TokenRefused("The account of this API token is not active, or its e-mail address is not confirmed.")
    note_use(token, now)
    return token.owner


def note_use(token: ApiToken, now: datetime) -> None:
    """Remember when a token was last used, to the hour. Where nothing can be written it may read all the same."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    unnoted = ApiToken.objects.filter(Q(last_used_at=None) | Q(last_used_at__lte=now - USED_WITHIN), pk=token.pk)
    try:
        unnoted.update(last_used_at=hour)
    except OperationalError as error:
        log.warning("the use of %s is not noted: %s", token, error)
