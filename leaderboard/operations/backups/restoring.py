"""Restore a set: first the files, of which those that are whole already stay as they are, then the database at once.

A restore that was interrupted is run again: it goes on with the files that are missing. Until all of them are there the
database is as it was.
"""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from leaderboard.models import Artefact, AuditVerb, Submission
from leaderboard.operations.backups import databases, records
from leaderboard.operations.backups.databases import Progress
from leaderboard.operations.backups.encryption import cipher_called
from leaderboard.operations.backups.places import BackupPlace
from leaderboard.operations.backups.sets import (
    DamagedSet,
    Envelope,
    FileCopy,
    Manifest,
    SetReader,
    choose_set,
)
from leaderboard.services import artefacts, storage_marks
from leaderboard.services.audit import record
from leaderboard.storage import board_storage
from scoring.refusals import Refused

MOST_NAMED = 5
PIECE = 2**20


@dataclass(frozen=True)
class OpenedSet:
    """A set that can be restored here."""

    envelope: Envelope
    manifest: Manifest
    reader: SetReader


@dataclass(frozen=True)
class Restoration:
    """What a restore did.

    fetched: files that the storage did not have; unknown: files that it has beyond the set; foreign: tables of the set
    that are not the board's, and were left out.
    """

    files: int
    fetched: int
    rows: int
    migrated: int
    lost: tuple[str, ...]
    unknown: int
    foreign: tuple[str, ...] = ()


def open_set(place: BackupPlace, name: str, identity: Path | None) -> OpenedSet:
    """A set, the newest one without a name, that this release and this kind of database can restore.

    Raises Refused: of a later release, of another kind of database, no such set; WrongKey; DamagedSet.
    """
    envelope = choose_set(place, name)
    reader = SetReader(place, cipher_called(envelope.encryption, identity))
    manifest = reader.read_manifest(envelope)
    if envelope.vendor != connection.vendor:
        example = "sqlite:///FILE" if envelope.vendor == "sqlite" else "postgresql://USER:PASSWORD@HOST/NAME"
        raise Refused(
            f"set {envelope.name} is of a {envelope.vendor} database, and DATABASE_URL names one of "
            f"{connection.vendor}: set it as in {example}. `manage.py export` moves figures between the two"
        )
    if later := databases.unknown_migrations(manifest):
        raise Refused(
            f"set {envelope.name} is of a later release, {envelope.code}: this code does not know "
            f"{', '.join(later[:MOST_NAMED])}. Install that release or a later one, and restore with it"
        )
    return OpenedSet(envelope, manifest, reader)


def restore(place: BackupPlace, chosen_set: OpenedSet, progress: Progress) -> Restoration:
    """Put the set in place of what is in this database, with its files, and migrate it to this code.

    Raises DamagedSet where an object is missing or damaged: then the database is as it was.
    """
    manifest = chosen_set.manifest
    artefacts.mark_storage()
    fetched_count = restore_files(chosen_set, progress)
    foreign_tables = databases.load(chosen_set.reader, manifest, progress)
    migration_count = migrate()
    lost_names = check_files(manifest)
    records.note_finished(chosen_set.envelope, place.label)
    unknown = len(storage_marks.unknown_files())
    storage_marks.write_marks()
    detail = {"set": chosen_set.envelope.name, "code": chosen_set.envelope.code, "migrations": migration_count}
    record(AuditVerb.RESTORE_BOARD, "board", detail)
    row_count = sum(count for table, count in manifest.rows.items() if table not in foreign_tables)
    return Restoration(
        len(manifest.files), fetched_count, row_count, migration_count, lost_names, unknown, foreign_tables
    )


def restore_files(chosen_set: OpenedSet, progress: Progress) -> int:
    """Bring the files of the set to the storage; returns how many were not there whole. Raises DamagedSet."""
    files, count, problems = chosen_set.manifest.files, 0, []
    for number, file in enumerate(files, 1):
        if not is_there(file):
            try:
                fetch_file(chosen_set.reader, file)
            except DamagedSet as error:
                problems.append(str(error))
            count += 1
        progress("files", number, len(files))
    if problems:
        more = f", and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
        raise DamagedSet(
            f"{len(problems)} files of set {chosen_set.envelope.name} are damaged, and the database was left as it is: "
            f"{'; '.join(problems[:MOST_NAMED])}{more}. Restore another set; or delete the named objects, and back "
            "up again where the files still are"
        )
    return count


def is_there(file: FileCopy) -> bool:
    """Whether the storage has the file with the right bytes. Reads it."""
    try:
        with board_storage().open(file.name, "rb") as stored_file:
            digest = hashlib.sha256()
            while piece := stored_file.read(PIECE):
                digest.update(piece)
    except FileNotFoundError:
        return False
    return digest.hexdigest() == file.sha256


def fetch_file(reader: SetReader, file: FileCopy) -> None:
    """Bring one file to the storage, whole or not at all. Raises DamagedSet."""
    with tempfile.NamedTemporaryFile() as copy:
        for piece in reader.read_pieces(file):
            copy.write(piece)
        copy.flush()
        artefacts.move_in(Path(copy.name), file.name)


def migrate() -> int:
    """Bring the restored database to the state of this code; returns how many migrations that took."""
    old_count = _count_migrations()
    call_command("migrate", verbosity=0, interactive=False)
    return _count_migrations() - old_count


def _count_migrations() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM django_migrations")
        return int(cursor.fetchone()[0])


def check_files(manifest: Manifest) -> tuple[str, ...]:
    """Hold what the restored database mentions against the set; returns the names of files that were lost before.

    Raises Refused where it mentions a file that the set does not have.
    """
    stored_names = {file.name for file in manifest.files} | {*manifest.lost, *manifest.absent}
    mentioned_names = {artefact.storage_name for artefact in Artefact.objects.only("sha256", "kind")}
    mentioned_names |= set(Submission.objects.exclude(upload="").values_list("upload", flat=True))
    missing_names = sorted(mentioned_names - stored_names)
    if missing_names:
        raise Refused(
            f"the database of the set mentions {len(missing_names)} files that the set does not have, such as "
            f"{', '.join(missing_names[:MOST_NAMED])}. Restore another set with --replace"
        )
    return tuple(sorted(manifest.lost))
