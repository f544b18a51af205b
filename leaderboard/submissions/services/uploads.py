"""Uploads: stored under names of the board's own from their arrival until a worker has read them."""

from datetime import timedelta
from uuid import uuid4

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.utils import timezone

from leaderboard.models import Submission
from leaderboard.services.alone import each_alone
from leaderboard.services.artefacts import require_storage

FOLDER = "submissions"
FORGOTTEN_AFTER = timedelta(hours=6)  # no transaction takes so long


def most_bytes() -> int:
    """Return how many bytes a file may have."""
    return int(settings.UPLOAD_MOST_BYTES)


def keep(file: "File[bytes]") -> str:
    """Copy the file to the storage, piece by piece; returns its name there. Raises StorageAway, OSError."""
    require_storage()
    name = f"{FOLDER}/{uuid4().hex}"
    try:
        return str(default_storage.save(name, file))
    except BaseException:
        default_storage.delete(name)  # the part that a full disk accepted
        raise


def drop(name: str | None) -> None:
    """Delete a stored file, if it exists."""
    if name:
        default_storage.delete(name)


def remove_unreferenced() -> None:
    """Delete files that no submission refers to: their process died before it saved the submission."""
    if not default_storage.exists(FOLDER):
        return
    known_names = set(Submission.objects.exclude(upload="").values_list("upload", flat=True))

    def remove(name: str) -> None:
        if default_storage.get_modified_time(name) < timezone.now() - FORGOTTEN_AFTER:
            drop(name)

    names = (f"{FOLDER}/{name}" for name in default_storage.listdir(FOLDER)[1])
    each_alone(remove, (name for name in names if name not in known_names))
