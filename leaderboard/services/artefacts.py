"""Artefacts on the storage: written whole under a temporary name, then renamed, then referred to.

Every process compares the bytes of a file with the hash that names it at the first read, and again when the size or the
time of the file changes. A lost file is marked, and never used.
"""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, default_storage

from leaderboard.models import Artefact, AuditVerb
from leaderboard.models.clock import database_now
from leaderboard.services.audit import record
from leaderboard.services.file_marks import mark_entries, renew_ranges_on
from scoring import artefacts

SENTINEL = "plumbline-storage"
SENTINEL_TEXT = b"The files of a Plumbline board. Without this one the board takes the storage for not mounted.\n"
UNREADABLE = (errno.EIO, errno.EISDIR)  # of a file on a storage that is there

_verified: dict[str, tuple[object, ...]] = {}  # by place on the storage: size and time as the hash was right


class ArtefactLost(FileNotFoundError):
    """A stored file is missing, or its bytes do not have its hash; the storage itself is there."""

    def __init__(self, artefact: Artefact, problem: str) -> None:
        super().__init__(f"artefact {artefact}: {problem}")
        self.artefact = artefact
        self.problem = problem


class StorageAway(OSError):
    """The storage is not there: the file that marks it cannot be read."""


def mark_storage() -> None:
    """Mark the storage as this board's. Only a new board and an operator may: an empty mount point must not pass."""
    if not default_storage.exists(SENTINEL):
        default_storage.save(SENTINEL, ContentFile(SENTINEL_TEXT))


def require_storage() -> None:
    """Raise StorageAway where the storage is not there."""
    try:
        with default_storage.open(SENTINEL, "rb") as file:
            file.read(1)
    except Exception as error:
        raise StorageAway(
            f"the storage of files is away: its file {SENTINEL} cannot be read ({type(error).__name__}). Mount the "
            "storage; where it is there and new, run `manage.py mark_storage`"
        ) from error


def store(table: pa.Table, kind: str) -> Artefact:
    """Keep `table` for ever, named by the hash of its bytes.

    Storing the same bytes again changes nothing, unless the file was lost: then it is written again.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        artefacts.write(table, kind, path)
        draft = Artefact(
            sha256=artefacts.sha256(path),
            kind=kind,
            rows=table.num_rows,
            size=path.stat().st_size,
            schema_version=artefacts.SCHEMA_VERSION,
        )
        if not is_whole(draft):
            move_in(path, draft.storage_name)
    values = {field: getattr(draft, field) for field in ("kind", "rows", "size", "schema_version")}
    artefact = Artefact.objects.get_or_create(sha256=draft.sha256, defaults=values)[0]
    note_state(artefact, Artefact.State.WHOLE)
    return artefact


def is_stored(artefact: Artefact) -> bool:
    """Whether the file is there: a board may know an artefact by its hash only. Raises StorageAway."""
    if default_storage.exists(artefact.storage_name):
        return True
    require_storage()
    return False


def load(artefact: Artefact | None) -> pa.Table:
    """Read a stored artefact. Raises FileNotFoundError where nothing is stored yet, and what `open_whole` does."""
    if artefact is None:
        raise FileNotFoundError("nothing is stored yet: there is no artefact to read")
    with open_whole(artefact) as file:
        return artefacts.read(file, artefact.kind)


@contextmanager
def open_whole(artefact: Artefact) -> Iterator[BinaryIO]:
    """The stored file, whose bytes are those of its name. Raises ArtefactLost, which it marks; StorageAway."""
    with _open_checked(artefact) as file:
        yield file


def verify_stored(artefact: Artefact, *, reread: bool = False) -> None:
    """Raise what `open_whole` does where the file is not whole. reread: read an unchanged file, too."""
    if reread:
        _verified.pop(_place(artefact.storage_name), None)
    with _open_checked(artefact):
        pass


@contextmanager
def _open_checked(artefact: Artefact) -> Iterator[BinaryIO]:
    name = artefact.storage_name
    try:
        file = cast(BinaryIO, default_storage.open(name, "rb"))
    except FileNotFoundError:
        raise _mark_lost(artefact, Artefact.State.MISSING, "is not there") from None
    except Exception as error:
        require_storage()
        if isinstance(error, OSError) and error.errno in UNREADABLE:
            raise _mark_lost(artefact, Artefact.State.DAMAGED, f"cannot be read ({error.strerror})") from error
        raise
    with file:
        place, identity = _place(name), _identity(name, file)
        if _verified.get(place) != identity:
            try:
                actual = _digest(file)
            except OSError as error:
                if error.errno not in UNREADABLE:
                    raise
                raise _mark_lost(artefact, Artefact.State.DAMAGED, f"cannot be read ({error.strerror})") from error
            if actual != artefact.sha256:
                raise _mark_lost(artefact, Artefact.State.DAMAGED, f"its bytes have the sha256 {actual}")
            _verified[place] = identity
            file.seek(0)
        note_state(artefact, Artefact.State.WHOLE)
        yield file


def _mark_lost(artefact: Artefact, state: str, problem: str) -> ArtefactLost:
    """The error to raise; marks the artefact. Raises StorageAway."""
    require_storage()
    _verified.pop(_place(artefact.storage_name), None)
    if artefact.state != Artefact.State.ABSENT or state != Artefact.State.MISSING:
        note_state(artefact, state)
    return ArtefactLost(artefact, problem)


def note_state(artefact: Artefact, state: str) -> None:
    """Note that the file was found in `state`, and write a change into the audit trail."""
    if artefact.pk is None or artefact.state == state:
        return
    previous, artefact.state, artefact.checked_at = artefact.state, state, database_now()
    stale_rows = Artefact.objects.filter(pk=artefact.pk).exclude(state=state)
    if stale_rows.update(state=state, checked_at=artefact.checked_at):
        record(AuditVerb.CHANGE_STATE_OF_FILE, f"artefact {artefact.sha256}", {"from": previous, "to": state})
        mark_entries(artefact)
        if state == Artefact.State.WHOLE and previous in Artefact.LOST:
            renew_ranges_on(artefact)


def note_loss(error: ArtefactLost) -> None:
    """Mark a lost file again, because the rollback of the transaction removed the mark."""
    artefact = Artefact.objects.filter(pk=error.artefact.pk).first()
    if artefact:
        note_state(artefact, error.artefact.state)


def is_whole(artefact: Artefact) -> bool:
    """Whether the bytes are there already, and are those of the name. Raises StorageAway."""
    try:
        verify_stored(artefact)
    except ArtefactLost:
        return False
    return True


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(2**20):
        digest.update(piece)
    return digest.hexdigest()


def _file_system() -> FileSystemStorage | None:
    """The storage, where it is a folder."""
    storage = getattr(default_storage, "_wrapped", default_storage)
    return storage if isinstance(storage, FileSystemStorage) else None


def _place(name: str) -> str:
    folder = _file_system()
    return folder.path(name) if folder else name


def _identity(name: str, file: BinaryIO) -> tuple[object, ...]:
    """What changes when somebody writes to the file."""
    if _file_system():
        status = os.fstat(file.fileno())
        return status.st_ino, status.st_size, status.st_mtime_ns
    return default_storage.size(name), default_storage.get_modified_time(name)


def move_in(path: Path, name: str) -> None:
    """Put a file on the storage as `name`: all of it, or nothing. Raises StorageAway."""
    require_storage()
    folder = _file_system()
    if folder is None:
        if default_storage.exists(name):
            default_storage.delete(name)  # or what is damaged stays, and this one gets another name
        with path.open("rb") as file:  # object stores write whole objects or none
            default_storage.save(name, File(file))
        return
    target = Path(folder.path(name))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The copy happens beside the target, so that the rename stays on one file system.
    descriptor, copy = tempfile.mkstemp(dir=target.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file, path.open("rb") as source:
            while piece := source.read(2**20):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(copy, 0o644)
        os.replace(copy, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(copy)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
