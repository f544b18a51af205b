"""How often a reader may ask: so many requests a minute, counted for all web processes together."""

import hashlib
from math import ceil
from time import time

from allauth.account.adapter import get_adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

MINUTE = 60
FORGOTTEN = 2 * MINUTE


def seconds_to_wait(request: HttpRequest, owner: User | None) -> int:
    """0, and the request is counted; or how long the owner of the token, or the address it comes from, has to wait.

    Not one of ninja's throttles: these keep the request at hand on an object that all threads share.
    """
    most = settings.API_REQUESTS_A_MINUTE_WITH_TOKEN if owner else settings.API_REQUESTS_A_MINUTE
    now = time()
    who = f"user {owner.pk}" if owner else f"address {address_of(request)}"
    key = f"api-{hashlib.sha256(who.encode()).hexdigest()[:32]}-{int(now // MINUTE)}"
    if cache.get(key, 0) >= most:
        return ceil(MINUTE - now % MINUTE)
    if not cache.add(key, 1, FORGOTTEN):
        cache.incr(key)
    return 0


def address_of(request: HttpRequest) -> str:
    """Where a request comes from, past the proxies that are trusted; all of whom that is not known share one."""
    try:
        return str(get_adapter().get_client_ip(request))
    except PermissionDenied:
        return "unknown"
