"""Wait for a remote answer no longer than the reader of a page waits."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from scoring.language_models import HubUnavailable

T = TypeVar("T")
MOST_AT_ONCE = 8  # threads of this process that may wait for a hub that does not answer
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


def call_within(seconds: float, work: Callable[[], T]) -> T:
    """Return or raise what `work` does. Raises HubUnavailable after `seconds`; `work` then goes on unobserved."""
    if not _places.acquire(timeout=seconds):
        raise HubUnavailable("many are asking the hub at this moment")
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
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
