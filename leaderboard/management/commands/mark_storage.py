from typing import Any

from leaderboard.management.output import BoardCommand
from leaderboard.models import AuditVerb
from leaderboard.services.artefacts import SENTINEL, mark_storage
from leaderboard.services.audit import record


class Command(BoardCommand):
    help = (
        "Mark the storage of files as this board's, once, where it is new: without the mark the board takes it for not "
        "mounted. Look that it is mounted first."
    )

    def handle(self, **options: Any) -> None:
        mark_storage()
        record(AuditVerb.MARK_STORAGE, "board", {})
        self.say(f"the storage is marked: {SENTINEL}")
        self.answer({"marked": SENTINEL})
