"""A board of an earlier release in a database of its own, and what a migration made of it."""

import gzip
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from django.db.backends.sqlite3._functions import register

from tests.faults.worker import ROOT

RELEASES = ROOT / "tests" / "releases"


def restore_release(address: str) -> None:
    """Restore the newest dump of a release into a new database at that address."""
    if address.startswith("sqlite"):
        dump = sorted(RELEASES.glob("*.sqlite.sql.gz"))[-1]
        path = Path(address.removeprefix("sqlite:///"))
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as board:
            register(board)  # constraints of the board use functions of Django
            board.executescript(gzip.decompress(dump.read_bytes()).decode())
        return
    dump = sorted(RELEASES.glob("*.postgresql.sql.gz"))[-1]
    head, _, query = address.partition("?")
    server, _, name = head.rpartition("/")
    with closing(psycopg2.connect(f"{server}/postgres{'?' + query if query else ''}")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
            cursor.execute(f'CREATE DATABASE "{name}"')
    with closing(psycopg2.connect(address)) as board, board, board.cursor() as cursor:
        lines = gzip.decompress(dump.read_bytes()).decode().splitlines()
        cursor.execute("\n".join(line for line in lines if not line.startswith("\\")))  # those are psql's own


def describe_database(address: str) -> dict[str, Any]:
    """A hash of the tables and columns that there are, and the number of rows of each table."""
    if address.startswith("sqlite"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as board:
            columns = board.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1").fetchall()
            names = [name for (name,) in board.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            counts = {name: board.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in sorted(names)}  # noqa: S608
    else:
        with closing(psycopg2.connect(address)) as board, board.cursor() as cursor:
            cursor.execute(
                "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
                "WHERE table_schema = 'public' ORDER BY 1, 2"
            )
            columns = cursor.fetchall()
            counts = {}
            for name in sorted({row[0] for row in columns}):
                cursor.execute(f'SELECT COUNT(*) FROM "{name}"')  # noqa: S608 (a name of the catalogue)
                counts[name] = cursor.fetchone()[0]
    return {"schema": hashlib.sha256(repr(columns).encode()).hexdigest(), "rows": counts}
