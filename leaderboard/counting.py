"""Count the requests of each client in a minute."""

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


def count_request(counts: BaseCache, client: str, most: int) -> int:
    """Count a request of `client`; returns 0 up to `most` a minute, else the seconds until the next minute.

    Where counts cannot be written, as on a full disk, nobody is refused: what is asked for may still be read.
    """
    seconds = time()
    try:
        number = _count(counts, _key(client, seconds))
    except OperationalError as error:
        log.warning("a request is not counted: %s", error)
        return 0
    return _rest_of_minute(seconds) if number > most else 0


def _count(counts: BaseCache, key: str) -> int:
    try:
        return counts.incr(key)
    except ValueError:  # the first of this minute
        return 1 if counts.add(key, 1, FORGOTTEN) else counts.incr(key)


def seconds_left(counts: BaseCache, client: str, most: int) -> int:
    """Return the same without counting the request."""
    seconds = time()
    return _rest_of_minute(seconds) if counts.get(_key(client, seconds), 0) >= most else 0


def _key(client: str, seconds: float) -> str:
    return f"requests-{hashlib.sha256(client.encode()).hexdigest()[:32]}-{int(seconds // MINUTE)}"


def _rest_of_minute(seconds: float) -> int:
    return ceil(MINUTE - seconds % MINUTE)


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
