"""The types and rules of a table's columns, from the fields of its model: for Parquet and for Frictionless."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from django.db import models

from leaderboard.exchange.tables import BY_NAME, PackageTable

LARGEST = 2**31 - 1  # of an integer that the database keeps in four bytes
KINDS: tuple[tuple[Any, str], ...] = (
    (models.JSONField, "object"),
    (models.DateTimeField, "datetime"),
    (models.DateField, "date"),
    (models.BooleanField, "boolean"),
    (models.FloatField, "number"),
    (models.IntegerField, "integer"),  # and its subclasses: keys, positive and big ones
    (models.TextField, "string"),
    (models.CharField, "string"),
)
ARROW = {
    "object": pa.string(),  # JSON
    "datetime": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "boolean": pa.bool_(),
    "number": pa.float64(),
    "integer": pa.int64(),
    "string": pa.string(),
}


def kind_of(table: PackageTable, column: str) -> str:
    """Return the type of a column, as Frictionless names it."""
    field = table.field(column)
    return next(kind for field_class, kind in KINDS if isinstance(field, field_class))


def arrow_schema(table: PackageTable) -> pa.Schema:
    """Return the schema of the table's Parquet file."""
    return pa.schema(
        [
            pa.field(column, ARROW[kind_of(table, column)], nullable=not table.is_required(column))
            for column in table.columns
        ]
    )


def list_constraints(table: PackageTable, column: str) -> dict[str, Any]:
    """Return the constraints of a field, as Frictionless defines them."""
    field, kind = table.field(column), kind_of(table, column)
    rules: dict[str, Any] = {}
    if table.is_required(column):
        rules["required"] = True
    if field.choices:
        rules["enum"] = [value for value, _ in field.flatchoices]
    elif kind == "string" and field.max_length:
        rules["maxLength"] = field.max_length
    if kind == "integer":
        rules["minimum"] = 0
        if not isinstance(field, models.BigIntegerField | models.PositiveBigIntegerField | models.BigAutoField):
            rules["maximum"] = LARGEST
    return rules


def describe_table(table: PackageTable) -> dict[str, Any]:
    """Make the table's schema for datapackage.json."""
    fields = []
    for column in table.columns:
        entry: dict[str, Any] = {"name": column, "type": kind_of(table, column)}
        words = str(table.field(column).help_text) if column in table.own else ""
        if words:
            entry["description"] = words
        fields.append(entry | {"constraints": list_constraints(table, column)})
    schema: dict[str, Any] = {"fields": fields}
    if table.key:
        schema["primaryKey"] = list(table.key)
    if table.links:
        schema["foreignKeys"] = [
            {
                "fields": list(link.columns),
                "reference": {"resource": link.table, "fields": list(BY_NAME[link.table].key)},
            }
            for link in table.links
        ]
    return schema


def to_cell(kind: str) -> Callable[[Any], Any]:
    """Return the function that turns a database value into a cell."""
    if kind == "object":
        return lambda value: None if value is None else json.dumps(value, ensure_ascii=False)
    return lambda value: value
