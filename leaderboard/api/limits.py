"""How often a reader may ask: so many requests a minute, counted for all web processes together."""

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache, caches
from django.http import HttpRequest

from leaderboard.counting import client_address, count_request, seconds_left


def seconds_to_wait(request: HttpRequest, owner: User | None) -> int:
    """0, and the request is counted; or how long the owner of the token, or the address it comes from, has to wait.

    Not one of ninja's throttles: these keep the request at hand on an object that all threads share.
    """
    most = settings.API_REQUESTS_A_MINUTE_WITH_TOKEN if owner else settings.API_REQUESTS_A_MINUTE
    return count_request(cache, f"user {owner.pk}" if owner else f"address {client_address(request)}", most)


def seconds_to_wait_before_tokens(request: HttpRequest) -> int:
    """How long an address has to wait that sent too many wrong tokens, whatever it sends now."""
    return seconds_left(caches["visits"], _tokens_of(request), settings.API_REQUESTS_A_MINUTE)


def count_refused_token(request: HttpRequest) -> None:
    """Note that an address sent a token which is not good."""
    count_request(caches["visits"], _tokens_of(request), settings.API_REQUESTS_A_MINUTE)


def _tokens_of(request: HttpRequest) -> str:
    return f"wrong tokens of {client_address(request)}"
