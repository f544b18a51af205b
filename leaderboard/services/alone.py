"""Doing several things of which each stands alone: one that fails keeps none of the others from being done."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import close_old_connections, connection

T = TypeVar("T")

log = logging.getLogger(__name__)


def each_alone(do: Callable[[T], object], items: Iterable[T]) -> int:
    """Do it with each of the items; returns with how many it failed. What failed is logged, and is tried next time."""
    failed = 0
    for item in items:
        try:
            do(item)
        except Exception:
            log.exception("%s failed with %s: the others go on", getattr(do, "__name__", do), item)
            failed += 1
            if connection.in_atomic_block:
                continue
            close_old_connections()  # the error may be that this one is lost
    return failed
