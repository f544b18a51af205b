from typing import Any

from leaderboard.management.output import BoardCommand
from leaderboard.models import AuditVerb
from leaderboard.services.artefacts import SENTINEL, mark_storage
from leaderboard.services.audit import record
from leaderboard.services.storage_marks import write_marks


class Command(BoardCommand):
    help = (
        "Mark the storage as this board's: a new one, which the board takes for unmounted until then, or one that is "
        "of another time than the database, and meant to be. Check first that it is mounted."
    )

    def handle(self, **options: Any) -> None:
        mark_storage()
        write_marks()
        record(AuditVerb.MARK_STORAGE, "board", {})
        self.say(f"the storage is marked: {SENTINEL}")
        self.answer({"marked": SENTINEL})
