"""A test that takes more than its share of processor time, or far too long, fails, unless it is marked as slow."""

import time

import pytest

from tests import limits

TESTS = """
import subprocess
import sys
import time

import pytest

WORK = "import time\\nwhile time.process_time() < {}: pass"

def work():
    exec(WORK.format(time.process_time() + 1))

def test_quick():
    pass

def test_waits():
    time.sleep(1)

def test_works():
    work()

def test_has_a_process_that_works():
    subprocess.run([sys.executable, "-c", WORK.format(1)], check=True)

@pytest.mark.slow
def test_works_and_says_so():
    work()
"""


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs TESTS under a limit of half a second on a machine that is as many times slower as given."""

    def run(slowness: float, limit: str = "MOST_SECONDS"):
        monkeypatch.setattr(limits, limit, 0.5)
        monkeypatch.setattr(limits, "measure_slowness", lambda _clock: slowness)
        pytester.makeini("[pytest]\nmarkers = slow: takes long")
        pytester.makepyfile(TESTS)
        return pytester.runpytest_inprocess("-p", "tests.limits", "-p", "no:django", "-p", "no:cacheprovider")

    return run


@pytest.mark.slow
def test_only_an_unmarked_test_that_works_too_long_fails(run_tests):
    run = run_tests(slowness=1.0)
    run.assert_outcomes(passed=3, failed=2)
    message = "took * s of processor time, more than 0.5: make it faster or mark it slow"
    run.stdout.fnmatch_lines(["*_ test_works _*", message, "*_ test_has_a_process_that_works _*", message])


@pytest.mark.slow
def test_a_slower_machine_gets_as_much_more_time(run_tests):
    run_tests(slowness=4.0).assert_outcomes(passed=5)


@pytest.mark.slow
def test_an_unmarked_test_that_waits_too_long_fails(run_tests):
    run = run_tests(slowness=1.0, limit="MOST_SECONDS_BY_CLOCK")
    run.assert_outcomes(passed=2, failed=3)
    message = "took * s by the clock, more than 0.5: make it faster or mark it slow"
    run.stdout.fnmatch_lines(["*_ test_waits _*", message])


def test_no_machine_gets_less_time_than_the_limit():
    assert 1 <= limits.measure_slowness(time.process_time) < 100
