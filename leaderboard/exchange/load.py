"""Import a package into an empty board: all rows, or none."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction

from leaderboard.card.form import Card
from leaderboard.exchange.export import Progress
from leaderboard.exchange.package import AGAIN, BoardPackage, open_package
from leaderboard.exchange.schemas import kind_of, list_constraints
from leaderboard.exchange.tables import BY_NAME, BY_OPERATOR, TABLES, PackageLink, PackageTable, own_of, read_link_key
from leaderboard.models import Artefact, AuditVerb, LanguageModel, Metric, Protocol
from leaderboard.services.artefacts import ArtefactLost, is_stored, is_whole, move_in, require_storage, verify_stored
from leaderboard.services.audit import record
from leaderboard.storage import board_storage
from scoring.refusals import Refused

Row = dict[str, Any]
Key = tuple[Any, ...]
WRITTEN = 2000  # rows of an INSERT
KEPT_NUMBERS = ("checks",)  # tables whose numbers stand in addresses and in the change log


def import_package(path: Path, progress: Progress = lambda *_: None) -> dict[str, int]:
    """Fill an empty board from a package; returns rows by table.

    One transaction: what is wrong anywhere leaves the board empty. Raises Refused, OSError.
    """
    refuse_unless_empty()
    with open_package(path) as package:
        stored_names: list[str] = []
        try:
            stored_names += place_artefacts(package)
            with transaction.atomic():
                refuse_unless_empty()
                rows = Loader(package).load(progress)
                note_files()
                detail = {"sha256": package.sha256, "format": package.description["plumbline_board"]["format"]}
                record(AuditVerb.IMPORT_BOARD, "board", detail | {"rows": rows})
        except BaseException:
            for name in stored_names:
                board_storage().delete(name)
            raise
    return rows


def refuse_unless_empty() -> None:
    """Raise Refused if the board has rows that a package would bring."""
    for table in TABLES:
        if table.key and table.model._default_manager.exists():
            contents = f"{Metric.objects.count()} metrics and {LanguageModel.objects.count()} models"
            raise Refused(
                f"this board has {contents} already, and a package makes a whole board: import it into an empty "
                "database, as `PLUMBLINE_VAR=elsewhere manage.py migrate` makes one. Nothing was changed"
            )


def place_artefacts(package: BoardPackage) -> Iterator[str]:
    """Store the package's artefacts; yields the names of the new ones."""
    require_storage()
    for sha256, path in package.artefacts():
        artefact = Artefact(sha256=sha256)
        if not is_whole(artefact):
            move_in(path, artefact.storage_name)
            yield artefact.storage_name


def note_files() -> None:
    """Save the state of every file: whole, damaged, or deliberately left out."""
    for artefact in Artefact.objects.all():
        if is_stored(artefact):
            with suppress(ArtefactLost):  # which is noted
                verify_stored(artefact, reread=True)
        else:
            Artefact.objects.filter(pk=artefact.pk).update(state=Artefact.State.ABSENT)


class Loader:
    """One import. It finds rows by their keys, and makes the rows that refer to them."""

    def __init__(self, package: BoardPackage) -> None:
        self._package = package
        self._keys: dict[str, dict[Key, int]] = {}  # primary keys by table and natural key
        self._late: list[tuple[PackageTable, PackageLink, Key, Key]] = []

    def load(self, progress: Progress) -> dict[str, int]:
        """Make the rows of all tables; returns their number by table. Raises Refused."""
        rows = {}
        for number, table in enumerate(TABLES, start=1):
            rows[table.name] = self._table(table)
            progress("tables", number, len(TABLES))
        for table, link, key, other in self._late:
            target = self._target(table, link, other, f"{table.path}, {link.columns[0]} = {other[0]!r}")
            table.model._default_manager.filter(pk=self._keys[table.name][key]).update(
                **{f"{link.attribute}_id": target}
            )
        self._reset_sequences()
        return rows

    def _table(self, table: PackageTable) -> int:
        keys = self._keys.setdefault(table.name, {})
        checks = {column: ColumnCheck(table, column) for column in table.columns}
        count = 0
        for first, rows in self._package.batches(table):
            instances = []
            for number, row in enumerate(rows, start=first):
                position = f"{table.path}, row {number}"
                for column, check in checks.items():
                    row[column] = check(row[column], position)
                if table.model is LanguageModel:
                    row |= check_card(row, position)
                key = tuple(row[column] for column in table.key)
                if table.key and key in keys:
                    raise Refused(f"{position}: {describe_key(table, row)} is there twice; {AGAIN}")
                keys[key] = 0
                instances.append(self._build_instance(table, row, position))
            self._write(table, instances, first)
            for row, instance in zip(rows, instances, strict=True):
                keys[tuple(row[column] for column in table.key)] = instance.pk
            count += len(rows)
        return count

    def _build_instance(self, table: PackageTable, row: Row, position: str) -> models.Model:
        values = {column: row[column] for column in own_of(table)} | dict(table.constant)
        for link in table.links:
            key = read_link_key(link, row)
            if key is None and not any(row[column] for column in link.columns if not table.is_required(column)):
                continue  # refers to nothing, as it may
            if key is None:
                fields = ", ".join(link.columns)
                raise Refused(f"{position}, fields {fields}: some have a value and some not; {AGAIN}")
            if link.late:
                self._late.append((table, link, tuple(row[column] for column in table.key), key))
            else:
                values[f"{link.attribute}_id"] = self._target(table, link, key, position)
        if row.get(BY_OPERATOR):
            values["detail"] = values["detail"] | {BY_OPERATOR: True}
        instance = table.model(**values)
        if isinstance(instance, Protocol) and instance.sha256 != identity_of(instance):
            raise Refused(f"{position}, field sha256: is not the hash of the protocol's parameters; {AGAIN}")
        return instance

    def _target(self, table: PackageTable, link: PackageLink, key: Key, position: str) -> int:
        target = self._keys[link.table].get(key)
        if target is None:
            names = ", ".join(f"{name} = {value!r}" for name, value in zip(link.columns, key, strict=True))
            raise Refused(f"{position}, {names}: there is no such row in {BY_NAME[link.table].path}; {AGAIN}")
        return target

    def _write(self, table: PackageTable, instances: list[models.Model], first: int) -> None:
        """Insert checked rows. The database may still refuse them."""
        values_by_field = {field: [getattr(instance, field) for instance in instances] for field in self_dated(table)}
        try:
            with transaction.atomic():
                table.model._default_manager.bulk_create(instances, batch_size=WRITTEN)
        except DatabaseError:
            self._blame(table, instances, first)
        for field, values in values_by_field.items():
            for instance, value in zip(instances, values, strict=True):
                setattr(instance, field, value)
        if values_by_field:
            table.model._default_manager.bulk_update(instances, list(values_by_field), batch_size=WRITTEN)

    def _blame(self, table: PackageTable, instances: list[models.Model], first: int) -> None:
        """Raise Refused for the first row that the database refuses."""
        for number, instance in enumerate(instances, start=first):
            try:
                with transaction.atomic():
                    instance.save_base(force_insert=True, raw=True)
            except DatabaseError as error:
                rule = str(error).splitlines()[0]
                raise Refused(f"{table.path}, row {number}: breaks a rule of the board ({rule}); {AGAIN}") from error
        raise Refused(f"{table.path}: the database does not take its rows together; {AGAIN}")

    def _reset_sequences(self) -> None:
        """Continue the automatic keys after the imported ones."""
        table_models = [BY_NAME[name].model for name in KEPT_NUMBERS]
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), table_models):
                cursor.execute(statement)


class ColumnCheck:
    """Checks the values of a column."""

    def __init__(self, table: PackageTable, column: str) -> None:
        self._column = column
        self._kind = kind_of(table, column)
        rules = list_constraints(table, column)
        self._required = rules.get("required", False)
        self._known = frozenset(rules.get("enum", ()))
        self._longest = rules.get("maxLength")
        self._least, self._most = rules.get("minimum"), rules.get("maximum")

    def __call__(self, value: Any, position: str) -> Any:
        """Return the value as the model takes it. Raises Refused."""
        if value is None:
            if self._required:
                raise self._refuse(position, "is empty", "give every row a value there")
            return None
        if self._known and value not in self._known and value != "":
            choices = ", ".join(map(str, sorted(self._known)))
            raise self._refuse(
                position, f"{value!r} is unknown", f"known here: {choices}; a newer Plumbline may know it"
            )
        if self._kind == "number" and not math.isfinite(value):
            raise self._refuse(position, f"{value} is no number", "leave unknown values out")
        if self._kind == "integer" and not self._least <= value <= (self._most or 2**63 - 1):
            raise self._refuse(position, f"{value} is out of range", f"use {self._least} to {self._most or 2**63 - 1}")
        if self._longest and len(value) > self._longest:
            raise self._refuse(position, f"has {len(value)} characters", f"use {self._longest} or fewer")
        if self._kind == "object":
            try:
                return json.loads(value)
            except ValueError as error:
                raise self._refuse(position, "is not JSON", AGAIN) from error
        return value

    def _refuse(self, position: str, problem: str, remedy: str) -> Refused:
        return Refused(f"{position}, field {self._column}: {problem}; {remedy}")


def check_card(row: Row, position: str) -> Row:
    """Return the cleaned card of a model. Raises Refused."""
    card = Card(row)
    for name, problems in card.problems.items():
        problem = problems[0].removesuffix(".")
        raise Refused(f"{position}, field {name}: {problem}; correct it on its board, and export that again")
    return card.cleaned_data


def describe_key(table: PackageTable, row: Row) -> str:
    """Describe the key of a row in words."""
    return ", ".join(f"{column} = {row[column]!r}" for column in table.key)


def self_dated(table: PackageTable) -> list[str]:
    """List the fields that Django would set to the current time in a new row."""
    fields = [field for field in table.model._meta.get_fields() if getattr(field, "auto_now_add", False)]
    return [field.name for field in fields if field.name in table.own]


def identity_of(protocol: Protocol) -> str:
    """Return the hash of everything that the protocol fixes."""
    return Protocol.identity(protocol.evaluation_set, protocol.method, protocol.parameters)
