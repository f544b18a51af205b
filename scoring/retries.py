"""Retries of calls that fail temporarily: how many, and how long to wait between them."""

import secrets
import threading
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tenacity import RetryCallState, Retrying, retry_if_exception_type, sleep_using_event, stop_after_attempt

LONGEST_BACKOFF = 60.0  # seconds


def with_retries(
    tries: int,
    base: float,
    passing_errors: tuple[type[Exception], ...],
    longest: float = LONGEST_BACKOFF,
    stop_event: threading.Event | None = None,
) -> Retrying:
    """A caller that tries a function up to `tries` times while it raises one of `passing_errors`, then raises the last.

    Between tries it waits as long as `backoff` says, or for the seconds in the error's attribute `wait` if these are
    more, but at most for `longest`. `stop_event` ends the wait; the function then decides whether to go on.
    """

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return min(max(getattr(error, "wait", 0.0), backoff(base, state.attempt_number)), longest)

    return Retrying(
        stop=stop_after_attempt(tries),
        wait=wait,
        retry=retry_if_exception_type(passing_errors),
        sleep=sleep_using_event(stop_event or threading.Event()),
        reraise=True,
    )


def backoff(base: float, tries: int) -> float:
    """Seconds to wait after so many failed tries: twice as long each time, times 0.5 to 1.5 at random.

    The jitter keeps requests that fail together from returning together.
    """
    return min(base * 2.0 ** (tries - 1), LONGEST_BACKOFF) * (0.5 + secrets.randbelow(1001) / 1000)


def retry_after(header: str | None) -> float:
    """The seconds that a Retry-After header asks for, as a number or a date; 0 without a valid header."""
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
