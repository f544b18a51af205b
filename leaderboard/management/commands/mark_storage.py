from typing import Any

from leaderboard.management.output import BoardCommand
from leaderboard.models import AuditVerb
from leaderboard.services.artefacts import SENTINEL, mark_storage
from leaderboard.services.audit import record


class Command(BoardCommand):
    help = (
        "Mark new file storage as this board's, once: without the mark the board takes it for unmounted. Check first "
        "that it is mounted."
    )

    def handle(self, **options: Any) -> None:
        mark_storage()
        record(AuditVerb.MARK_STORAGE, "board", {})
        self.say(f"the storage is marked: {SENTINEL}")
        self.answer({"marked": SENTINEL})
