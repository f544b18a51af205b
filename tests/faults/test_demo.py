"""The demonstration: both scorers really change, and the board puts itself right while nobody touches it."""

import os
import re
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from django.db import connection

from tests.faults.worker import ROOT

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        connection.vendor != "sqlite", reason="starts a board of its own on SQLite: the run on SQLite tests it"
    ),
]


def test_a_retrained_service_and_an_edited_lexicon_are_noticed_rescored_and_published(tmp_path):
    environment = os.environ | {"PLUMBLINE_VAR": str(tmp_path), "OPENING_REPLICATES": "2"}
    for name in ("DATABASE_URL", "BROKER_URL"):
        environment.pop(name, None)
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "manage.py", "demo_drift", "--once", "--port", str(port)]
    played = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700)
    assert played.returncode == 0, played.stdout[-3000:] + played.stderr[-3000:]
    for metric in ("toxicity-demo", "lexicon-demo"):
        assert re.search(rf"demo: {metric} v2: \S", played.stdout)
    with closing(sqlite3.connect(tmp_path / "demo-drift" / "plumbline.sqlite3")) as board:
        states = board.execute("SELECT state, done, total FROM leaderboard_rescoring").fetchall()
        assert states == [("published", 3, 3)] * 2
        standings = board.execute(
            "SELECT count(DISTINCT model_id) FROM leaderboard_standing JOIN leaderboard_metricversion AS version "
            "ON version.id = metric_version_id WHERE version.status = 'current'"
        ).fetchone()
        assert standings == (3,)
        verbs = {verb for (verb,) in board.execute("SELECT verb FROM leaderboard_auditevent")}
        assert {"open rescoring", "publish version"} <= verbs
