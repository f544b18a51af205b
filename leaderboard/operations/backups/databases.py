"""The database of a set: as it stood at one moment, while everybody goes on working.

SQLite copies its file through its backup interface. PostgreSQL gives every table by COPY in one REPEATABLE READ
transaction: DATABASE_URL is all that it needs, no program of PostgreSQL's release and no shell on its host. What the
tables are like is in the migrations: a restored database is migrated to the state of the set, filled, and migrated on.
Tables that somebody else made beside those of the board are neither copied nor replaced.
"""

import hashlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, cast

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from leaderboard.models import Worker
from leaderboard.operations.backups.sets import BLOCK, DatabaseBlock, Manifest, SetReader, SetWriter, TableCopy
from scoring.refusals import Refused

Progress = Callable[[str, int, int], None]  # the part, how much of it is done, and how much there is
FILLED = {  # by migrations, in every database
    "auth_group",
    "auth_group_permissions",
    "auth_permission",
    "django_content_type",
    "django_migrations",
    "leaderboard_release",
}


class Snapshot(Protocol):
    """A database as it stands at one moment."""

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""

    def count_rows(self) -> dict[str, int]:
        """The rows of each table."""

    def copy(self, writer: SetWriter, progress: Progress) -> tuple[tuple[DatabaseBlock, ...], tuple[TableCopy, ...]]:
        """Write all of it; returns the blocks of its file, or its tables."""


def open_snapshot() -> AbstractContextManager[Snapshot]:
    """The database of this board as it stands now."""
    return _open_file() if connection.vendor == "sqlite" else _open_tables()


class FileSnapshot:
    """A copy of an SQLite file."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self._path, self._database = path, database

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return self._database.execute(statement).fetchall()

    def count_rows(self) -> dict[str, int]:
        return count_rows_of_file(self._database)

    def copy(self, writer: SetWriter, progress: Progress) -> tuple[tuple[DatabaseBlock, ...], tuple[TableCopy, ...]]:
        size, blocks = self._path.stat().st_size, []
        with self._path.open("rb") as file:
            while content := file.read(BLOCK):
                blocks.append(writer.put_block(content))
                progress("database", file.tell(), size)
        return tuple(blocks), ()


def count_rows_of_file(database: sqlite3.Connection) -> dict[str, int]:
    """The rows of each table of an SQLite database, those of its search index left out."""
    tables = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
        "AND name NOT LIKE '%searchtext%' ORDER BY name"
    ).fetchall()
    return {name: database.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for (name,) in tables}  # noqa: S608


@contextmanager
def _open_file() -> Iterator[FileSnapshot]:
    with tempfile.TemporaryDirectory(dir=settings.VAR, prefix="backup-") as folder:
        path = Path(folder) / "database"
        connection.ensure_connection()
        with closing(sqlite3.connect(path)) as database:
            connection.connection.backup(database)
            yield FileSnapshot(path, database)


class TableSnapshot:
    """A transaction of PostgreSQL, to which nothing changes any more."""

    def __init__(self, session: BaseDatabaseWrapper) -> None:
        self._session = session

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self._session.cursor() as cursor:
            cursor.execute(statement)
            return cast(list[tuple[Any, ...]], cursor.fetchall())

    def count_rows(self) -> dict[str, int]:
        return {name: self.ask(f'SELECT COUNT(*) FROM "{name}"')[0][0] for name in self.tables}  # noqa: S608

    def copy(self, writer: SetWriter, progress: Progress) -> tuple[tuple[DatabaseBlock, ...], tuple[TableCopy, ...]]:
        tables = []
        for number, name in enumerate(self.tables, 1):
            columns = [column for (column,) in self.ask(_COLUMNS.format(name))]
            cutter = BlockCutter(writer)
            with self._session.cursor() as cursor:
                cursor.copy_expert(f'COPY "{name}" ({_join(columns)}) TO STDOUT', cutter, BLOCK)
            tables.append(TableCopy(name, tuple(columns), self._sequences(name, columns), cutter.end()))
            progress("database", number, len(self.tables))
        return (), tuple(tables)

    @cached_property
    def tables(self) -> list[str]:
        """The names of the board's tables."""
        names = [name for (name,) in self.ask(_TABLES)]
        if MigrationRecorder.Migration._meta.db_table not in names:
            return []
        return own_tables(names, self.ask("SELECT app, name FROM django_migrations"))

    def _sequences(self, table: str, columns: Sequence[str]) -> dict[str, tuple[int, bool]]:
        sequences = {}
        for column in columns:
            ((sequence,),) = self.ask(f"SELECT pg_get_serial_sequence('\"{table}\"', '{column}')")
            if sequence:
                ((last, used),) = self.ask(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608
                sequences[column] = (last, used)
        return sequences


_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = CURRENT_SCHEMA() ORDER BY tablename"
_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = CURRENT_SCHEMA() AND table_name = '{}' "
    "AND is_generated = 'NEVER' ORDER BY ordinal_position"
)


class BlockCutter:
    """Takes what COPY writes, and puts it into a set block by block, cut between rows."""

    def __init__(self, writer: SetWriter) -> None:
        self._writer, self._rest, self._blocks = writer, bytearray(), list[DatabaseBlock]()

    def write(self, content: bytes) -> None:
        self._rest += content
        if len(self._rest) >= BLOCK and self._rest.endswith(b"\n"):
            self._cut()

    def end(self) -> tuple[DatabaseBlock, ...]:
        """All blocks."""
        if self._rest:
            self._cut()
        return tuple(self._blocks)

    def _cut(self) -> None:
        self._blocks.append(self._writer.put_block(bytes(self._rest)))
        self._rest.clear()


@contextmanager
def _open_tables() -> Iterator[TableSnapshot]:
    session = connection.copy()
    try:
        with transaction_of(session, "ISOLATION LEVEL REPEATABLE READ, READ ONLY"):
            yield TableSnapshot(session)
    finally:
        session.close()


@contextmanager
def transaction_of(session: BaseDatabaseWrapper, mode: str) -> Iterator[None]:
    """A transaction in this mode, on a connection of its own."""
    session.ensure_connection()
    session.set_autocommit(False)
    with session.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION {mode}")
    try:
        yield
    finally:
        session.rollback()


def _join(columns: Sequence[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def count_contents() -> dict[str, int]:
    """The rows of each table of this process's database that a restore would replace and that migrations leave empty.

    Empty tables are left out.
    """
    connection.ensure_connection()
    is_file = connection.vendor == "sqlite"
    counts = count_rows_of_file(connection.connection) if is_file else TableSnapshot(connection).count_rows()
    return {table: count for table, count in counts.items() if count and table not in FILLED}


def identify_board() -> str:
    """What tells this board from others, also once it is restored: a hash of when its database was first migrated.

    Raises Refused where the database holds no board.
    """
    if not MigrationRecorder(connection).has_table():
        raise Refused("the database holds no board: run `manage.py migrate` first")
    first = MigrationRecorder.Migration.objects.earliest("pk")
    return hashlib.sha256(first.applied.isoformat().encode()).hexdigest()


def count_users() -> int:
    """Other connections to the database; where it cannot tell, as SQLite, the workers that live."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = CURRENT_DATABASE() AND pid <> PG_BACKEND_PID() "
                "AND backend_type = 'client backend'"
            )
            return int(cursor.fetchone()[0])
    try:
        return Worker.objects.alive().only("pk").count()
    except DatabaseError:  # a new database has no workers yet
        return 0


def unknown_migrations(manifest: Manifest) -> list[str]:
    """Migrations that the set has seen and this code does not have: it is of a later release."""
    loader = MigrationExecutor(connection).loader
    return [
        f"{app} {name}"
        for app, name in manifest.migrations
        if (app, name) not in loader.disk_migrations and (app, name) not in loader.replacements
    ]


def load(reader: SetReader, manifest: Manifest, progress: Progress) -> tuple[str, ...]:
    """Put the database of a set in place of this one: all of it, or nothing.

    Returns the tables of the set that are not the board's, which were left out.
    """
    if connection.vendor == "postgresql":
        return _load_tables(reader, manifest, progress)
    _load_file(reader, manifest, progress)
    return ()


def _load_file(reader: SetReader, manifest: Manifest, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(dir=settings.VAR, prefix="restore-") as folder:
        path = Path(folder) / "database"
        with path.open("wb") as file:
            for number, block in enumerate(manifest.blocks, 1):
                file.write(reader.read_block(block))
                progress("database", number, len(manifest.blocks))
        with closing(sqlite3.connect(path)) as database:
            compare_rows(manifest, count_rows_of_file(database))
            connection.close()
            with closing(sqlite3.connect(connection.settings_dict["NAME"])) as target:
                database.backup(target)


def _load_tables(reader: SetReader, manifest: Manifest, progress: Progress) -> tuple[str, ...]:
    with transaction.atomic(), connection.cursor() as cursor:
        if old_tables := TableSnapshot(connection).tables:
            cursor.execute(f"DROP TABLE {_join(old_tables)} CASCADE")
        _migrate_to(manifest.migrations)
        new_tables = TableSnapshot(connection).tables
        tables = [table for table in manifest.tables if table.name in new_tables]
        cursor.execute(f"TRUNCATE {_join([table.name for table in tables])}")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")  # migrations check at once, and tables come by name
        foreign_tables = tuple(table.name for table in manifest.tables if table.name not in new_tables)
        counts = {name: manifest.rows[name] for name in foreign_tables}
        for number, table in enumerate(tables, 1):
            statement = f'COPY "{table.name}" ({_join(table.columns)}) FROM STDIN'
            cursor.copy_expert(statement, cast(IO[bytes], BlockStream(reader, table.blocks)), BLOCK)
            counts[table.name] = cursor.rowcount
            for column, (last, used) in table.sequences.items():
                cursor.execute(
                    "SELECT setval(pg_get_serial_sequence(%s, %s), %s, %s)", [f'"{table.name}"', column, last, used]
                )
            progress("database", number, len(tables))
        compare_rows(manifest, counts)
    return foreign_tables


class BlockStream:
    """The blocks of a table as a file that COPY reads."""

    def __init__(self, reader: SetReader, blocks: Sequence[DatabaseBlock]) -> None:
        self._reader, self._blocks, self._rest = reader, list(reversed(blocks)), b""

    def read(self, size: int) -> bytes:
        if not self._rest and self._blocks:
            self._rest = self._reader.read_block(self._blocks.pop())
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def own_tables(names: Sequence[str], migrations: Sequence[tuple[str, str]]) -> list[str]:
    """Those of the tables that these migrations made; where this code lacks some of an app's, all that are named so."""
    loader = MigrationExecutor(connection).loader
    models = loader.project_state(_last_of(loader, migrations)).apps.get_models(include_auto_created=True)
    made_tables = {model._meta.db_table for model in models} | {MigrationRecorder.Migration._meta.db_table}
    prefixes = tuple({f"{app}_" for app, name in migrations if (app, name) not in loader.graph.nodes})
    return [name for name in names if name in made_tables or name.startswith(prefixes)]


def _migrate_to(migrations: Sequence[tuple[str, str]]) -> None:
    """Make empty tables as they were when these migrations had been applied."""
    executor = MigrationExecutor(connection)
    executor.migrate(_last_of(executor.loader, migrations))


def _last_of(loader: MigrationLoader, migrations: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The migrations of each app that none of the others of the app builds on."""
    graph, keys = loader.graph, set(migrations)
    return sorted(
        key
        for key in keys
        if key in graph.nodes
        and not any(child.key in keys and child.key[0] == key[0] for child in graph.node_map[key].children)
    )


def compare_rows(manifest: Manifest, counts: dict[str, int]) -> None:
    """Raise Refused where a table has not the rows that the set says."""
    for table, count in manifest.rows.items():
        if counts.get(table) != count:
            raise Refused(f"{table} has {counts.get(table)} rows and the set says {count}. Use another set")
