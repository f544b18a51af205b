"""What the columns of a table may hold, from the fields of its model: for Parquet, and in Frictionless's words."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from django.db import models

from leaderboard.services.exchange.tables import BY_NAME, Table

LARGEST = 2**31 - 1  # of an integer that the database keeps in four bytes
KINDS: tuple[tuple[Any, str], ...] = (
    (models.JSONField, "object"),
    (models.DateTimeField, "datetime"),
    (models.BooleanField, "boolean"),
    (models.FloatField, "number"),
    (models.IntegerField, "integer"),  # and its subclasses: keys, positive and big ones
    (models.TextField, "string"),
    (models.CharField, "string"),
)
ARROW = {
    "object": pa.string(),  # JSON
    "datetime": pa.timestamp("us", tz="UTC"),
    "boolean": pa.bool_(),
    "number": pa.float64(),
    "integer": pa.int64(),
    "string": pa.string(),
}


def kind_of(table: Table, column: str) -> str:
    """The type of a column, as Frictionless calls it."""
    field = table.field(column)
    return next(kind for of, kind in KINDS if isinstance(field, of))


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of the table's Parquet file."""
    return pa.schema(
        [
            pa.field(column, ARROW[kind_of(table, column)], nullable=not table.required(column))
            for column in table.columns
        ]
    )


def constraints(table: Table, column: str) -> dict[str, Any]:
    """What Frictionless calls constraints of a field."""
    field, kind = table.field(column), kind_of(table, column)
    found: dict[str, Any] = {}
    if table.required(column):
        found["required"] = True
    if field.choices:
        found["enum"] = [value for value, _ in field.flatchoices]
    elif kind == "string" and field.max_length:
        found["maxLength"] = field.max_length
    if kind == "integer":
        found["minimum"] = 0
        if not isinstance(field, models.BigIntegerField | models.PositiveBigIntegerField | models.BigAutoField):
            found["maximum"] = LARGEST
    return found


def described(table: Table) -> dict[str, Any]:
    """The table's schema for datapackage.json."""
    fields = []
    for column in table.columns:
        about = {"name": column, "type": kind_of(table, column)}
        words = str(table.field(column).help_text) if column in table.own else ""
        fields.append(about | ({"description": words} if words else {}) | {"constraints": constraints(table, column)})
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
    """What makes a cell of a value of the database."""
    if kind == "object":
        return lambda value: None if value is None else json.dumps(value, ensure_ascii=False)
    return lambda value: value
