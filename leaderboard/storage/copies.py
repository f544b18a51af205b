"""Copies on this host of files that lie in a bucket: named by hash, within a bound, the least recently used go first.

Processes need no locks: a copy appears whole, by a rename, and who has one open keeps its bytes when it is deleted.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from leaderboard.storage import DAY
from leaderboard.storage.folder import UNFINISHED, identity_of
from leaderboard.storage.marks import forget_checked, is_checked, note_checked

GB = 10**9


class WrongBytes(ValueError):
    """The bytes do not have the hash; `actual` is what they have, `size` how many there are."""

    def __init__(self, actual: str, size: int) -> None:
        super().__init__(f"its bytes have the sha256 {actual}")
        self.actual = actual
        self.size = size


def copies_folder() -> Path:
    """Where the copies lie."""
    return Path(settings.VAR) / "copies"


def open_copy(sha256: str) -> BinaryIO | None:
    """The copy of the file with that hash, opened; None where there is none that is whole."""
    path = _path(sha256)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    status = os.fstat(file.fileno())
    if not is_checked(str(path), identity_of(status)):
        if digest(file) != sha256:
            file.close()
            drop_copy(sha256)
            return None
        file.seek(0)
        note_checked(str(path), identity_of(status))
    with suppress(FileNotFoundError):  # another process has deleted it
        os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))  # read now, and not changed
    return file


def keep_copy(sha256: str, pieces: Iterable[bytes]) -> BinaryIO:
    """Keep bytes as the copy of the file with that hash, and open it. Raises WrongBytes, OSError."""
    path = _path(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    hasher, size = hashlib.sha256(), 0
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
    copy = os.fdopen(descriptor, "w+b")
    try:
        for piece in pieces:
            hasher.update(piece)
            size += len(piece)
            copy.write(piece)
        if hasher.hexdigest() != sha256:
            raise WrongBytes(hasher.hexdigest(), size)
        copy.seek(0)
        os.replace(draft, path)
    except BaseException:
        copy.close()
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise
    note_checked(str(path), identity_of(os.fstat(copy.fileno())))
    drop_oldest(int(settings.STORAGE_CACHE_GB * GB))  # which may be this one: it stays readable until it is closed
    return copy


def drop_copy(sha256: str) -> None:
    """Delete a copy, if there is one."""
    _path(sha256).unlink(missing_ok=True)
    forget_checked(str(_path(sha256)))


def drop_oldest(most_bytes: int) -> None:
    """Delete copies, the least recently used first, until the others take no more than `most_bytes`."""
    copies = []
    for path in copies_folder().glob("*/*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            copies.append((status.st_atime_ns, status.st_size, path))
    total = sum(size for _, size, _ in copies)
    for used_at, size, path in sorted(copies):
        if total <= most_bytes:
            return
        if path.name.startswith(UNFINISHED) and used_at > time.time_ns() - DAY * 10**9:
            continue  # another process writes it
        path.unlink(missing_ok=True)
        forget_checked(str(path))
        total -= size


def digest(file: BinaryIO) -> str:
    """The sha256 of a file from where it stands to its end, in hex digits."""
    hasher = hashlib.sha256()
    while piece := file.read(2**20):
        hasher.update(piece)
    return hasher.hexdigest()


def _path(sha256: str) -> Path:
    return copies_folder() / sha256[:2] / sha256
