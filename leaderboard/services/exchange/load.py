"""An empty board from a package: the same rows, or none at all."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.files.storage import default_storage
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction

from leaderboard.models import Artefact, LanguageModel, Metric, Protocol
from leaderboard.services.artefacts import ArtefactLost, is_stored, is_whole, move_in, require_storage, verify_stored
from leaderboard.services.audit import record
from leaderboard.services.exchange.export import Progress
from leaderboard.services.exchange.package import AGAIN, Package, PackageRefused, opened
from leaderboard.services.exchange.schemas import constraints, kind_of
from leaderboard.services.exchange.tables import BY_NAME, BY_OPERATOR, TABLES, Link, Table, linked, own_of

Row = dict[str, Any]
Key = tuple[Any, ...]
WRITTEN = 2000  # rows of an INSERT
KEPT_NUMBERS = ("checks",)  # tables whose numbers stand in addresses and in the change log


def import_package(path: Path, progress: Progress = lambda *_: None) -> dict[str, int]:
    """Make the board that a package holds, where there is none yet; returns rows by table.

    One transaction: what is wrong anywhere leaves the board empty. Raises PackageRefused, OSError.
    """
    refuse_unless_empty()
    with opened(path) as package:
        placed: list[str] = []
        try:
            placed += place_artefacts(package)
            with transaction.atomic():
                refuse_unless_empty()
                rows = Loader(package).load(progress)
                note_files()
                detail = {"sha256": package.sha256, "format": package.description["plumbline_board"]["format"]}
                record("import board", "board", detail | {"rows": rows})
        except BaseException:
            for name in placed:
                default_storage.delete(name)
            raise
    return rows


def refuse_unless_empty() -> None:
    """Raise PackageRefused where the board has rows that a package would bring."""
    for table in TABLES:
        if table.key and table.model._default_manager.exists():
            counted = f"{Metric.objects.count()} metrics and {LanguageModel.objects.count()} models"
            raise PackageRefused(
                f"this board has {counted} already, and a package makes a whole board: import it into an empty "
                "database, as `PLUMBLINE_VAR=elsewhere manage.py migrate` makes one. Nothing was changed"
            )


def place_artefacts(package: Package) -> Iterator[str]:
    """Put the package's artefacts on the storage; yields the names of those that were not there."""
    require_storage()
    for sha256, path in package.artefacts():
        described = Artefact(sha256=sha256)
        if not is_whole(described):
            move_in(path, described.storage_name)
            yield described.storage_name


def note_files() -> None:
    """Note which files are here, whole or damaged, and which were deliberately left behind."""
    for artefact in Artefact.objects.all():
        if is_stored(artefact):
            with suppress(ArtefactLost):  # which is noted
                verify_stored(artefact, anew=True)
        else:
            Artefact.objects.filter(pk=artefact.pk).update(state=Artefact.State.ABSENT)


class Loader:
    """One import: finds rows by their keys, and makes what refers to them."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._found: dict[str, dict[Key, int]] = {}  # primary keys by table and natural key
        self._late: list[tuple[Table, Link, Key, Key]] = []

    def load(self, progress: Progress) -> dict[str, int]:
        """Make the rows of all tables. Raises PackageRefused."""
        rows = {}
        for number, table in enumerate(TABLES, start=1):
            rows[table.name] = self._table(table)
            progress("tables", number, len(TABLES))
        for table, link, key, other in self._late:
            target = self._target(table, link, other, f"{table.path}, {link.columns[0]} = {other[0]!r}")
            table.model._default_manager.filter(pk=self._found[table.name][key]).update(
                **{f"{link.attribute}_id": target}
            )
        self._listed()
        return rows

    def _table(self, table: Table) -> int:
        known = self._found.setdefault(table.name, {})
        checks = {column: Check(table, column) for column in table.columns}
        count = 0
        for first, rows in self._package.batches(table):
            made = []
            for number, row in enumerate(rows, start=first):
                where = f"{table.path}, row {number}"
                for column, check in checks.items():
                    row[column] = check(row[column], where)
                key = tuple(row[column] for column in table.key)
                if table.key and key in known:
                    raise PackageRefused(f"{where}: {said(table, row)} is there twice; {AGAIN}")
                known[key] = 0
                made.append(self._made(table, row, where))
            self._write(table, made, first)
            for row, one in zip(rows, made, strict=True):
                known[tuple(row[column] for column in table.key)] = one.pk
            count += len(rows)
        return count

    def _made(self, table: Table, row: Row, where: str) -> models.Model:
        values = {column: row[column] for column in own_of(table)} | dict(table.constant)
        for link in table.links:
            key = linked(link, row)
            if key is None and not any(row[column] for column in link.columns if not table.required(column)):
                continue  # refers to nothing, as it may
            if key is None:
                fields = ", ".join(link.columns)
                raise PackageRefused(f"{where}, fields {fields}: some have a value and some not; {AGAIN}")
            if link.late:
                self._late.append((table, link, tuple(row[column] for column in table.key), key))
            else:
                values[f"{link.attribute}_id"] = self._target(table, link, key, where)
        if row.get(BY_OPERATOR):
            values["detail"] = values["detail"] | {BY_OPERATOR: True}
        one = table.model(**values)
        if isinstance(one, Protocol) and one.sha256 != identity_of(one):
            raise PackageRefused(f"{where}, field sha256: is not the hash of the protocol's parameters; {AGAIN}")
        return one

    def _target(self, table: Table, link: Link, key: Key, where: str) -> int:
        found = self._found[link.table].get(key)
        if found is None:
            names = ", ".join(f"{name} = {value!r}" for name, value in zip(link.columns, key, strict=True))
            raise PackageRefused(f"{where}, {names}: there is no such row in {BY_NAME[link.table].path}; {AGAIN}")
        return found

    def _write(self, table: Table, made: list[models.Model], first: int) -> None:
        """Insert rows that were checked; the database has the last word."""
        given = {field: [getattr(one, field) for one in made] for field in self_dated(table)}
        try:
            with transaction.atomic():
                table.model._default_manager.bulk_create(made, batch_size=WRITTEN)
        except DatabaseError:
            self._blame(table, made, first)
        for field, values in given.items():
            for one, value in zip(made, values, strict=True):
                setattr(one, field, value)
        if given:
            table.model._default_manager.bulk_update(made, list(given), batch_size=WRITTEN)

    def _blame(self, table: Table, made: list[models.Model], first: int) -> None:
        """Raise PackageRefused for the first row that the database does not take."""
        for number, one in enumerate(made, start=first):
            try:
                with transaction.atomic():
                    one.save_base(force_insert=True, raw=True)
            except DatabaseError as error:
                rule = str(error).splitlines()[0]
                raise PackageRefused(
                    f"{table.path}, row {number}: breaks a rule of the board ({rule}); {AGAIN}"
                ) from error
        raise PackageRefused(f"{table.path}: the database does not take its rows together; {AGAIN}")

    def _listed(self) -> None:
        """Let numbers that the database gives go on after those that were kept."""
        kept = [BY_NAME[name].model for name in KEPT_NUMBERS]
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), kept):
                cursor.execute(statement)


class Check:
    """What a value of a column has to be."""

    def __init__(self, table: Table, column: str) -> None:
        self._column = column
        self._kind = kind_of(table, column)
        rules = constraints(table, column)
        self._required = rules.get("required", False)
        self._known = frozenset(rules.get("enum", ()))
        self._longest = rules.get("maxLength")
        self._least, self._most = rules.get("minimum"), rules.get("maximum")

    def __call__(self, value: Any, where: str) -> Any:
        """The value as the model takes it. Raises PackageRefused."""
        if value is None:
            if self._required:
                raise self._refused(where, "is empty", "give every row a value there")
            return None
        if self._known and value not in self._known and value != "":
            known = ", ".join(map(str, sorted(self._known)))
            raise self._refused(where, f"{value!r} is unknown", f"known here: {known}; a newer Plumbline may know it")
        if self._kind == "number" and not math.isfinite(value):
            raise self._refused(where, f"{value} is no number", "leave unknown values out")
        if self._kind == "integer" and not self._least <= value <= (self._most or 2**63 - 1):
            raise self._refused(where, f"{value} is out of range", f"use {self._least} to {self._most or 2**63 - 1}")
        if self._longest and len(value) > self._longest:
            raise self._refused(where, f"has {len(value)} characters", f"use {self._longest} or fewer")
        if self._kind == "object":
            try:
                return json.loads(value)
            except ValueError as error:
                raise self._refused(where, "is not JSON", AGAIN) from error
        return value

    def _refused(self, where: str, what: str, remedy: str) -> PackageRefused:
        return PackageRefused(f"{where}, field {self._column}: {what}; {remedy}")


def said(table: Table, row: Row) -> str:
    """The key of a row, in words."""
    return ", ".join(f"{column} = {row[column]!r}" for column in table.key)


def self_dated(table: Table) -> list[str]:
    """Fields that a new row would get the time of its making in."""
    fields = [field for field in table.model._meta.get_fields() if getattr(field, "auto_now_add", False)]
    return [field.name for field in fields if field.name in table.own]


def identity_of(protocol: Protocol) -> str:
    """The hash of all that the protocol fixes."""
    return Protocol.identity(protocol.evaluation_set, protocol.method, protocol.parameters)
