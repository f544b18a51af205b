"""Independent tasks: a failure of one does not stop the others."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import close_old_connections, connection

T = TypeVar("T")

log = logging.getLogger(__name__)


def each_alone(do: Callable[[T], object], items: Iterable[T]) -> int:
    """Call `do` with each item and log what fails; returns the number of failures. The next call tries them again."""
    failures = 0
    for item in items:
        try:
            do(item)
        except Exception:
            log.exception("%s failed with %s: the others go on", getattr(do, "__name__", do), item)
            failures += 1
            if connection.in_atomic_block:
                continue
            close_old_connections()  # the error may be that this one is lost
    return failures
