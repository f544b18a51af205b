"""Artefacts on the storage: written whole, named by the hash of their bytes, then referred to.

A host compares the bytes of a file with its hash at the first read, and again when the file changes. From a bucket it
reads them into copies of its own. A lost file is marked, and never used.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from django.core.files import File
from django.core.files.base import ContentFile
from django.db import transaction
from django.db.models import ProtectedError

from leaderboard.models import Artefact, AuditVerb
from leaderboard.models.clock import database_now
from leaderboard.services.audit import record
from leaderboard.services.file_marks import mark_entries, renew_ranges_on
from leaderboard.storage import BoardStorage, StorageAway, board_storage
from leaderboard.storage.copies import WrongBytes, digest, keep_copy, open_copy
from leaderboard.storage.folder import identity_of
from leaderboard.storage.marks import forget_checked, is_checked, note_checked
from scoring import artefacts

SENTINEL = "plumbline-storage"
SENTINEL_TEXT = b"The files of a Plumbline board. Without this one the board takes the storage for not mounted.\n"
UNREADABLE = (errno.EIO, errno.EISDIR)  # of a file on a storage that is there
PIECE = 2**20


class ArtefactLost(FileNotFoundError):
    """A stored file is missing, or its bytes do not have its hash; the storage itself is there."""

    def __init__(self, artefact: Artefact, problem: str) -> None:
        super().__init__(f"artefact {artefact}: {problem}")
        self.artefact = artefact
        self.problem = problem


def mark_storage() -> None:
    """Mark the storage as this board's. Only a new board and an operator may: an empty mount point must not pass."""
    for storage in board_storage().parts:
        if not storage.exists(SENTINEL):
            storage.save(SENTINEL, ContentFile(SENTINEL_TEXT))


def require_storage() -> None:
    """Raise StorageAway where the storage is not there."""
    try:
        for storage in board_storage().parts:  # or what lies in the one that is away would be missing
            with storage.open(SENTINEL, "rb") as file:
                file.read(1)
    except Exception as error:
        reason = str(error) if isinstance(error, StorageAway) else type(error).__name__
        raise StorageAway(
            f"the storage of files is away: its file {SENTINEL} cannot be read ({reason}). Mount the "
            "storage; where it is there and new, run `manage.py mark_storage`"
        ) from error


def store(table: pa.Table, kind: str) -> Artefact:
    """Keep `table` for ever, as `store_file` does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        artefacts.write(table, kind, path)
        return store_file(path, kind, table.num_rows, artefacts.SCHEMA_VERSION)


def store_file(path: Path, kind: str = Artefact.FILE, rows: int = 0, schema_version: int = 1) -> Artefact:
    """Keep a file for ever, named by the hash of its bytes.

    Storing the same bytes again changes nothing, unless the file was lost: then it is written again.
    """
    values = {"kind": kind, "rows": rows, "size": path.stat().st_size, "schema_version": schema_version}
    draft = Artefact(sha256=artefacts.sha256(path), **values)
    artefact = Artefact.objects.filter(sha256=draft.sha256).first()
    if not is_whole(artefact or draft):
        move_in(path, (artefact or draft).storage_name)
    if artefact is None:
        artefact = Artefact.objects.get_or_create(sha256=draft.sha256, defaults=values)[0]
    note_state(artefact, Artefact.State.WHOLE)
    return artefact


def forget(artefact: Artefact) -> None:
    """Delete a file that nothing refers to, with its row. Raises StorageAway, OSError.

    The file goes while the row is locked: whoever stores the same bytes meanwhile finds a row that the database lets
    nobody refer to any more, or neither row nor file. A file that went later could be one that was just stored again.
    """
    try:
        with transaction.atomic():
            row = Artefact.objects.select_for_update().filter(pk=artefact.pk).first()
            if row is not None:
                row.delete()
                board_storage().delete(row.storage_name)
    except ProtectedError:
        return


def is_stored(artefact: Artefact) -> bool:
    """Whether the file is there: a board may know an artefact by its hash only. Raises StorageAway."""
    if board_storage().exists(artefact.storage_name):
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
    """The file, whose bytes are those of its name. Raises ArtefactLost, which it marks; StorageAway."""
    with open_file(artefact) as file:
        yield file


def open_file(artefact: Artefact) -> BinaryIO:
    """The file, whose bytes are those of its name; the caller closes it. Raises what `open_whole` does.

    It lies on this host: on the storage where that is a folder, else in the host's copies.
    """
    storage = board_storage()
    if not storage.reads_in_place and (copy := open_copy(artefact.sha256)):
        return copy
    holder = storage.holder(artefact.storage_name)
    file = _open_in_place(artefact, holder) if holder.reads_in_place else _fetch(artefact, holder)
    note_state(artefact, Artefact.State.WHOLE)
    return file


def verify_stored(artefact: Artefact, *, reread: bool = False) -> None:
    """Raise what `open_whole` does where the file on the storage is not whole. reread: read an unchanged file, too."""
    name = artefact.storage_name
    holder = board_storage().holder(name)
    if reread:
        forget_checked(holder.place(name))
    if holder.reads_in_place:
        _open_in_place(artefact, holder).close()
    else:
        with reading(artefact):
            identity = holder.identity(name)
            if not is_checked(holder.place(name), identity):
                with holder.open(name, "rb") as file:
                    _require_hash(artefact, digest(cast(BinaryIO, file)))
                note_checked(holder.place(name), identity)
    note_state(artefact, Artefact.State.WHOLE)


def _open_in_place(artefact: Artefact, holder: BoardStorage) -> BinaryIO:
    name = artefact.storage_name
    with reading(artefact):
        file = cast(BinaryIO, holder.open(name, "rb"))
        try:
            place, identity = holder.place(name), identity_of(os.fstat(file.fileno()))
            if not is_checked(place, identity):
                _require_hash(artefact, digest(file))
                note_checked(place, identity)
                file.seek(0)
        except BaseException:
            file.close()
            raise
    return file


def _fetch(artefact: Artefact, holder: BoardStorage) -> BinaryIO:
    """Bring the file into this host's copies. What arrives damaged is asked for once more: the way may be at fault."""
    name = artefact.storage_name
    with reading(artefact):
        identity = holder.identity(name)
        try:
            copy = keep_copy(artefact.sha256, _pieces(holder, name))
        except WrongBytes as first:
            try:
                copy = keep_copy(artefact.sha256, _pieces(holder, name))
            except WrongBytes as error:
                if {error.size, first.size} != {holder.size(name)}:
                    raise StorageAway(f"{name} does not arrive whole: {error.size} of its bytes") from error
                raise _mark_lost(artefact, Artefact.State.DAMAGED, str(error)) from error
        note_checked(holder.place(name), identity)
    return copy


def copy_to(artefact: Artefact, path: Path) -> None:
    """Write the file to `path`, beside this host's copies: for large files that are kept elsewhere.

    Raises ArtefactLost, StorageAway, OSError.
    """
    name = artefact.storage_name
    holder = board_storage().holder(name)
    with reading(artefact), path.open("wb") as target:
        for piece in _pieces(holder, name):
            target.write(piece)
    if artefacts.sha256(path) != artefact.sha256:
        verify_stored(artefact, reread=True)
        raise StorageAway(f"{name} did not arrive whole")


def _pieces(holder: BoardStorage, name: str) -> Iterator[bytes]:
    with holder.open(name, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _require_hash(artefact: Artefact, actual: str) -> None:
    if actual != artefact.sha256:
        raise _mark_lost(artefact, Artefact.State.DAMAGED, f"its bytes have the sha256 {actual}")


@contextmanager
def reading(artefact: Artefact) -> Iterator[None]:
    """Turn errors of reading the file into ArtefactLost, which is marked, or StorageAway."""
    try:
        yield
    except (ArtefactLost, StorageAway):
        raise
    except FileNotFoundError:
        raise _mark_lost(artefact, Artefact.State.MISSING, "is not there") from None
    except Exception as error:
        require_storage()
        if isinstance(error, OSError) and error.errno in UNREADABLE:
            raise _mark_lost(artefact, Artefact.State.DAMAGED, f"cannot be read ({error.strerror})") from error
        raise


def _mark_lost(artefact: Artefact, state: str, problem: str) -> ArtefactLost:
    """The error to raise; marks the artefact. Raises StorageAway."""
    require_storage()
    storage = board_storage()
    forget_checked(storage.holder(artefact.storage_name).place(artefact.storage_name))
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


def move_in(path: Path, name: str) -> None:
    """Put a file on the storage as `name`: all of it, or nothing. Raises StorageAway."""
    require_storage()
    with path.open("rb") as file:
        board_storage().save(name, File(file))
