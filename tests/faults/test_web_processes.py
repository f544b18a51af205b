"""Several web processes are one board: attempts are counted together, and a restart logs nobody out."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command

from tests.faults.worker import ROOT, database_url, stretch

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

PASSWORD = "a long passphrase"


@contextmanager
def web(folder: Path) -> Iterator[tuple[str, Path]]:
    """Four processes as `manage.py up` starts two; yields the address, and a file with the process of each answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "access.log"
    command = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.serving", "--workers", "4"]
    command += ["--bind", f"127.0.0.1:{port}", "--access-logfile", str(log), "--access-logformat", "%(p)s %(r)s"]
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "leaderboard.settings"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + stretch(90)
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{address}/healthz", timeout=10).status_code == 200:
                    break
            assert time.monotonic() < deadline, "the web server does not answer"
            time.sleep(0.2)
        yield address, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def log_in(address: str, name: str, password: str) -> httpx.Client:
    """A browser that has tried to; its last page is in `.said`."""
    browser = httpx.Client(base_url=address, timeout=60)
    form = browser.get("/accounts/login/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[1]
    fields = {"login": name, "password": password, "csrfmiddlewaretoken": token}
    browser.said = browser.post("/accounts/login/", data=fields).text
    return browser


def answer_to_log_in(address: str, name: str, password: str) -> str:
    """The page that somebody gets who tries to log in."""
    with closing(log_in(address, name, password)) as browser:
        return str(browser.said)


def test_attempts_are_counted_by_all_processes_together_and_sessions_outlive_them(tmp_path):
    call_command("collectstatic", interactive=False, verbosity=0)
    cache.clear()
    User.objects.create_superuser("ada", "", PASSWORD)
    User.objects.create_superuser("grace", "", PASSWORD)
    with web(tmp_path) as (address, log):
        signed_in = log_in(address, "grace", PASSWORD)
        assert signed_in.get("/accounts/").status_code == 200
        with ThreadPoolExecutor(8) as people:
            pages = list(people.map(lambda n: answer_to_log_in(address, "ada", f"guess {n}"), range(12)))
        wrong = sum("There is no account" in page for page in pages)
        stopped = sum("Too many attempts" in page for page in pages)
        assert wrong + stopped == 12
        assert 1 <= wrong <= 5
        assert "Too many attempts" in answer_to_log_in(address, "ada", PASSWORD)
        answered = {line.split()[0] for line in log.read_text().splitlines() if "POST /accounts/login/" in line}
        assert len(answered) > 1, "one process answered all of it: this says nothing"
    with web(tmp_path) as (address, _):
        signed_in.base_url = address
        assert signed_in.get("/accounts/").status_code == 200
        signed_in.close()
        assert "Too many attempts" in answer_to_log_in(address, "ada", PASSWORD)
    cache.clear()
