"""The download of the whole board: written by a worker for a state of the board, kept until there is a newer one."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from django.conf import settings
from django.core.files.storage import default_storage
from django.utils import timezone

from leaderboard.models import MetricVersion
from leaderboard.queries.stamp import board_stamp
from leaderboard.services.artefacts import move_in
from leaderboard.services.exchange.export import FORMAT, write_zip

FOLDER = "exports"
WHEN = "%Y%m%dT%H%M%SZ"
KEPT = 2  # whoever began to download the last but one can finish


@dataclass(frozen=True)
class Download:
    """A written package: its name on the storage, when it was written, and of which state of the board."""

    name: str
    at: datetime
    state: str


def state_of_board() -> str:
    """A name for what an export of now would hold; the day alone does not change it."""
    stamp = board_stamp().kept.partition("|")[2]
    return sha256(f"{FORMAT} {stamp}".encode()).hexdigest()[:12]


def written() -> list[Download]:
    """Those on the storage, the oldest first."""
    if not default_storage.exists(FOLDER):
        return []
    found = []
    for name in sorted(default_storage.listdir(FOLDER)[1]):
        when, _, state = name.removesuffix(".zip").partition("-")
        if name.endswith(".zip") and state:
            found.append(Download(f"{FOLDER}/{name}", datetime.strptime(when, WHEN).replace(tzinfo=UTC), state))
    return found


def newest() -> Download | None:
    """The one to hand out."""
    found = written()
    return found[-1] if found else None


def is_due() -> bool:
    """Whether the board has something to export, and changed since an export of EXPORT_SECONDS ago or more."""
    last = newest()
    if last and (timezone.now() - last.at).total_seconds() < settings.EXPORT_SECONDS:
        return False
    published = MetricVersion.objects.filter(published_at__isnull=False).exists()
    return published and (last is None or last.state != state_of_board())


def renew() -> bool:
    """Write the export of now if one is due; says whether it was. Two at a time write the same. Raises CannotExport."""
    if not is_due():
        return False
    state = state_of_board()
    with tempfile.TemporaryDirectory() as folder:
        made = write_zip(Path(folder) / "board.zip")
        move_in(made.path, f"{FOLDER}/{timezone.now():{WHEN}}-{state}.zip")
    for old in written()[:-KEPT]:
        default_storage.delete(old.name)
    return True
