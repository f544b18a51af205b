"""Boards as rows: computed once, and copied into the database by each test that wants one.

Rows are read and written as the database holds them: making objects of them, as `loaddata` does, takes far longer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, models, transaction

from leaderboard.models import Release


@dataclass(frozen=True)
class Rows:
    """All rows of one table: `values` has a tuple for each, in the order of `columns`."""

    model: type[models.Model]
    columns: tuple[str, ...]
    values: list[tuple[Any, ...]]


Board = list[Rows]


def read_board() -> Board:
    """All rows that the database holds of the board."""
    models_of_board = [model for model in apps.get_app_config("leaderboard").get_models() if model is not Release]
    board = [read_rows(model) for model in models_of_board]  # the release is of the database, which has it already
    return [rows for rows in board if rows.values]


def keep_board(build: Callable[[], object]) -> Board:
    """The rows of the board that `build` makes; the database is left as it was."""
    with transaction.atomic():
        build()
        board = read_board()
        transaction.set_rollback(True)
    return board


def read_rows(model: type[models.Model]) -> Rows:
    """All rows of the model's table."""
    columns = tuple(field.column for field in model._meta.concrete_fields)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_names(columns)} FROM {_names([model._meta.db_table])}")  # noqa: S608 (names of models)
        return Rows(model, columns, cursor.fetchall())


def load_board(board: Board) -> None:
    """Write the rows of `board` into the database, whose tables are empty."""
    with transaction.atomic(), connection.cursor() as cursor:
        for rows in board:
            places = ", ".join(["%s"] * len(rows.columns))
            table = _names([rows.model._meta.db_table])
            statement = f"INSERT INTO {table} ({_names(rows.columns)}) VALUES "  # noqa: S608 (names of models)
            if connection.vendor == "postgresql":
                whole = b", ".join(cursor.mogrify(f"({places})", row) for row in rows.values)
                cursor.execute(statement + whole.decode())
            else:
                cursor.executemany(f"{statement}({places})", rows.values)
        for statement in connection.ops.sequence_reset_sql(no_style(), [rows.model for rows in board]):
            cursor.execute(statement)


def _names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(connection.ops.quote_name, names))
