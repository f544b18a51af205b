"""Which files this host has compared with their hashes, and in which state: each is hashed once a host, not a process.

The marks are a table in PLUMBLINE_VAR that nothing depends on: where it cannot be read or written, files are hashed
again.
"""

import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)

PATIENCE = 1.0  # seconds for another process's write, which may have been stopped in the middle
TABLE = "CREATE TABLE IF NOT EXISTS checked (place TEXT PRIMARY KEY, identity TEXT NOT NULL) WITHOUT ROWID"

Identity = tuple[str, ...]

_checked: dict[str, Identity] = {}  # what this process knows of the table


def is_checked(place: str, identity: Identity) -> bool:
    """Whether the file had its hash when it was in that state."""
    if _checked.get(place) == identity:
        return True
    rows = _ask("SELECT identity FROM checked WHERE place = ?", place)
    if [*rows] != [("\n".join(identity),)]:
        return False
    _checked[place] = identity
    return True


def note_checked(place: str, identity: Identity) -> None:
    """Note that the file has its hash in that state."""
    _checked[place] = identity
    _ask("INSERT OR REPLACE INTO checked VALUES (?, ?)", place, "\n".join(identity))


def forget_checked(place: str) -> None:
    """Have the file hashed again before it is used."""
    _checked.pop(place, None)
    _ask("DELETE FROM checked WHERE place = ?", place)


def _table() -> Path:
    return Path(settings.VAR) / "checked.sqlite3"


def _ask(statement: str, *values: str) -> list[tuple[str, ...]]:
    try:
        with closing(sqlite3.connect(_table(), timeout=PATIENCE, isolation_level=None)) as table:
            table.execute("PRAGMA synchronous = OFF")
            table.execute(TABLE)
            return table.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:  # locked, a full disk
        log.warning("the table of checked files: %s", error)
    except sqlite3.DatabaseError as error:  # a power cut has torn it
        log.warning("the table of checked files is made anew: %s", error)
        with suppress(FileNotFoundError):
            _table().unlink()
    return []
