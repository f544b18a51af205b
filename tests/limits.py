"""How long a test may take: ten seconds of processor time, unless it is marked as one that takes longer.

Loaded as a pytest plugin. The processor's time of the test and of the processes that it ran, not the clock's: no test
fails because its machine is busy. What fixtures take is not the test's.
"""

import os
from collections.abc import Generator

import pytest

MOST_SECONDS = 10.0
LONGER = ("slow", "faults", "browser")


def read_processor_seconds() -> float:
    """The processor time of this process so far, and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that took longer than its markers allow."""
    begun = read_processor_seconds()
    outcome = yield
    seconds = read_processor_seconds() - begun
    if seconds > MOST_SECONDS and not any(map(item.get_closest_marker, LONGER)):
        pytest.fail(
            f"took {seconds:.1f} s of processor time, more than {MOST_SECONDS:g}: make it faster or mark it slow",
            pytrace=False,
        )
    return outcome
