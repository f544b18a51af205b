"""The storage of files: a folder or a bucket, as STORAGE_URL says. All files of a board go through this door.

A write is complete or absent: no reader ever sees half a file under its final name. What the storage does not give at
the moment is `StorageAway`, for which work waits; what is not there is `FileNotFoundError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.core.files.storage import Storage, storages

DAY = 86_400  # seconds


class StorageAway(OSError):
    """The storage does not answer, refuses, or is not the board's: work waits until it does."""


@dataclass(frozen=True)
class StoredObject:
    """A file on the storage: its name there, its bytes, and when it was written."""

    name: str
    size: int
    modified_at: datetime


class BoardStorage(Storage):
    """What every storage of a board can do beyond Django's. Saving under a name takes the place of what it named."""

    reads_in_place = False  # whether opening a file costs no more than opening one on this host

    def place(self, name: str) -> str:
        """What tells the file from those of every other storage, without credentials."""
        raise NotImplementedError

    def identity(self, name: str) -> tuple[str, ...]:
        """What changes when somebody writes to the file. Raises FileNotFoundError, StorageAway."""
        raise NotImplementedError

    def list_files(self, folder: str = "") -> Iterator[StoredObject]:
        """All files in a folder and below it, by name; none where there is no such folder. Raises StorageAway."""
        raise NotImplementedError

    @property
    def parts(self) -> "tuple[BoardStorage, ...]":
        """The storages that this one consists of."""
        return (self,)

    def holder(self, name: str) -> "BoardStorage":
        """The storage that has the file; where none has, the one that would be written to."""
        return self

    def link(self, name: str, content_type: str, file_name: str) -> str | None:
        """An address from which anybody may download the file for some minutes; None where there is none."""
        return None

    def drop_remains(self, deadline: datetime) -> int:
        """Drop what writes that began before the deadline have left without an end; returns how many."""
        return 0


def board_storage() -> BoardStorage:
    """The storage of the board's files."""
    return cast(BoardStorage, storages["default"])
