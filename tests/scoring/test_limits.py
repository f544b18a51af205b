"""A test that takes more than its share of the processor fails, unless it is marked as one that does."""

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


@pytest.mark.slow
def test_only_an_unmarked_test_that_works_too_long_fails(pytester: pytest.Pytester):
    pytester.makeini("[pytest]\nmarkers = slow: takes long")
    pytester.makepyfile(TESTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_SECONDS", 0.5)
        run = pytester.runpytest_inprocess("-p", "tests.limits", "-p", "no:django", "-p", "no:cacheprovider")
    run.assert_outcomes(passed=3, failed=2)
    message = "took * s of processor time, more than 0.5: make it faster or mark it slow"
    run.stdout.fnmatch_lines(["*_ test_works _*", message, "*_ test_has_a_process_that_works _*", message])
