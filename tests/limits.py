"""How long a test may take: ten seconds of processor time and a minute, unless it is marked as one that takes longer.

Loaded as a pytest plugin. The processor's time is that of the test and of the processes that it ran; the minute by the
clock is far more than that, so that a test that waits is noticed. Both are longer on a machine that is slower, or that
others share, by as much as a small sum takes longer there after the test. What fixtures take is not the test's.
"""

import os
import time
from collections.abc import Callable, Generator

import pytest

MOST_SECONDS = 10.0
MOST_SECONDS_BY_CLOCK = 60.0
SUM_SECONDS = 0.04  # what measure_slowness adds up takes this long on two cores that nobody shares
LONGER = ("slow", "faults", "browser")


def measure_slowness(clock: Callable[[], float]) -> float:
    """How many times as long this machine takes for a small sum, now, as the one that limits are meant for; >= 1."""
    begun = clock()
    sum(range(2_000_000))
    return max(1.0, (clock() - begun) / SUM_SECONDS)


def read_processor_seconds() -> float:
    """The processor time of this process so far, and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that took longer than its markers allow."""
    begun, begun_by_clock = read_processor_seconds(), time.monotonic()
    outcome = yield
    seconds, seconds_by_clock = read_processor_seconds() - begun, time.monotonic() - begun_by_clock
    if not any(map(item.get_closest_marker, LONGER)):
        fail_beyond(MOST_SECONDS, seconds, time.process_time, "of processor time")
        fail_beyond(MOST_SECONDS_BY_CLOCK, seconds_by_clock, time.perf_counter, "by the clock")
    return outcome


def fail_beyond(most: float, seconds: float, clock: Callable[[], float], by: str) -> None:
    """Fail the test that took `seconds` by a clock, if that is more than `most` on this machine."""
    if seconds <= most:
        return
    limit = most * measure_slowness(clock)
    if seconds > limit:
        pytest.fail(f"took {seconds:.1f} s {by}, more than {limit:.3g}: make it faster or mark it slow", pytrace=False)
