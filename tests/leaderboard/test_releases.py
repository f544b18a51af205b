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

from tests.postgresql import address_of

ROOT = Path(__file__).parent.parent.parent
RELEASES = ROOT / "tests" / "releases"
FROZEN = dict(
    reversed(line.split("  ")) for line in (RELEASES / "migrations.sha256").read_text(encoding="utf-8").splitlines()
)
COUNTED = "from leaderboard.models import *;" + (
    " print(Standing.objects.count(), Run.objects.count(), Metric.objects.count());"
    " print(*OutboxMessage.objects.order_by('kind').values_list('kind', 'recipient', 'subject', 'body',"
    " 'submission', 'incident', 'event', 'attempts', 'error'), sep=chr(10));"
    " print(OutboxMessage.objects.get(kind='alert').pk, OutboxMessage.objects.waiting().count())"
)
WAITING = """
INSERT INTO auth_user
    (id, password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
    VALUES (9, '', FALSE, 'ada', '', '', '', FALSE, TRUE, CURRENT_TIMESTAMP);
INSERT INTO leaderboard_submission
    (id, form, payload, report, state, created_at, submitter_id, reason, upload, concerns, name_asked)
    VALUES (9, 'hub', '{}', '{}', 'ranked', CURRENT_TIMESTAMP, 9, '', '', '[]', '');
INSERT INTO leaderboard_letter (news, attempts, not_before, sent_at, submission_id)
    VALUES ('ranked', 1, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, 9);
INSERT INTO leaderboard_outgoingletter (recipient, subject, body, resets_password, attempts, not_before)
    VALUES ('ada@example.org', 'Confirm', 'A link', FALSE, 2, CURRENT_TIMESTAMP),
           ('eve@example.org', '', '', TRUE, 0, CURRENT_TIMESTAMP);
INSERT INTO leaderboard_alertmessage (id, event, receiver, created_at, attempts, not_before, error, incident_id)
    VALUES ('289dd3dae6c84f14a6697a65388e3e08', 'opened', 'e-mail', CURRENT_TIMESTAMP, 3, CURRENT_TIMESTAMP, '404', 1);
"""
MOVED = """
('alert', 'e-mail', '', '', None, 1, 'opened', 3, '404')
('letter', 'ada@example.org', 'Confirm', 'A link', None, None, '', 2, '')
('news', '', '', '', 9, None, 'ranked', 1, '')
('reset', 'eve@example.org', '', '', None, None, '', 0, '')
289dd3da-e6c8-4f14-a669-7a65388e3e08 3"""


@pytest.mark.parametrize("name", FROZEN)
def test_a_migration_of_a_release_is_frozen(name):
    content = (ROOT / "leaderboard" / "migrations" / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == FROZEN[name], f"{name} was released: write another migration instead"


@pytest.mark.slow
@pytest.mark.parametrize("dump", sorted(RELEASES.glob("*.sqlite.sql.gz")), ids=lambda path: path.name)
def test_a_dump_of_a_release_on_sqlite_is_migrated_with_all_its_rows(dump, tmp_path):
    database = tmp_path / "board.sqlite3"
    with closing(sqlite3.connect(database)) as board:
        register(board)  # constraints of the board use functions of Django
        board.executescript(gzip.decompress(dump.read_bytes()).decode())
        board.executescript(WAITING)
        before = [
            board.execute(f"SELECT COUNT(*) FROM leaderboard_{table}").fetchone()[0]  # noqa: S608
            for table in ("standing", "run", "metric")
        ]
    assert all(before)
    assert manage(f"sqlite:///{database}", tmp_path, "migrate", "--verbosity", "0") == ""
    counted = manage(f"sqlite:///{database}", tmp_path, "shell", "--verbosity", "0", "--command", COUNTED)
    assert counted == " ".join(map(str, before)) + MOVED


@pytest.mark.parametrize("dump", sorted(RELEASES.glob("*.board.sql.gz")), ids=lambda path: path.name)
def test_the_board_of_a_release_is_migrated_with_all_its_rows(dump, tmp_path):
    database = tmp_path / "board.sqlite3"
    with closing(sqlite3.connect(database)) as board:
        register(board)
        board.executescript(gzip.decompress(dump.read_bytes()).decode())
        before = [
            board.execute(f"SELECT COUNT(*) FROM leaderboard_{table}").fetchone()[0]  # noqa: S608
            for table in ("standing", "metric")
        ]
    assert all(before)
    assert manage(f"sqlite:///{database}", tmp_path, "migrate", "--verbosity", "0") == ""
    count = "from leaderboard.models import *; print(Standing.objects.count(), Metric.objects.count())"
    counted = manage(f"sqlite:///{database}", tmp_path, "shell", "--verbosity", "0", "--command", count)
    assert counted == " ".join(map(str, before))


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="of PostgreSQL")
@pytest.mark.parametrize("dump", sorted(RELEASES.glob("*.postgresql.sql.gz")), ids=lambda path: path.name)
def test_a_dump_of_a_release_on_postgresql_is_migrated_with_all_its_rows(dump, tmp_path):
    import psycopg2

    url = address_of("released")
    server = psycopg2.connect(os.environ["DATABASE_URL"])
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute("CREATE DATABASE released")
    try:
        with psycopg2.connect(url) as board, board.cursor() as cursor:
            lines = gzip.decompress(dump.read_bytes()).decode().splitlines()
            cursor.execute("\n".join(line for line in lines if not line.startswith("\\")))  # those are psql's own
            cursor.execute("SET search_path TO public")
            cursor.execute(WAITING)
            cursor.execute(
                "SELECT (SELECT COUNT(*) FROM leaderboard_standing), (SELECT COUNT(*) FROM leaderboard_run), "
                "(SELECT COUNT(*) FROM leaderboard_metric)"
            )
            before = cursor.fetchone()
        board.close()
        assert all(before)
        assert manage(url, tmp_path, "migrate", "--verbosity", "0") == ""
        counted = manage(url, tmp_path, "shell", "--verbosity", "0", "--command", COUNTED)
        assert counted == " ".join(map(str, before)) + MOVED
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
