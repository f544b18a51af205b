"""The demonstration: both scorers really change, and the board puts itself right while nobody touches it."""

import os
import pty
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connection

from tests.faults.worker import ROOT, list_processes, stretch, wait_until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        connection.vendor != "sqlite", reason="starts a board of its own on SQLite: the run on SQLite tests it"
    ),
]


def describe_start(folder: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    """The command of the demonstration and its environment, on a free port."""
    environment = os.environ | {"PLUMBLINE_VAR": str(folder), "OPENING_REPLICATES": "2"}
    for name in ("DATABASE_URL", "BROKER_URL"):
        environment.pop(name, None)
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [sys.executable, "manage.py", "demo_drift", "--port", str(port), *options], environment


@contextmanager
def play_on_terminal(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The demonstration under way, in a session of its own, and the descriptor of the terminal that it writes to."""
    command, environment = describe_start(folder)
    terminal, its_side = pty.openpty()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=its_side, stderr=its_side, start_new_session=True
    )
    os.close(its_side)
    try:
        yield process, terminal
    finally:
        for pid in [*list_processes(folder / "demo-drift"), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        with suppress(OSError):
            os.close(terminal)


def read_until(terminal: int, words: str) -> str:
    """What the terminal shows, up to `words`."""
    text = ""
    while words not in text:
        text += os.read(terminal, 4096).decode(errors="replace")
    return text


AT_WORK, AS_IT_STARTS = "waiting for 4 evaluations, at most 15 minutes", "waiting for the board on port"
ENDINGS = {
    "Ctrl-C": (signal.SIGINT, AT_WORK),
    "kill": (signal.SIGTERM, AS_IT_STARTS),
    "closed": (signal.SIGHUP, AS_IT_STARTS),
}


@pytest.mark.parametrize(("number", "moment"), ENDINGS.values(), ids=ENDINGS)
def test_it_ends_all_that_it_started_when_it_is_told_to_end(tmp_path, number, moment):
    with play_on_terminal(tmp_path) as (process, terminal):
        read_until(terminal, moment)
        wait_until(lambda: len(list_processes(tmp_path / "demo-drift")) > 5)
        if number == signal.SIGHUP:
            os.close(terminal)  # as the terminal does that is closed: nothing can be written to it any more
        (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)
        if number != signal.SIGHUP:
            read_until(terminal, "waiting for the board's processes to end")
            with suppress(OSError):  # the end of what it writes, lest it wait for its reader
                while os.read(terminal, 4096):
                    pass
        process.wait(timeout=stretch(120))
        assert list_processes(tmp_path / "demo-drift") == []


def test_a_retrained_scorer_an_edited_lexicon_and_a_replaced_model_are_noticed(tmp_path):
    command, environment = describe_start(tmp_path, "--once")
    played = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700)
    assert played.returncode == 0, played.stdout[-3000:] + played.stderr[-3000:]
    for metric in ("toxicity-demo", "lexicon-demo"):
        assert re.search(rf"demo: {metric} v2: \S", played.stdout)
        assert f"demo: waiting for a second version of {metric}, at most 15 minutes" in played.stdout
    with closing(sqlite3.connect(tmp_path / "demo-drift" / "plumbline.sqlite3")) as board:
        states = board.execute("SELECT state, done, total FROM leaderboard_rescoring").fetchall()
        assert states == [("published", 3, 3)] * 2
        standings = board.execute(
            "SELECT count(DISTINCT model_id) FROM leaderboard_standing JOIN leaderboard_metricversion AS version "
            "ON version.id = metric_version_id WHERE version.status = 'current'"
        ).fetchone()
        assert standings == (5,)  # and the served model, before and after it was replaced
        changed = board.execute(
            "SELECT model.slug, service.change FROM leaderboard_languagemodel AS model "
            "JOIN leaderboard_service AS service ON service.model_id = model.id "
            "WHERE model.service_changed_at IS NOT NULL"
        ).fetchall()
        assert [slug for slug, _ in changed] == ["demo-service"]
        assert "answered otherwise, three times in a row" in changed[0][1]
        verbs = {verb for (verb,) in board.execute("SELECT verb FROM leaderboard_auditevent")}
        assert {"open rescoring", "publish version", "find service change"} <= verbs
    assert "demo: demo-service is no longer reproducible" in played.stdout
