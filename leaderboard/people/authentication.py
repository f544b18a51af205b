"""Authentication of programs."""

from django.contrib.auth.models import User
from django.http import HttpRequest

from leaderboard.people.services.tokens import TokenRefused, owner_of


def user_of(request: HttpRequest) -> User | None:
    """Return the owner of the token in `Authorization: Bearer plumb_...`; None without such a header.

    Sessions do not count: what they may do needs a form with its CSRF token. Raises TokenRefused, which says why.
    """
    header = request.headers.get("Authorization", "")
    if not header:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise TokenRefused("Send the token as `Authorization: Bearer plumb_...`.")
    return owner_of(secret.strip())
