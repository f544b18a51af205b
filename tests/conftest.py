"""The database that tests run on, migrated once for all of them."""

import fcntl
import gc
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from leaderboard.exchange import downloads
from leaderboard.services.artefacts import mark_storage
from leaderboard.services.storage_marks import MARK
from leaderboard.state_memo import large_answers, small_answers
from leaderboard.views.page_store import ready_pages
from tests import postgresql

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
    small_answers.most = large_answers.most = ready_pages.most = 0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Give markers that follow from others.

    `slow` to what is marked `slow_cases`, but for the first case of each such test; and `databases` to what runs on
    PostgreSQL: what uses the database of the tests, unless it is marked `either_database`. What is `longest` begins.
    """
    quick: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.get_closest_marker("slow_cases") and test in quick:
            item.add_marker(pytest.mark.slow)
        quick.add(test)
        uses_database = item.get_closest_marker("django_db") or "db" in getattr(item, "fixturenames", ())
        if uses_database and test.startswith(ON_DATABASES) and not item.get_closest_marker("either_database"):
            item.add_marker(pytest.mark.databases)
    yield
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)  # after plugins, which sort by databases


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through all tests and libraries while tests run."""
    gc.freeze()
    gc.enable()


FORGET_RELEASE = "DELETE FROM leaderboard_release"  # each run notes the code of its own
MIGRATED = "migrated"  # the database on PostgreSQL that the one of the tests is a copy of


def keep_migrated(folder: Path, make: Callable[[Path], None]) -> Path:
    """What `make` writes of a migrated database, kept in `folder` for every process and run that needs one."""
    state = hashlib.sha256(f"{version('django')} {version('django-allauth')}".encode())
    for file in sorted(MIGRATIONS.glob("*.py")):
        state.update(file.read_bytes())
    path = folder / f"{state.hexdigest()}.{connection.vendor}"
    with (folder / f"lock-{connection.vendor}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for other in folder.glob(f"*.{connection.vendor}*"):
                other.unlink()
            begun = path.with_suffix(f".{connection.vendor}-begun")
            make(begun)
            begun.rename(path)
    return path


def migrate(address: str) -> None:
    """Migrate the database at an address, which is empty."""
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=settings.BASE_DIR, env=os.environ | {"DATABASE_URL": address}, check=True)


def make_file(path: Path) -> None:
    """Write a migrated SQLite database."""
    migrate(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database:
        database.execute(FORGET_RELEASE)
        database.execute("DELETE FROM sqlite_sequence WHERE name = 'leaderboard_release'")
        database.commit()


def make_dump(path: Path) -> None:
    """Write the SQL of a migrated database, made on the PostgreSQL server of this process and dropped again."""
    postgresql.execute("postgres", "--command", f"CREATE DATABASE {MIGRATED}")
    migrate(postgresql.address_of(MIGRATED))
    postgresql.execute(MIGRATED, "--command", FORGET_RELEASE)
    postgresql.execute(MIGRATED, "--command", "ALTER SEQUENCE leaderboard_release_id_seq RESTART")
    postgresql.dump(MIGRATED, path)
    postgresql.execute("postgres", "--command", f"DROP DATABASE {MIGRATED}")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, pytestconfig: pytest.Config
) -> None:
    """Have the database of the tests begin as a migrated one."""
    folder = pytestconfig.cache.mkdir("databases")
    if connection.vendor == "sqlite":
        shutil.copyfile(keep_migrated(folder, make_file), connection.settings_dict["TEST"]["NAME"])
    else:
        path = keep_migrated(folder, make_dump)
        postgresql.execute("postgres", "--command", f"CREATE DATABASE {MIGRATED}")
        postgresql.execute(MIGRATED, "--file", str(path))
        connection.settings_dict["TEST"]["TEMPLATE"] = MIGRATED
    mark_storage()  # as the migrations do, in the folder of files of this process


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Take the database that is there, on SQLite: migrating it finds nothing to do."""
    return connection.vendor == "sqlite"


@pytest.fixture(autouse=True)
def _as_new_storage() -> None:
    """The rows of the test before are gone, and with them what marked the storage and what its workers exported."""
    storage = Path(settings.MEDIA_ROOT)
    (storage / MARK).unlink(missing_ok=True)
    shutil.rmtree(storage / downloads.FOLDER, ignore_errors=True)
