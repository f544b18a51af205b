"""Boards of every release are migrated whole, and migrations of a release are never changed again."""

import gzip
import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection
from django.db.backends.sqlite3._functions import register

ROOT = Path(__file__).parent.parent.parent
RELEASES = ROOT / "tests" / "releases"
FROZEN = dict(
    reversed(line.split("  ")) for line in (RELEASES / "migrations.sha256").read_text(encoding="utf-8").splitlines()
)
COUNTED = "from leaderboard.models import *;" + (
    " print(Standing.objects.count(), Run.objects.count(), Metric.objects.count())"
)


@pytest.mark.parametrize("name", FROZEN)
def test_a_migration_of_a_release_is_frozen(name):
    content = (ROOT / "leaderboard" / "migrations" / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == FROZEN[name], f"{name} was released: write another migration instead"


@pytest.mark.parametrize("dump", sorted(RELEASES.glob("*.sqlite.sql.gz")), ids=lambda path: path.name)
def test_a_dump_of_a_release_on_sqlite_is_migrated_with_all_its_rows(dump, tmp_path):
    database = tmp_path / "board.sqlite3"
    with closing(sqlite3.connect(database)) as board:
        register(board)  # constraints of the board use functions of Django
        board.executescript(gzip.decompress(dump.read_bytes()).decode())
        before = [
            board.execute(f"SELECT COUNT(*) FROM leaderboard_{table}").fetchone()[0]  # noqa: S608
            for table in ("standing", "run", "metric")
        ]
    assert all(before)
    assert manage(f"sqlite:///{database}", tmp_path, "migrate", "--verbosity", "0") == ""
    assert manage(f"sqlite:///{database}", tmp_path, "shell", "--verbosity", "0", "--command", COUNTED) == " ".join(
        map(str, before)
    )


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="of PostgreSQL")
@pytest.mark.parametrize("dump", sorted(RELEASES.glob("*.postgresql.sql.gz")), ids=lambda path: path.name)
def test_a_dump_of_a_release_on_postgresql_is_migrated_with_all_its_rows(dump, tmp_path):
    import psycopg2

    address = os.environ["DATABASE_URL"]
    head, _, query = address.partition("?")
    url = f"{head.rsplit('/', 1)[0]}/released{'?' + query if query else ''}"
    server = psycopg2.connect(address)
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute("CREATE DATABASE released")
    try:
        with psycopg2.connect(url) as board, board.cursor() as cursor:
            lines = gzip.decompress(dump.read_bytes()).decode().splitlines()
            cursor.execute("\n".join(line for line in lines if not line.startswith("\\")))  # those are psql's own
            cursor.execute("SET search_path TO public")
            cursor.execute(
                "SELECT (SELECT COUNT(*) FROM leaderboard_standing), (SELECT COUNT(*) FROM leaderboard_run), "
                "(SELECT COUNT(*) FROM leaderboard_metric)"
            )
            before = cursor.fetchone()
        board.close()
        assert all(before)
        assert manage(url, tmp_path, "migrate", "--verbosity", "0") == ""
        assert manage(url, tmp_path, "shell", "--verbosity", "0", "--command", COUNTED) == " ".join(map(str, before))
    finally:
        with server.cursor() as cursor:
            cursor.execute("DROP DATABASE released WITH (FORCE)")
        server.close()


def manage(database: str, folder: Path, *arguments: str) -> str:
    """What a command of a process of its own writes."""
    variables = os.environ | {"DATABASE_URL": database, "PLUMBLINE_VAR": str(folder)}
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()
