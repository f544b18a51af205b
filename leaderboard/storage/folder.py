"""A folder as storage: each file is written beside its place, flushed to the disk, and renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible

from leaderboard.storage import BoardStorage, StoredObject

UNFINISHED = ".unfinished-"  # how names of files begin that are being written


@deconstructible
class FolderStorage(BoardStorage, FileSystemStorage):
    """Files in a folder of this host, or of a network file system that is mounted there."""

    reads_in_place = True

    def __init__(self, location: str | Path, **options: Any) -> None:
        super().__init__(location=location, allow_overwrite=True, **options)

    def _save(self, name: str, content: "File[Any]") -> str:
        target = Path(self.path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the rename stays on one file system.
        descriptor, copy = tempfile.mkstemp(dir=target.parent, prefix=UNFINISHED)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in content.chunks(2**20):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            os.replace(copy, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(copy)
            raise
        sync_folder(target.parent)
        return name

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Names of folders and files in a folder; none where there is no such folder, as of a bucket."""
        try:
            return super().listdir(path)
        except FileNotFoundError:
            return [], []

    def place(self, name: str) -> str:
        """The path of the file."""
        return self.path(name)

    def identity(self, name: str) -> tuple[str, ...]:
        """Inode, bytes and time of the last change."""
        return identity_of(os.stat(self.path(name)))

    def list_files(self, folder: str = "") -> Iterator[StoredObject]:
        """All files in a folder and below it, by name."""
        root = Path(self.base_location)
        for parent, folders, files in os.walk(self.path(folder)):
            folders.sort()
            for file in sorted(files):
                path = Path(parent) / file
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = path.stat()
                    modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield StoredObject(path.relative_to(root).as_posix(), status.st_size, modified_at)

    def drop_remains(self, deadline: datetime) -> int:
        """Delete what a process was writing when it was killed."""
        count = 0
        for file in list(self.list_files()):
            if file.name.rpartition("/")[2].startswith(UNFINISHED) and file.modified_at < deadline:
                self.delete(file.name)
                count += 1
        return count


def identity_of(status: os.stat_result) -> tuple[str, ...]:
    """What of a file's status changes when somebody writes to it."""
    return str(status.st_ino), str(status.st_size), str(status.st_mtime_ns)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
