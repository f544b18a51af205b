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


def describe_start(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command of the demonstration and its environment, on a free port."""
    environment = os.environ | {"PLUMBLINE_VAR": str(folder), "OPENING_REPLICATES": "2"}
    for name in ("DATABASE_URL", "BROKER_URL"):
        environment.pop(name, None)
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [sys.executable, "manage.py", "demo_drift", "--port", str(port)], environment


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
    """What the terminal shows, up to `words`; to its end where there are none, lest a process wait for its reader."""
    text = ""
    with suppress(OSError):  # the end
        while not words or words not in text:
            text += os.read(terminal, 4096).decode(errors="replace")
    assert words in text, text[-6000:]
    return text


STARTING = "waiting for the board on port"


@pytest.mark.parametrize(("number", "least"), [(signal.SIGTERM, 2), (signal.SIGHUP, 6)], ids=["killed", "closed"])
def test_it_ends_all_that_it_started_when_it_is_told_to_end_as_it_starts(tmp_path, number, least):
    with play_on_terminal(tmp_path) as (process, terminal):
        read_until(terminal, STARTING)
        wait_until(lambda: len(list_processes(tmp_path / "demo-drift")) >= least)
        if number == signal.SIGHUP:
            os.close(terminal)  # as the terminal does that is closed: nothing can be written to it any more
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
            assert "waiting for the board's processes to end" in read_until(terminal, "")
        process.wait(timeout=stretch(120))
        assert list_processes(tmp_path / "demo-drift") == []


@pytest.mark.longest
def test_a_retrained_scorer_an_edited_lexicon_and_a_replaced_model_are_noticed(tmp_path):
    with play_on_terminal(tmp_path) as (process, terminal):
        output = read_until(terminal, "The board goes on until Ctrl-C ends it")
        os.killpg(process.pid, signal.SIGINT)
        assert "waiting for the board's processes to end" in read_until(terminal, "")
        assert process.wait(timeout=stretch(120)) == 128 + signal.SIGINT
        assert list_processes(tmp_path / "demo-drift") == []
    for metric in ("toxicity-demo", "lexicon-demo"):
        assert re.search(rf"demo: {metric} v2: \S", output)
        assert f"demo: waiting for a second version of {metric}, at most 15 minutes" in output
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
    assert "demo: demo-service is no longer reproducible" in output
