"""All files of the storage: compare them with what the board refers to, move them, delete what nothing refers to."""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings
from django.core.files import File

from leaderboard.models import Artefact, Submission
from leaderboard.models.clock import database_now
from leaderboard.operations.services.scrub import look_at
from leaderboard.services import artefacts, shards, storage_marks
from leaderboard.storage import BoardStorage, StoredObject, board_storage
from leaderboard.storage.both import BothStorages
from leaderboard.storage.copies import digest
from leaderboard.storage.folder import UNFINISHED
from leaderboard.storage.marks import is_checked, note_checked
from scoring.refusals import Refused

PROBES = "readyz"
OWN_FOLDERS = (shards.FOLDER, "exports", PROBES)  # whose files the board drops by itself
# Of a set of backups, of this board or another, whose place somebody chose in the storage.
BACKUP = re.compile(r"(?:^|/)(?:sets/(?:board|\d{8}T\d{9}Z\.(?:json|begun))|objects/[0-9a-f]{2}/[0-9a-f]{64}[^/]*)$")
HASH = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.parquet)?$")  # at the end of a name: of the file's bytes
OLD = timedelta(days=1)
PIECE = 2**20

Progress = Callable[[int, int], None]


@dataclass
class StorageComparison:
    """What a check found: names of missing and different files, and files that nothing refers to.

    read: how many files it read now; read_earlier: how many an interrupted check had read since began_at.
    """

    began_at: datetime
    read_earlier: int
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    unreferenced: list[StoredObject] = field(default_factory=list)
    files: int = 0
    read: int = 0


@dataclass
class StorageMove:
    """What a move did: files copied and their bytes, files that were there, and names of those that could not be."""

    copied: int = 0
    size: int = 0
    there_already: int = 0
    damaged: list[str] = field(default_factory=list)


def compare_files(progress: Progress, *, from_start: bool = False) -> StorageComparison:
    """Read all files that the board refers to, and list what it does not.

    Goes on where a check of this storage was interrupted less than a day ago, unless `from_start`. Raises StorageAway.
    """
    artefacts.require_storage()
    state_path = Path(settings.VAR) / "storage-check.json"
    began_at = _begin_check(state_path, from_start)
    kept_files = Artefact.objects.exclude(state=Artefact.State.ABSENT)
    due_files = kept_files.exclude(checked_at__gte=began_at).order_by("pk")
    total = kept_files.count()
    comparison = StorageComparison(began_at, total - due_files.count())
    for artefact in due_files.iterator(chunk_size=500):
        look_at(artefact)
        comparison.read += 1
        progress(comparison.read_earlier + comparison.read, total)
    names = {file.name for file in board_storage().list_files()}
    uploads = Submission.objects.exclude(upload="").values_list("upload", flat=True)
    comparison.missing = [
        artefact.storage_name for artefact in kept_files.filter(state=Artefact.State.MISSING).order_by("pk")
    ] + sorted(set(uploads).difference(names))
    comparison.different = [
        artefact.storage_name for artefact in kept_files.filter(state=Artefact.State.DAMAGED).order_by("pk")
    ]
    comparison.unreferenced = list(list_unreferenced())
    comparison.files = len(names)
    state_path.unlink(missing_ok=True)
    return comparison


def _begin_check(state_path: Path, from_start: bool) -> datetime:
    """When the check began: now, or when the one did that is continued."""
    places = [storage.place("") for storage in board_storage().parts]
    began_at = now = database_now()
    if state_path.exists() and not from_start:
        state = json.loads(state_path.read_text())
        earlier = datetime.fromisoformat(state["began_at"])
        if state.get("places") == places and earlier > now - OLD:
            began_at = earlier
    state_path.write_text(json.dumps({"began_at": began_at.isoformat(), "places": places}))
    return began_at


def list_unreferenced() -> Iterator[StoredObject]:
    """Files of the storage that no row of the board names, that it does not drop by itself, and that are no backup."""
    files = [
        file
        for file in board_storage().list_files()
        if file.name.partition("/")[0] not in OWN_FOLDERS and not BACKUP.search(file.name)
    ]
    names = referenced_names()  # after the files: what was written between them has its row by now
    return (file for file in files if file.name not in names)


def referenced_names() -> set[str]:
    """Names of the files that rows of the board name, and of its marks."""
    rows = Artefact.objects.only("sha256", "kind").iterator(chunk_size=2000)
    uploads = Submission.objects.exclude(upload="").values_list("upload", flat=True)
    return {artefacts.SENTINEL, storage_marks.MARK, *uploads, *(artefact.storage_name for artefact in rows)}


def delete_unreferenced(*, dry_run: bool) -> list[StoredObject]:
    """Delete files older than a day that nothing refers to, and what killed writers left. Returns the files.

    dry_run: only list them. A file that got a row meanwhile stays. Raises StorageAway, and Refused where database and
    storage are not of the same time.
    """
    artefacts.require_storage()
    if mismatch := storage_marks.find_mismatch():
        raise Refused(mismatch)
    deadline = database_now() - OLD
    old_files = [file for file in list_unreferenced() if file.modified_at < deadline]
    if dry_run:
        return old_files
    deleted_files = []
    for file in old_files:
        match = HASH.search(file.name)
        if match and Artefact.objects.filter(sha256=match[1]).exists():
            continue
        board_storage().delete(file.name)
        deleted_files.append(file)
    board_storage().drop_remains(deadline)
    return deleted_files


def move_files(progress: Progress) -> StorageMove:
    """Copy all files from the storage of STORAGE_ALSO_URL to that of STORAGE_URL, each compared with its hash.

    Passes follow each other until one finds nothing to copy. May be interrupted and called again, while the board
    runs. Raises Refused where there is only one storage, StorageAway; DamagedMark once all files are copied.
    """
    storage = board_storage()
    if not isinstance(storage, BothStorages):
        raise Refused(
            "STORAGE_ALSO_URL is not set: set it to the storage that the files come from, and STORAGE_URL to the one "
            "that they go to"
        )
    artefacts.require_storage()
    move = StorageMove()
    while _move_once(storage.second, storage.first, move, progress):
        pass
    storage_marks.bring_mark(storage.first)
    return move


def _move_once(source: BoardStorage, target: BoardStorage, move: StorageMove, progress: Progress) -> int:
    """Copy what the target lacks; returns how many files that were."""
    files = [file for file in source.list_files() if _is_movable(file)]
    present_names = {file.name for file in target.list_files()}
    copy_count, move.there_already, move.damaged = 0, 0, []
    for number, file in enumerate(files, start=1):
        if file.name in present_names and _is_verified(target, file.name):
            move.there_already += 1
        elif _copy(source, target, file.name):
            copy_count += 1
            move.copied += 1
            move.size += file.size
        elif source.exists(file.name):
            move.damaged.append(file.name)
        progress(number, len(files))
    return copy_count


def _is_movable(file: StoredObject) -> bool:
    folder, _, name = file.name.rpartition("/")
    # Of the marks the newest one counts, and the target may have it already.
    return folder != PROBES and file.name != storage_marks.MARK and not name.startswith(UNFINISHED)


def _is_verified(target: BoardStorage, name: str) -> bool:
    """Whether a file that is there already was compared with what it was copied from, or has the hash of its name."""
    try:
        if is_checked(target.place(name), target.identity(name)):
            return True
        match = HASH.search(name)
        if not match:
            return False
        with target.open(name, "rb") as file:
            return digest(cast(BinaryIO, file)) == match[1]
    except FileNotFoundError:
        return False


def _copy(source: BoardStorage, target: BoardStorage, name: str) -> bool:
    """Copy one file, and read it back. False where the source is gone or damaged, or something else came back."""
    with tempfile.TemporaryFile() as draft:
        hasher = hashlib.sha256()
        try:
            with source.open(name, "rb") as file:
                while piece := file.read(PIECE):
                    hasher.update(piece)
                    draft.write(piece)
        except FileNotFoundError:
            return False
        match = HASH.search(name)
        if match and hasher.hexdigest() != match[1]:
            return False
        draft.seek(0)
        target.save(name, File(draft))
    if not source.exists(name):  # deleted meanwhile, from both
        target.delete(name)
        return False
    identity = target.identity(name)
    with target.open(name, "rb") as file:
        if digest(cast(BinaryIO, file)) != hasher.hexdigest():
            target.delete(name)
            return False
    note_checked(target.place(name), identity)
    return True
