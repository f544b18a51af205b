"""API tokens: made for their owner, shown once, looked up by their hash, revoked."""

import logging
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard.models import ApiToken, AuditVerb
from leaderboard.people.services.accounts import is_confirmed
from leaderboard.people.services.credentials import digest, new_secret
from leaderboard.people.services.roles import MAKE_TOKENS
from leaderboard.services.audit import record
from scoring.refusals import Refused

log = logging.getLogger(__name__)

PREFIX = "plumb_"
MOST_TOKENS = 20
USED_WITHIN = timedelta(hours=1)  # how coarse the last use is: one write an hour, and no diary of a person's work


class TokenRefused(Refused):
    """The token identifies nobody; the message says why."""


@transaction.atomic
def make_token(owner: User, name: str, days: int | None = None) -> tuple[ApiToken, str]:
    """Make a token of `owner`; returns it and its secret, which is not stored and cannot be shown again.

    days: until it expires; None: never. Raises Refused.
    """
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)  # or two at once would both be the last
    if not owner.has_perm(MAKE_TOKENS):
        raise Refused("Your role does not include API tokens: ask the operators of this board.")
    if not is_confirmed(owner):
        raise Refused("Confirm your e-mail address first.")
    if owner.api_tokens.live().count() >= MOST_TOKENS:
        raise Refused(f"You have {MOST_TOKENS} live tokens, the maximum: revoke one first.")
    secret = new_secret(PREFIX)
    token = ApiToken.objects.create(
        owner=owner,
        name=name,
        token_hash=digest(secret),
        last_four=secret[-4:],
        expires_at=timezone.now() + timedelta(days=days) if days else None,
    )
    expires_at = token.expires_at.isoformat(timespec="seconds") if token.expires_at else None
    record(AuditVerb.MAKE_API_TOKEN, f"API token {token.pk}", {"name": name, "expires_at": expires_at}, owner)
    return token, secret


@transaction.atomic
def revoke_token(pk: int, owner: User) -> bool:
    """Revoke a token of `owner`. False if there was nothing to revoke."""
    count = ApiToken.objects.filter(pk=pk, owner=owner, revoked_at=None).update(revoked_at=timezone.now())
    if count:
        record(AuditVerb.REVOKE_API_TOKEN, f"API token {pk}", {}, owner)
    return bool(count)


@transaction.atomic
def revoke_all_tokens(owner: User) -> None:
    """Revoke every token of `owner`: whoever resets a password may have lost the tokens to somebody too."""
    for token in owner.api_tokens.filter(revoked_at=None):
        revoke_token(token.pk, owner)


def owner_of(secret: str) -> User:
    """Return the owner of a token. Raises TokenRefused.

    The lookup compares hashes, so how long it takes says nothing about any secret.
    """
    token = ApiToken.objects.select_related("owner").filter(token_hash=digest(secret)).first()
    moment = timezone.now()
    if token is None:
        raise TokenRefused("This API token does not exist. Make one at /accounts/tokens/.")
    if token.revoked_at:
        raise TokenRefused("This API token has been revoked.")
    if token.has_expired(moment):
        raise TokenRefused("This API token has expired.")
    if not token.owner.is_active or not is_confirmed(token.owner):
        raise TokenRefused("The account of this API token is not active, or its e-mail address is not confirmed.")
    note_use(token, moment)
    return token.owner


def note_use(token: ApiToken, moment: datetime) -> None:
    """Save when a token was last used, to the hour. If the database refuses, the token is still good."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    tokens = ApiToken.objects.filter(Q(last_used_at=None) | Q(last_used_at__lte=moment - USED_WITHIN), pk=token.pk)
    try:
        tokens.update(last_used_at=hour)
    except OperationalError as error:
        log.warning("the use of %s is not noted: %s", token, error)
