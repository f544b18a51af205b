"""Uploads: stored under names of the board's own from their arrival until a worker has read them."""

from datetime import timedelta
from uuid import uuid4

from django.conf import settings
from django.core.files import File
from django.utils import timezone

from leaderboard.models import Submission
from leaderboard.services.alone import each_alone
from leaderboard.services.artefacts import require_storage
from leaderboard.storage import board_storage

FOLDER = "submissions"
FORGOTTEN_AFTER = timedelta(hours=6)  # no transaction takes so long


def most_bytes() -> int:
    """Return how many bytes a file may have."""
    return int(settings.UPLOAD_MOST_BYTES)


def keep(file: "File[bytes]") -> str:
    """Copy the file to the storage, piece by piece; returns its name there. Raises StorageAway, OSError."""
    require_storage()
    return str(board_storage().save(f"{FOLDER}/{uuid4().hex}", file))


def drop(name: str | None) -> None:
    """Delete a stored file, if it exists."""
    if name:
        board_storage().delete(name)


def remove_unreferenced() -> None:
    """Delete files that no submission refers to: their process died before it saved the submission."""
    known_names = set(Submission.objects.exclude(upload="").values_list("upload", flat=True))
    forgotten_before = timezone.now() - FORGOTTEN_AFTER
    old_names = [file.name for file in board_storage().list_files(FOLDER) if file.modified_at < forgotten_before]
    each_alone(drop, (name for name in old_names if name not in known_names))
