"""What the board itself knows of its backups. A database that is not migrated yet knows nothing, and is backed up all
the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection
from django.utils import timezone

from leaderboard.models import Artefact, Backup, Submission
from leaderboard.operations.backups.sets import Envelope

MOST_RECORDS = 100
NO_SET = "none"  # the name of the one record of an attempt that was refused before a set was begun


def is_recording() -> bool:
    """Whether this database has the table of backups."""
    return Backup._meta.db_table in connection.introspection.table_names()


@contextmanager
def recording(name: str, target: str, encryption: str, begun_at: datetime) -> Iterator[Callable[[Envelope], None]]:
    """Note that a backup began, and how it ended: call the yielded function with the envelope once it is whole."""
    if not is_recording():
        yield lambda _envelope: None
        return
    values = {"target": target, "encryption": encryption, "begun_at": begun_at, "finished_at": None, "problem": ""}
    backup, _ = Backup.objects.update_or_create(name=name, defaults=values)
    try:
        yield lambda envelope: note_finished(envelope, target)
    except Exception as error:
        Backup.objects.filter(pk=backup.pk).update(problem=str(error) or type(error).__name__)
        raise
    old_backups = Backup.objects.order_by("-begun_at").values_list("pk", flat=True)[MOST_RECORDS:]
    Backup.objects.filter(pk__in=list(old_backups)).delete()


def note_attempt(target: str, began_at: datetime, error: Exception) -> None:
    """Note why an attempt that began then failed, where it came to no set that `recording` notes."""
    if is_recording() and not Backup.objects.filter(begun_at__gte=began_at).exists():
        values = {"target": target, "begun_at": began_at, "problem": str(error) or type(error).__name__}
        Backup.objects.update_or_create(name=NO_SET, defaults=values)


def note_finished(envelope: Envelope, target: str) -> None:
    """Note a whole set."""
    values = {
        "target": target,
        "encryption": envelope.encryption,
        "begun_at": envelope.begun_at,
        "finished_at": envelope.finished_at,
        "files": envelope.files,
        "size": envelope.size,
        "copied": envelope.copied,
        "problem": "",
    }
    Backup.objects.update_or_create(name=envelope.name, defaults=values)


def note_problem(name: str, problem: str) -> None:
    """Note what went wrong after a set was whole."""
    if is_recording():
        Backup.objects.filter(name=name).update(problem=problem)


def note_verified(name: str) -> None:
    """Note that a set was restored on trial, and was whole."""
    Backup.objects.filter(name=name).update(verified_at=timezone.now())


def mentions_upload(name: str) -> bool:
    """Whether a submission waits for this file now."""
    return Submission.objects.filter(upload=name).exists()


def state_of_artefact(sha256: str) -> str | None:
    """The state of a file now; None where the board does not know it any more."""
    rows = Artefact.objects.filter(sha256=sha256)
    if not is_recording():  # of an earlier release, which may note no states
        return "unknown" if rows.exists() else None
    return rows.values_list("state", flat=True).first()
