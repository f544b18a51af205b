"""A backup as the manual says, restored to another machine: nothing is lost, and what waited goes on."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from leaderboard.celery import app
from leaderboard.models import LanguageModel, Work
from leaderboard.services.evaluate import request_evaluation
from tests.faults.test_second_host import own_lexicon  # noqa: F401 (a fixture)
from tests.faults.worker import ROOT, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish, models  # noqa: F401 (a fixture)

pytestmark = [
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="copies the one file that SQLite is: tested there"),
]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def back_up(database: Path, files: Path) -> None:
    """First the database, then what the manual names of PLUMBLINE_VAR."""
    name = connection.settings_dict["NAME"]
    with closing(sqlite3.connect(name, uri=True)) as source, closing(sqlite3.connect(database)) as copy:
        source.backup(copy)
    names = ["--exclude", "artefacts/shards", "--exclude", "artefacts/readyz", "artefacts", "scorers"]
    subprocess.run(["tar", "--create", "--file", files, "--directory", settings.VAR, *names], check=True)


def test_a_board_restored_from_its_backup_is_whole_and_does_what_waited(
    own_lexicon,  # noqa: F811
    models: dict[str, LanguageModel],  # noqa: F811
    tmp_path: Path,
):
    assert finish(models[CAUSAL], own_lexicon).state == Work.State.DONE
    waits = request_evaluation(models[OTHER_CAUSAL], own_lexicon)
    database, files, var = tmp_path / "plumbline.sqlite3", tmp_path / "files.tar", tmp_path / "restored"
    back_up(database, files)
    app.control.purge()  # Redis is not in the backup
    var.mkdir()
    subprocess.run(["tar", "--extract", "--file", files, "--directory", var], check=True)

    restored = {"DATABASE_URL": f"sqlite:///{database}", "PLUMBLINE_VAR": str(var), "PLUMBLINE_HOST": "restored"}

    def state() -> str:
        with closing(sqlite3.connect(database)) as board:
            return str(board.execute("SELECT state FROM leaderboard_scoring WHERE id = ?", [waits.pk]).fetchone()[0])

    assert state() == Work.State.QUEUED
    with worker(**restored):
        wait_until(lambda: state() != Work.State.QUEUED)
        wait_until(lambda: state() != Work.State.RUNNING)
    assert state() == Work.State.DONE
    verified = subprocess.run(
        [sys.executable, "manage.py", "verify"],
        cwd=ROOT,
        env=os.environ | restored,
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout[-2000:]
    waits.refresh_from_db()
    assert waits.state == Work.State.QUEUED, "the board that was copied knows nothing of it"
