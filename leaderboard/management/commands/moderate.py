from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import Submission
from leaderboard.services.submissions.moderation import DECISIONS, CannotModerate, decide


class Command(BoardCommand):
    help = "Decide upon a submission that waits for a moderator. Its submitter is written to, and reads the reason."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=int, help="number of the submission, as `manage.py submissions` prints it")
        parser.add_argument("decision", choices=DECISIONS, help="return: for changes")
        parser.add_argument("--reason", default="", help="why it is rejected, or what is to be changed")

    def handle(self, id: int, decision: str, reason: str, **options: Any) -> None:
        found = Submission.objects.select_related("submitter", "model").filter(pk=id).first()
        if found is None:
            raise CommandError(f"there is no submission {id}: see `manage.py submissions --state moderated`")
        try:
            decide(found, decision, reason)
        except CannotModerate as error:
            raise CommandError(str(error)) from error
        self.answer({"id": found.pk, "state": found.state, "reason": found.reason})
        self.say(f"{found}: {found.get_state_display().lower()}")
