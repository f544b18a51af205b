"""Keeping to a service's quota, and waiting between tries."""

import secrets
import threading
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_BACKOFF = 60.0  # seconds


class Pace:
    """A token bucket that holds one token: requests of all threads start at least 1 / rate seconds apart."""

    def __init__(self, rate: float) -> None:
        """`rate` is in requests a second."""
        self._interval = 1 / rate
        self._free = time.monotonic()
        self._lock = threading.Lock()

    def take(self, stopped: threading.Event) -> bool:
        """Wait until a request may start; False if `stopped` was set first."""
        while not stopped.is_set():
            with self._lock:
                now = time.monotonic()
                wait = self._free - now
                if wait <= 0:
                    self._free = now + self._interval
                    return True
            stopped.wait(wait)
        return False

    def hold(self, seconds: float) -> None:
        """Let no request start for so long."""
        with self._lock:
            self._free = max(self._free, time.monotonic() + seconds)


def backoff(base: float, tries: int) -> float:
    """Seconds to wait after so many failed tries: twice as long each time, times 0.5 to 1.5 at random.

    Jitter, so that many requests refused together do not come back together.
    """
    return min(base * 2.0 ** (tries - 1), LONGEST_BACKOFF) * (0.5 + secrets.randbelow(1001) / 1000)


def retry_after(header: str | None) -> float:
    """Seconds that a Retry-After header asks for, as a number or as a date; 0 where it asks for nothing."""
    if not header:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
