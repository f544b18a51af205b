"""Counting the requests of a minute, by who sent them."""

import hashlib
import logging
from ipaddress import IPv6Address, IPv6Network, ip_address
from math import ceil
from time import time

from allauth.account.adapter import get_adapter
from django.core.cache.backends.base import BaseCache
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import HttpRequest

log = logging.getLogger(__name__)

MINUTE = 60
FORGOTTEN = 2 * MINUTE
ONE_NETWORK = 64  # bits of an IPv6 address that one subscriber has; the rest is theirs to change


def count_request(counts: BaseCache, who: str, most: int) -> int:
    """Count a request of `who`; 0 while they are `most` a minute, else the seconds until the next minute begins.

    Where counts cannot be written, as on a full disk, nobody is refused: what is asked for may still be read.
    """
    now = time()
    try:
        number = _count(counts, _key(who, now))
    except OperationalError as error:
        log.warning("a request is not counted: %s", error)
        return 0
    return _rest_of_minute(now) if number > most else 0


def _count(counts: BaseCache, key: str) -> int:
    try:
        return counts.incr(key)
    except ValueError:  # the first of this minute
        return 1 if counts.add(key, 1, FORGOTTEN) else counts.incr(key)


def seconds_left(counts: BaseCache, who: str, most: int) -> int:
    """The same without counting: how long who has had `most` requests in this minute has to wait."""
    now = time()
    return _rest_of_minute(now) if counts.get(_key(who, now), 0) >= most else 0


def _key(who: str, now: float) -> str:
    return f"requests-{hashlib.sha256(who.encode()).hexdigest()[:32]}-{int(now // MINUTE)}"


def _rest_of_minute(now: float) -> int:
    return ceil(MINUTE - now % MINUTE)


def client_address(request: HttpRequest) -> str:
    """Where a request comes from, past the proxies of TRUSTED_PROXIES; of IPv6 the network that one subscriber has.

    All whose address is not known share "unknown".
    """
    try:
        address = ip_address(get_adapter().get_client_ip(request))
    except (PermissionDenied, ValueError):
        return "unknown"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Network((address, ONE_NETWORK), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
