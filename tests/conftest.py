"""The database that tests run on, migrated once for all of them."""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from leaderboard.services.artefacts import mark_storage
from leaderboard.services.storage_marks import MARK
from leaderboard.state_memo import large_answers, small_answers

PICTURES = Path(os.environ.get("PLUMBLINE_PICTURES") or settings.BASE_DIR / "var" / "pictures")
BEGAN = time.time()
MIGRATIONS = settings.BASE_DIR / "leaderboard" / "migrations"
ON_DATABASES = ("tests/leaderboard/", "tests/faults/")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the pictures are that browser tests of this run have kept of the states of pages."""
    count = sum(picture.stat().st_mtime >= BEGAN for picture in PICTURES.glob("*.jpg"))
    if count:
        terminalreporter.write_line(f"{count} pictures of page states are in {PICTURES}")


def pytest_configure() -> None:
    """Have each test load its own models and read its own board; processes of their own keep both, as on a board."""
    settings.KEPT_MODELS_GB = 0.0
    settings.PASSWORD_HASHERS = ["tests.passwords.QuickHasher"]
    # A test that is rolled back leaves the next one the same state with other rows.
    small_answers.most = large_answers.most = 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give markers that follow from others.

    `slow` to what is marked `slow_cases`, but for the first case of each such test; and `databases` to what runs on
    PostgreSQL: what uses the database of the tests, unless it is marked `either_database`.
    """
    quick: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.get_closest_marker("slow_cases") and test in quick:
            item.add_marker(pytest.mark.slow)
        quick.add(test)
        uses_database = item.get_closest_marker("django_db") or "db" in item.fixturenames
        if uses_database and test.startswith(ON_DATABASES) and not item.get_closest_marker("either_database"):
            item.add_marker(pytest.mark.databases)


def migrated_database(folder: Path) -> Path:
    """An SQLite database at the state of the migrations, kept in `folder` for every process and run that needs one."""
    state = hashlib.sha256(f"{version('django')} {version('django-allauth')}".encode())
    for file in sorted(MIGRATIONS.glob("*.py")):
        state.update(file.read_bytes())
    path = folder / f"{state.hexdigest()}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for other in folder.glob("*.sqlite3*"):
                other.unlink()
            begun = path.with_suffix(".sqlite3-begun")
            command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
            variables = os.environ | {"DATABASE_URL": f"sqlite:///{begun}"}
            subprocess.run(command, cwd=settings.BASE_DIR, env=variables, check=True)
            with closing(sqlite3.connect(begun)) as database:
                database.execute("DELETE FROM leaderboard_release")  # each run notes the code of its own
                database.execute("DELETE FROM sqlite_sequence WHERE name = 'leaderboard_release'")
                database.commit()
            begun.rename(path)
    return path


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, pytestconfig: pytest.Config
) -> None:
    """On SQLite, put the migrated database where the one of the tests is expected."""
    if connection.vendor == "sqlite":
        path = migrated_database(pytestconfig.cache.mkdir("databases"))
        shutil.copyfile(path, connection.settings_dict["TEST"]["NAME"])
        mark_storage()  # as the migrations do, in the folder of files of this process


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Take the database that is there, on SQLite: migrating it finds nothing to do."""
    return connection.vendor == "sqlite"


@pytest.fixture(autouse=True)
def _without_marks() -> None:
    """The rows of the test before are gone, and with them the database that the storage was marked by."""
    (Path(settings.MEDIA_ROOT) / MARK).unlink(missing_ok=True)
