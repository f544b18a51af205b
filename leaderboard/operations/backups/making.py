"""Make a set: the database first, then every file that it mentions.

Files are written before rows refer to them and never change, so all that this moment of the database mentions is there.
What a set shares with earlier ones lies there already. An interrupted set is continued by the next run: it copies what
is not there yet.
"""

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, cast

from django.conf import settings
from django.utils import timezone

from leaderboard.operations.backups import records
from leaderboard.operations.backups.databases import Progress, Snapshot, identify_board, open_snapshot
from leaderboard.operations.backups.encryption import Cipher
from leaderboard.operations.backups.places import BackupPlace
from leaderboard.operations.backups.sets import (
    PIECE,
    Envelope,
    FileCopy,
    Manifest,
    SetWriter,
    claim_place,
    remove_old_sets,
    set_names,
)
from leaderboard.services.artefacts import require_storage
from leaderboard.services.release import code_here
from leaderboard.storage import board_storage
from scoring.refusals import Refused

MOST_SNAPSHOTS = 3  # of the database, where a file that it mentions is deleted meanwhile
FILE_KIND = "file"  # of artefacts that are no tables


class FileDeleted(Exception):
    """A file that the snapshot mentions is not there any more, and the board does not mention it now."""


@dataclass(frozen=True)
class MadeSet:
    """A whole set, the older ones that were removed after it, and how many objects only they had.

    problem: why older ones could not be removed; empty where they could.
    """

    envelope: Envelope
    removed_sets: list[str] = field(default_factory=list)
    removed_objects: int = 0
    problem: str = ""


def back_up(place: BackupPlace, cipher: Cipher, progress: Progress, keep: int = 0) -> MadeSet:
    """Write a set; with `keep` remove all sets but the newest of that number then, before another process begins one.

    Raises Refused, StorageAway, OSError; the next run continues then.
    """
    place.refuse_own_storage()
    with _alone():
        require_storage()
        claim_place(place, identify_board())
        name, begun_at = _begin(place)
        with records.recording(name, place.label, cipher.name, begun_at) as note:
            writer = SetWriter(place, cipher)
            manifest = _copy_all(writer, progress)
            envelope = _seal(name, begun_at, cipher, writer, manifest)
            place.write(f"sets/{name}.json", envelope.to_json())
            place.delete(f"sets/{name}.begun")
            note(envelope)
        return _remove_old(place, envelope, keep) if keep else MadeSet(envelope)


def _remove_old(place: BackupPlace, envelope: Envelope, keep: int) -> MadeSet:
    """Remove older sets. A failure is noted with the set, which is whole all the same."""
    try:
        return MadeSet(envelope, *remove_old_sets(place, keep))
    except Exception as error:  # noqa: BLE001 (an incident tells of it, and the next backup tries again)
        problem = str(error) or type(error).__name__
        records.note_problem(envelope.name, problem)
        return MadeSet(envelope, problem=problem)


class BackupUnderWay(Refused):
    """Another process of this host makes a backup."""


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of backups on this host. Raises BackupUnderWay where another process has it."""
    with (settings.VAR / "backup.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupUnderWay("another backup of this board is under way on this host: wait for its end") from error
        yield


def _begin(place: BackupPlace) -> tuple[str, datetime]:
    """The name of the set and when it was begun; of an interrupted one, which is continued."""
    interrupted_sets = set_names(place)[1]
    begun_at = timezone.now()
    name = interrupted_sets[-1] if interrupted_sets else f"{begun_at:%Y%m%dT%H%M%S%f}"[:-3] + "Z"
    for other in interrupted_sets[:-1]:
        place.delete(f"sets/{other}.begun")
    if not interrupted_sets:
        place.write(f"sets/{name}.begun", b"")
    return name, begun_at


def _copy_all(writer: SetWriter, progress: Progress) -> Manifest:
    for attempt in range(1, MOST_SNAPSHOTS + 1):
        try:
            with open_snapshot() as snapshot:
                return _copy_snapshot(snapshot, writer, progress)
        except FileDeleted as error:
            if attempt == MOST_SNAPSHOTS:
                raise Refused(f"{error}: files are deleted faster than they can be copied. Try again") from error
    raise AssertionError


def _copy_snapshot(snapshot: Snapshot, writer: SetWriter, progress: Progress) -> Manifest:
    migrations = snapshot.ask("SELECT app, name FROM django_migrations ORDER BY id")
    rows = snapshot.count_rows()
    artefacts = snapshot.ask("SELECT sha256, kind, size FROM leaderboard_artefact ORDER BY id")
    uploads = snapshot.ask("SELECT upload FROM leaderboard_submission WHERE upload <> '' ORDER BY id")
    blocks, tables = snapshot.copy(writer, progress)
    copier = FileCopier(writer)
    total = len(artefacts) + len(uploads)
    for number, (sha256, kind, size) in enumerate(artefacts, 1):
        copier.copy_artefact(sha256, kind, size)
        progress("files", number, total)
    for number, (name,) in enumerate(uploads, len(artefacts) + 1):
        copier.copy_upload(name)
        progress("files", number, total)
    return Manifest(
        tuple((app, name) for app, name in migrations),
        rows,
        blocks,
        tables,
        tuple(copier.files),
        copier.lost,
        tuple(copier.absent),
    )


class FileCopier:
    """Copies files of the storage into a set, and notes those that are lost, or absent with intent."""

    def __init__(self, writer: SetWriter) -> None:
        self._writer = writer
        self.files: list[FileCopy] = []
        self.lost: dict[str, str] = {}
        self.absent: list[str] = []

    def copy_artefact(self, sha256: str, kind: str, size: int) -> None:
        """Copy a file that is named by its hash; not read at all where the place has its pieces."""
        name = f"{sha256[:2]}/{sha256}{'' if kind == FILE_KIND else '.parquet'}"
        pieces = self._writer.name_pieces(sha256, size)
        if not all(map(self._writer.has, pieces)):
            try:
                with board_storage().open(name, "rb") as file:
                    actual = self._put(cast(BinaryIO, file), sha256)
            except FileNotFoundError:
                self._note_missing(name, sha256)
                return
            if actual != sha256:
                self.lost[name] = f"damaged: its bytes have the sha256 {actual}"
                return
        self.files.append(FileCopy(name, sha256, size, tuple(pieces)))

    def copy_upload(self, name: str) -> None:
        """Copy a file that somebody sent and nobody has read yet."""
        try:
            with board_storage().open(name, "rb") as file:
                sha256 = self._put(cast(BinaryIO, file), None)
                size = file.size
        except FileNotFoundError:
            if not records.mentions_upload(name):
                raise FileDeleted(name) from None
            self.lost[name] = "missing"
            return
        self.files.append(FileCopy(name, sha256, size, tuple(self._writer.name_pieces(sha256, size))))

    def _note_missing(self, name: str, sha256: str) -> None:
        require_storage()
        state = records.state_of_artefact(sha256)
        if state is None:
            raise FileDeleted(name)
        if state == "absent":
            self.absent.append(name)
        else:
            self.lost[name] = "missing"

    def _put(self, file: BinaryIO, right_hash: str | None) -> str:
        """Write the pieces of a file whose hash is as expected; returns its hash.

        A large file is read twice: the hash of the whole names its pieces, and a wrong one must not be written.
        """
        first = file.read(PIECE)
        digest, size = hashlib.sha256(first), len(first)
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
        sha256 = digest.hexdigest()
        if right_hash not in (None, sha256):
            return sha256
        names = self._writer.name_pieces(sha256, size)
        self._writer.put(names[0], first)
        if names[1:]:
            file.seek(PIECE)
        for name in names[1:]:
            self._writer.put(name, file.read(PIECE))
        return sha256


def _seal(name: str, begun_at: datetime, cipher: Cipher, writer: SetWriter, manifest: Manifest) -> Envelope:
    blocks = (*manifest.blocks, *(block for table in manifest.tables for block in table.blocks))
    return Envelope(
        name=name,
        begun_at=begun_at,
        finished_at=timezone.now(),
        board=settings.SITE_URL,
        code=code_here(),
        vendor="postgresql" if manifest.tables else "sqlite",
        encryption=cipher.name,
        files=len(manifest.files),
        size=sum(block.size for block in blocks) + sum(file.size for file in manifest.files),
        copied=writer.copied,
        lost=len(manifest.lost),
        manifest=writer.put_manifest(manifest),
        objects=tuple(sorted(writer.objects)),
    )
