"""Boards as rows: computed once, and copied into the database by each test that wants one.

Rows are read and written as the database holds them: making objects of them, as `loaddata` does, takes far longer.
"""

import fcntl
import hashlib
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.color import no_style
from django.db import connection, models, transaction

from leaderboard.models import Artefact, Release

MOST_AGE = 3600.0  # seconds
ROWS_A_STATEMENT = 500


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
    mark = "?" if connection.vendor == "sqlite" else "%s"
    with transaction.atomic(), connection.cursor() as cursor:
        driver = connection.connection.cursor()  # Django's own looks at each of the marks
        for rows in board:
            statement = f"INSERT INTO {_names([rows.model._meta.db_table])} ({_names(rows.columns)}) VALUES "  # noqa: S608 (names of models)
            place = f"({', '.join([mark] * len(rows.columns))})"
            for first in range(0, len(rows.values), ROWS_A_STATEMENT):
                few = rows.values[first : first + ROWS_A_STATEMENT]
                driver.execute(statement + ", ".join([place] * len(few)), [value for row in few for value in row])
        for statement in connection.ops.sequence_reset_sql(no_style(), [rows.model for rows in board]):
            cursor.execute(statement)


def _names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(connection.ops.quote_name, names))


def recall_boards(folder: Path, name: str, build: Callable[[], list[Board]]) -> list[Board]:
    """The boards that `build` makes, which keeps their rows and files in `folder` for every process that needs them.

    They are built again after an hour, as what they say of the present is then too old, and where this code changed.
    """
    path = folder / f"{name}-{connection.vendor}-{hash_code()}"
    storage = Path(settings.MEDIA_ROOT)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and time.time() - path.stat().st_mtime < MOST_AGE:
            shutil.copytree(path / "files", storage, dirs_exist_ok=True)
            return pickle.loads((path / "rows").read_bytes())  # noqa: S301 (written below)
        for older in folder.glob(f"{name}-{connection.vendor}-*"):
            shutil.rmtree(older)
        boards = build()
        begun = Path(tempfile.mkdtemp(dir=folder))
        (begun / "files").mkdir()
        for artefact in (artefact for board in boards for rows in board for artefact in _list_artefacts(rows)):
            copy = begun / "files" / artefact.storage_name
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(storage / artefact.storage_name, copy)
        (begun / "rows").write_bytes(pickle.dumps(boards))
        begun.rename(path)
    return boards


@cache
def hash_code() -> str:
    """The state of all that a board is made by: the code, what it stands on, and what the tests build boards with."""
    root = settings.BASE_DIR
    helpers = [path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")]
    sources = [path for name in ("leaderboard", "scoring") for path in (root / name).rglob("*")]
    state = hashlib.sha256()
    for path in sorted([*helpers, *sources, root / "requirements.lock"]):
        if path.is_file() and "__pycache__" not in path.parts:  # other processes write there
            state.update(f"{path} {path.stat().st_size} ".encode() + path.read_bytes())
    return state.hexdigest()


def _list_artefacts(rows: Rows) -> list[Artefact]:
    if rows.model is not Artefact:
        return []
    return [Artefact(**dict(zip(rows.columns, row, strict=True))) for row in rows.values]
