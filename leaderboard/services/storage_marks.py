"""Whether the database and the storage are of the same time. Each carries the mark that the board left last on both.

A database that was put back beside newer files, or files that were put back beside a newer database, carry two
different marks, and operators are told. `manage.py mark_storage` and `manage.py restore` mark both anew.
"""

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime

from django.core.files.base import ContentFile
from django.utils import timezone

from leaderboard.models import Artefact, StorageMark
from leaderboard.services.artefacts import require_storage
from leaderboard.storage import BoardStorage, StoredObject, board_storage
from scoring.refusals import Refused

ARTEFACT_NAME = re.compile(r"[0-9a-f]{2}/([0-9a-f]{64})(?:\.parquet)?")
MARK = "plumbline-mark"
REMEDY = "Restore both from one backup; or, if they are meant to be so, run `manage.py mark_storage`"


@dataclass(frozen=True)
class FileMark:
    """The mark on the storage."""

    number: int
    newest: str
    marked_at: datetime


class DamagedMark(Refused):
    """The mark on the storage cannot be read as one."""


def read_mark() -> FileMark | None:
    """The mark on the storage, of two storages the newest; None where there is none. Raises DamagedMark, OSError."""
    marks = [mark for storage in board_storage().parts if (mark := _read(storage))]
    return max(marks, key=lambda mark: mark.number, default=None)


def _read(storage: BoardStorage) -> FileMark | None:
    try:
        with storage.open(MARK, "rb") as file:
            values = json.loads(file.read())
        return FileMark(int(values["number"]), str(values["newest"]), datetime.fromisoformat(values["marked_at"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedMark(
            f"The mark of the storage, {storage.place(MARK)}, is damaged, so that nobody can tell whether database and "
            f"storage are of the same time. {REMEDY}."
        ) from error


def find_mismatch() -> str:
    """How the database and the storage are not of the same time, in words; empty where they are. Raises OSError."""
    try:
        mark = read_mark()
    except DamagedMark as error:
        return str(error)
    own_mark = StorageMark.objects.first()
    if mark is None:
        return ""
    number = own_mark.number if own_mark else 0
    if mark.number > number and mark.newest and not Artefact.objects.filter(sha256=mark.newest).exists():
        return _describe_older_database(mark)
    if own_mark and mark.number < number:
        return _describe_older_storage(mark, own_mark)
    return ""


def renew_mark() -> bool:
    """Mark both where files were added since the last mark and nothing differs; returns whether. Raises OSError."""
    own_mark = StorageMark.objects.first()
    newest = Artefact.objects.order_by("-pk").values_list("sha256", flat=True).first() or ""
    if own_mark and own_mark.newest == newest and board_storage().exists(MARK):
        return False
    if find_mismatch():
        return False
    write_marks()
    return True


def write_marks() -> None:
    """Mark the database and the storage, also in place of a damaged mark: from now on they belong together.

    Raises StorageAway.
    """
    require_storage()
    try:
        mark = read_mark()
    except DamagedMark:
        mark = None
    own_mark = StorageMark.objects.first()
    number = 1 + max(mark.number if mark else 0, own_mark.number if own_mark else 0)
    newest = Artefact.objects.order_by("-pk").values_list("sha256", flat=True).first() or ""
    new_mark = FileMark(number, newest, timezone.now())
    for storage in board_storage().parts:
        _save(new_mark, storage)
    StorageMark.objects.update_or_create(pk=own_mark.pk if own_mark else 1, defaults=asdict(new_mark))


def bring_mark(target: BoardStorage) -> None:
    """Leave the newest mark of both storages on `target`, one of the two. Raises DamagedMark, OSError."""
    mark = read_mark()
    if mark and mark != _read(target):
        _save(mark, target)


def _save(mark: FileMark, storage: BoardStorage) -> None:
    values = asdict(mark) | {"marked_at": mark.marked_at.isoformat()}
    storage.save(MARK, ContentFile(json.dumps(values).encode()))


def _describe_older_database(mark: FileMark) -> str:
    files = unknown_files()
    newest = max((file.modified_at for file in files), default=mark.marked_at)
    return (
        f"The database is older than the storage, which was marked last on {mark.marked_at:%Y-%m-%d %H:%M} UTC: "
        f"the storage holds {len(files)} files that the database does not know, the newest from "
        f"{newest:%Y-%m-%d %H:%M} UTC. {REMEDY}."
    )


def _describe_older_storage(mark: FileMark, own_mark: StorageMark) -> str:
    later_files = Artefact.objects.filter(created_at__gt=mark.marked_at).exclude(state=Artefact.State.ABSENT)
    missing_count = sum(not board_storage().exists(artefact.storage_name) for artefact in later_files)
    return (
        f"The storage is older than the database: it was marked last on {mark.marked_at:%Y-%m-%d %H:%M} UTC, and the "
        f"database on {own_mark.marked_at:%Y-%m-%d %H:%M} UTC. Of {len(later_files)} files that came in between "
        f"{missing_count} are missing. {REMEDY}."
    )


def unknown_files() -> list[StoredObject]:
    """The artefacts on the storage that the database does not know. Reads the whole list of the storage."""
    hashes = set(Artefact.objects.values_list("sha256", flat=True))
    files = ((ARTEFACT_NAME.fullmatch(file.name), file) for file in board_storage().list_files())
    return [file for match, file in files if match and match[1] not in hashes]
