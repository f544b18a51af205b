"""A backup as the manual says, restored to another machine: nothing is lost, and what waited goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from leaderboard.celery import app
from leaderboard.models import LanguageModel, Work
from leaderboard.operations.backups.verifying import scratch_database
from leaderboard.services.evaluate import request_evaluation
from tests.faults.test_second_host import own_lexicon  # noqa: F401 (a fixture)
from tests.faults.worker import ROOT, database_url, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish, models  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


@pytest.fixture
def other_machine(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Variables of a machine that has neither a database nor files yet."""
    var = tmp_path / "restored"
    var.mkdir()
    with scratch_database(str(var)) as url:
        yield {"DATABASE_URL": url, "PLUMBLINE_VAR": str(var), "PLUMBLINE_HOST": "restored"}


def manage(environment: dict[str, str], *arguments: str) -> None:
    """Run a command of the board in a process of its own, which succeeds."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def read_state(url: str, scoring: int) -> str:
    """The state of a scoring in the database at this address."""
    with closing(connection.copy()) as session:
        session.settings_dict["NAME"] = (
            url.removeprefix("sqlite:///") if connection.vendor == "sqlite" else urlsplit(url).path[1:]
        )
        with session.cursor() as cursor:
            cursor.execute("SELECT state FROM leaderboard_scoring WHERE id = %s", [scoring])
            return str(cursor.fetchone()[0])


def test_a_board_restored_from_its_backup_is_whole_and_does_what_waited(
    own_lexicon,  # noqa: F811
    models: dict[str, LanguageModel],  # noqa: F811
    other_machine: dict[str, str],
    tmp_path: Path,
):
    assert finish(models[CAUSAL], own_lexicon).state == Work.State.DONE
    waits = request_evaluation(models[OTHER_CAUSAL], own_lexicon)
    manage({"DATABASE_URL": database_url()}, "backup", str(tmp_path / "backups"))
    app.control.purge()  # Redis is not in the backup
    manage(other_machine, "restore", str(tmp_path / "backups"), "--replace")

    def state() -> str:
        return read_state(other_machine["DATABASE_URL"], waits.pk)

    assert state() == Work.State.QUEUED
    with worker(**other_machine):
        wait_until(lambda: state() != Work.State.QUEUED)
        wait_until(lambda: state() != Work.State.RUNNING)
    assert state() == Work.State.DONE
    manage(other_machine, "verify")
    waits.refresh_from_db()
    assert waits.state == Work.State.QUEUED, "the board that was copied knows nothing of it"
