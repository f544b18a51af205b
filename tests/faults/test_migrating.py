"""A migration beside a board that uses the same tables: it gives way, comes back, and ends nobody's query."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.core.management.commands import migrate as django_migrate
from django.db import connection, transaction

from leaderboard.management.commands import migrate

pytestmark = [
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time"),
]

SHARED = "LOCK TABLE {} IN ACCESS SHARE MODE"  # what a query that reads a table takes


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(autouse=True)
def _tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(migrate, "PAUSE", 0.1)
    execute("CREATE TABLE first (id integer)", "CREATE TABLE second (id integer)")
    yield
    execute("DROP TABLE first, second")


@pytest.fixture
def others() -> Iterator[Callable[[Callable[[], None]], Future[None]]]:
    """Has something done by another connection, which is closed after it."""
    with ThreadPoolExecutor(1) as pool:

        def do(work: Callable[[], None]) -> Future[None]:
            def close_after() -> None:
                try:
                    work()
                finally:
                    connection.close()

            return pool.submit(close_after)

        yield do


def read_until(others: Callable[[Callable[[], None]], Future[None]]) -> tuple[Future[None], threading.Event]:
    """Have another connection read the first table, from now until the event is set."""
    in_use, over = threading.Event(), threading.Event()

    def read() -> None:
        with transaction.atomic():
            execute(SHARED.format("first"))
            in_use.set()
            assert over.wait(60)

    reader = others(read)
    assert in_use.wait(60)
    return reader, over


def is_somebody_waiting(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass", [table])
        return bool(cursor.fetchone()[0])


def read_columns(table: str) -> list[str]:
    with connection.cursor() as cursor:
        return [column.name for column in connection.introspection.get_table_description(cursor, table)]


def migrate_by(monkeypatch: pytest.MonkeyPatch, alter: Callable[[], None]) -> str:
    """Run the command with `alter` as the only migration; what it prints."""

    def apply(*_arguments: Any, **_options: Any) -> None:
        with transaction.atomic():
            alter()

    monkeypatch.setattr(django_migrate.Command, "handle", apply)
    output = StringIO()
    migrate.Command(stdout=output).handle(database="default")
    return output.getvalue()


def test_a_migration_gives_way_to_whoever_uses_a_table_and_is_tried_again(monkeypatch, others):
    reader, over = read_until(others)
    tries = []

    def alter() -> None:
        tries.append(len(tries))
        if len(tries) == 3:
            over.set()
            reader.result()
        execute("ALTER TABLE first ADD COLUMN remark text")

    output = migrate_by(monkeypatch, alter)
    assert output.count("a table is in use") == 2
    assert read_columns("first") == ["id", "remark"]


@pytest.mark.parametrize("patience", [0.5, 30.0])
def test_a_migration_and_a_reader_who_want_each_other_s_table_both_come_to_an_end(monkeypatch, others, patience):
    """With more patience than PostgreSQL has for deadlocks, too, where it is the migration that it ends."""
    monkeypatch.setattr(migrate, "LOCK_SECONDS", patience)
    second_taken, first_taken = threading.Event(), threading.Event()

    def read() -> None:
        with transaction.atomic():
            if patience > 1:
                execute("SET LOCAL deadlock_timeout = '1min'")
            execute(SHARED.format("second"))
            second_taken.set()
            assert first_taken.wait(60)
            execute(SHARED.format("first"))

    reader = others(read)
    assert second_taken.wait(60)

    def alter() -> None:
        execute("ALTER TABLE first ADD COLUMN remark text")
        first_taken.set()
        until = time.monotonic() + 60
        while not reader.done() and not is_somebody_waiting("first") and time.monotonic() < until:
            time.sleep(0.01)
        execute("ALTER TABLE second ADD COLUMN remark text")

    output = migrate_by(monkeypatch, alter)
    reader.result()
    assert "a table is in use" in output
    assert read_columns("first") == read_columns("second") == ["id", "remark"]


def test_a_table_that_stays_in_use_ends_the_migration_with_what_to_do(monkeypatch, others):
    monkeypatch.setattr(migrate, "TRIES", 2)
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.05)
    reader, over = read_until(others)
    try:
        with pytest.raises(CommandError, match="at each of 2 tries: look at pg_stat_activity"):
            migrate_by(monkeypatch, lambda: execute("ALTER TABLE first ADD COLUMN remark text"))
    finally:
        over.set()
        reader.result()
    assert read_columns("first") == ["id"]
