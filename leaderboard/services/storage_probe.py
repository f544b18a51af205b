"""Whether the storage takes files: one is written and taken away again."""

from datetime import timedelta
from uuid import uuid4

from django.core.files.base import ContentFile
from django.utils import timezone

from leaderboard.storage import board_storage

FOLDER = "readyz"
FORGOTTEN_AFTER = timedelta(minutes=10)


def write_probe() -> None:
    """Write a file and take it away. Raises what the storage does: StorageAway, or another OSError."""
    name = f"{FOLDER}/{uuid4().hex}"
    board_storage().save(name, ContentFile(b"ready"))
    board_storage().delete(name)
    remove_old_probes()


def remove_old_probes() -> None:
    """Delete the probes of processes that were killed before they could."""
    for file in list(board_storage().list_files(FOLDER)):
        if file.modified_at < timezone.now() - FORGOTTEN_AFTER:
            board_storage().delete(file.name)
