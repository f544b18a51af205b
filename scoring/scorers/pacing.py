"""Keeping to a service's quota."""

import threading
import time


class Pace:
    """A token bucket that holds one token: requests of all threads start at least 1 / rate seconds apart."""

    def __init__(self, rate: float) -> None:
        """`rate` is in requests a second."""
        self._interval = 1 / rate
        self._free = time.monotonic()
        self._lock = threading.Lock()

    def take(self, stop_event: threading.Event) -> bool:
        """Wait until a request may start; False if `stop_event` was set first."""
        while not stop_event.is_set():
            with self._lock:
                moment = time.monotonic()
                wait = self._free - moment
                if wait <= 0:
                    self._free = moment + self._interval
                    return True
            stop_event.wait(wait)
        return False

    def hold(self, seconds: float) -> None:
        """Let no request start for so long."""
        with self._lock:
            self._free = max(self._free, time.monotonic() + seconds)
