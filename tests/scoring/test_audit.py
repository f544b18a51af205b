"""The audit of `make lint`: a vulnerability fails it, and what could not be asked about is never called safe."""

import json

from tests.audit import describe_audit

SAFE = {"name": "numpy", "version": "2.4.0", "vulns": []}
VULNERABLE = {"name": "httpx", "version": "0.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["0.2", "0.3"]}]}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI and could not be audited: torch (2.13.0)"}


def describe(*packages: dict) -> tuple[list[str], bool]:
    return describe_audit(json.dumps({"dependencies": packages, "fixes": []}), "")


def test_a_lock_without_known_vulnerabilities_passes():
    assert describe(SAFE) == (["1 of 1 packages audited, 0 vulnerabilities"], True)


def test_a_vulnerability_fails_and_is_named_with_what_mends_it():
    lines = ["httpx 0.1: PYSEC-1, mended in ['0.2', '0.3']", "2 of 2 packages audited, 1 vulnerabilities"]
    assert describe(SAFE, VULNERABLE) == (lines, False)


def test_what_the_service_does_not_know_is_said_and_fails_nothing():
    lines, passed = describe(SAFE, SKIPPED)
    assert passed
    assert "1 of 2 packages audited, 0 vulnerabilities" in lines[0]
    assert "NOT AUDITED: the service knows nothing of 1 packages (torch)" in lines[0]


def test_a_service_that_cannot_be_reached_is_said_and_fails_nothing():
    lines, passed = describe_audit("", "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='audit.example')")
    assert passed
    assert lines == ["NOT AUDITED: the service that knows of vulnerabilities cannot be reached from here"]


def test_any_other_end_without_an_answer_fails():
    lines, passed = describe_audit("", "ERROR:pip_audit._cli:invalid requirements input: absent.lock")
    assert not passed
    assert "absent.lock" in lines[0]
