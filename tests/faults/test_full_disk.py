"""A disk that is full, for real: a small file system in memory, mounted for the test where root may."""

import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache.backends.base import BaseCache
from django.db import OperationalError
from django.db.utils import ConnectionHandler

from leaderboard.counting import count_request

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db]

ROWS = 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Write until nothing fits any more."""
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(folder).free == 0


def test_a_board_on_sqlite_is_read_while_its_disk_is_full(small_disk: Path):
    name = small_disk / "plumbline.sqlite3"
    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}
    board = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options}})
    connection = board["default"]
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE entry (words TEXT)")
        cursor.executemany("INSERT INTO entry VALUES (%s)", [("x" * 500,)] * ROWS)
    connection.close()  # as after each request that came long after the last one
    fill(small_disk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM entry")
        assert cursor.fetchone() == (ROWS,)
        with pytest.raises(OperationalError, match="full"):
            cursor.execute("INSERT INTO entry VALUES ('another')")
        cursor.execute("SELECT COUNT(*) FROM entry")
        assert cursor.fetchone() == (ROWS,)
    connection.close()


class FullCache(BaseCache):
    """Counts on a disk that takes no more of them."""

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        raise OperationalError("database or disk is full")


def test_who_cannot_be_counted_may_read():
    assert count_request(FullCache({}), "somebody", 1) == 0


def test_without_a_connection_kept_open_the_same_disk_stops_reading(small_disk: Path):
    """What the one above is for: it fails where this does not."""
    name = small_disk / "plumbline.sqlite3"
    first = sqlite3.connect(name)
    first.execute("PRAGMA journal_mode=WAL")
    first.execute("CREATE TABLE entry (words TEXT)")
    first.close()
    fill(small_disk)
    second = sqlite3.connect(name)
    with pytest.raises(sqlite3.OperationalError):
        second.execute("SELECT COUNT(*) FROM entry")
    second.close()
