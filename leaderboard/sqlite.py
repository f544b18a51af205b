"""On SQLite a full disk stops writing and must not stop reading.

The last connection that closes takes the index of the log with it, and the next one needs room on the disk to make it
again: so each process keeps one open that it does not use.
"""

import os
import sqlite3
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

_kept: dict[tuple[int, str], sqlite3.Connection] = {}  # by process, as a forked one may not use its parent's


def keep_open(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """For Django's `connection_created`: keep a second connection to the same file, as long as this process lives."""
    if connection.vendor != "sqlite" or connection.is_in_memory_db():  # type: ignore[attr-defined]
        return
    key = os.getpid(), str(connection.settings_dict["NAME"])
    if key not in _kept:
        second_connection = sqlite3.connect(key[1], check_same_thread=False)
        second_connection.execute(
            "SELECT COUNT(*) FROM sqlite_master"
        ).fetchone()  # it takes hold of the log with its first query
        _kept[key] = second_connection
