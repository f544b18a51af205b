"""The download of the whole board: a worker writes it whenever the board has changed."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from django.conf import settings

from leaderboard.exchange.export import FORMAT, write_zip
from leaderboard.models import MetricVersion
from leaderboard.models.clock import database_now
from leaderboard.queries.stamp import board_stamp
from leaderboard.services.artefacts import move_in
from leaderboard.storage import board_storage

FOLDER = "exports"
WHEN = "%Y%m%dT%H%M%SZ"
KEPT = 2  # a reader who is downloading the last but one can finish


@dataclass(frozen=True)
class BoardExport:
    """A written package: its name on the storage, its time, and the state of the board that it holds."""

    name: str
    at: datetime
    state: str


def state_of_board() -> str:
    """Return a name for what an export would hold now. It does not depend on the day."""
    stamp = board_stamp().kept.partition("|")[2]
    return sha256(f"{FORMAT} {stamp}".encode()).hexdigest()[:12]


def list_exports() -> list[BoardExport]:
    """List the exports on the storage, oldest first."""
    exports = []
    for name in sorted(board_storage().listdir(FOLDER)[1]):
        written_at, _, state = name.removesuffix(".zip").partition("-")
        if name.endswith(".zip") and state:
            exports.append(
                BoardExport(f"{FOLDER}/{name}", datetime.strptime(written_at, WHEN).replace(tzinfo=UTC), state)
            )
    return exports


def find_newest_export() -> BoardExport | None:
    """Return the newest export; None if there is none."""
    exports = list_exports()
    return exports[-1] if exports else None


def is_due() -> bool:
    """Whether the board has published numbers, and changed since an export at least EXPORT_SECONDS old."""
    newest_export = find_newest_export()
    if newest_export and (database_now() - newest_export.at).total_seconds() < settings.EXPORT_SECONDS:
        return False
    has_publication = MetricVersion.objects.filter(published_at__isnull=False).exists()
    return has_publication and (newest_export is None or newest_export.state != state_of_board())


def renew() -> None:
    """Write an export if one is due. Two calls at once write the same. Raises Refused."""
    if not is_due():
        return
    state = state_of_board()
    with tempfile.TemporaryDirectory() as folder:
        export = write_zip(Path(folder) / "board.zip")
        move_in(export.path, f"{FOLDER}/{database_now():{WHEN}}-{state}.zip")
    for old in list_exports()[:-KEPT]:
        board_storage().delete(old.name)
