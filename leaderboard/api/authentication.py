"""Who asks, where an operation needs to know: `@router.post(..., auth=TokenOwner())`, then `request.auth` is a User."""

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import HttpBearer


class TokenOwner(HttpBearer):
    """The owner of the API token that was sent. Sessions do not count."""

    def __call__(self, request: HttpRequest) -> User | None:
        """None, which is answered with 401, where there is no token: `leaderboard.api.front` has read it."""
        owner: User | None = request.token_owner  # type: ignore[attr-defined]
        return owner

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """Unused: the header is read in one place for all of the API."""
        raise NotImplementedError
