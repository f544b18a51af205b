"""How long a test may take: ten seconds of processor time, unless it is marked as one that takes longer.

Loaded as a pytest plugin. The processor's time of the test and of the processes that it ran, not the clock's: no test
fails because its machine is busy; and more of it on a machine that is slower, or that others share, by as much as a
small sum takes longer there. What fixtures take is not the test's.
"""

import os
import time
from collections.abc import Callable, Generator

import pytest

MOST_SECONDS = 10.0
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
    begun = read_processor_seconds()
    outcome = yield
    seconds = read_processor_seconds() - begun
    if seconds <= MOST_SECONDS or any(map(item.get_closest_marker, LONGER)):
        return outcome
    most = MOST_SECONDS * measure_slowness(time.process_time)
    if seconds > most:
        pytest.fail(
            f"took {seconds:.1f} s of processor time, more than {most:.3g}: make it faster or mark it slow",
            pytrace=False,
        )
    return outcome
