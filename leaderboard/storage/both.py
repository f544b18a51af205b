"""Two storages while files move from one to the other: written to the first, read from whichever has them.

As long as every process has both, in either order, none misses what another one wrote.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any, cast

from django.core.files import File
from django.utils.deconstruct import deconstructible
from django.utils.module_loading import import_string

from leaderboard.storage import BoardStorage, StoredObject


@deconstructible
class BothStorages(BoardStorage):
    """The storage of STORAGE_URL, behind it that of STORAGE_ALSO_URL."""

    def __init__(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.first, self.second = open_entry(first), open_entry(second)
        self.reads_in_place = self.first.reads_in_place and self.second.reads_in_place

    @property
    def parts(self) -> tuple[BoardStorage, ...]:
        """The first one, then the second."""
        return self.first, self.second

    def holder(self, name: str) -> BoardStorage:
        """The first one that has the file; where none has, the first."""
        return next((part for part in self.parts if part.exists(name)), self.first)

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        """Write to the first."""
        return self.first.save(name, content, max_length=max_length)

    def open(self, name: str, mode: str = "rb") -> "File[Any]":
        """The file of the first that has it. Raises FileNotFoundError where neither has."""
        try:
            return self.first.open(name, mode)
        except FileNotFoundError:
            return self.second.open(name, mode)

    def delete(self, name: str) -> None:
        """Delete from both: from the second first, or a reader in between would find it there again."""
        self.second.delete(name)
        self.first.delete(name)

    def exists(self, name: str) -> bool:
        """Whether either has it."""
        return any(part.exists(name) for part in self.parts)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """What either has."""
        folders, files = (
            sorted(set(chain.from_iterable(names)))
            for names in zip(*(part.listdir(path) for part in self.parts), strict=True)
        )
        return folders, files

    def size(self, name: str) -> int:
        """Bytes."""
        return self.holder(name).size(name)

    def get_modified_time(self, name: str) -> datetime:
        """When the file was written."""
        return self.holder(name).get_modified_time(name)

    def place(self, name: str) -> str:
        """Where the file lies, or would."""
        return self.holder(name).place(name)

    def identity(self, name: str) -> tuple[str, ...]:
        """What changes when somebody writes to the file."""
        return self.holder(name).identity(name)

    def list_files(self, folder: str = "") -> Iterator[StoredObject]:
        """All files of either, the first one's where both have one of that name."""
        files = {file.name: file for part in reversed(self.parts) for file in part.list_files(folder)}
        return iter([files[name] for name in sorted(files)])

    def link(self, name: str, content_type: str, file_name: str) -> str | None:
        """An address of the one that has it."""
        return self.holder(name).link(name, content_type, file_name)

    def drop_remains(self, deadline: datetime) -> int:
        """Drop those of both."""
        return sum(part.drop_remains(deadline) for part in self.parts)


def open_entry(entry: dict[str, Any]) -> BoardStorage:
    """The storage of an entry of STORAGES."""
    return cast(BoardStorage, import_string(entry["BACKEND"])(**entry["OPTIONS"]))
