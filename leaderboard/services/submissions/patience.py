"""Waiting for somebody else's answer no longer than a reader of a page does."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from scoring.language_models import HubUnavailable

T = TypeVar("T")
MOST_AT_ONCE = 8  # of this process; more would be threads that wait for a hub that does not answer
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


def within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns or raises. Raises HubUnavailable where that takes longer; it is then left to itself."""
    if not _places.acquire(timeout=seconds):
        raise HubUnavailable("many are asking the hub at this moment")
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            answer.set_exception(error)
        finally:
            _places.release()

    threading.Thread(target=run, name="asking the hub", daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        if answer.done():
            raise
        raise HubUnavailable(f"the hub did not answer within {seconds:g} s") from error
