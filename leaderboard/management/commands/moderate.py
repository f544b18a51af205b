from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.models import Submission
from leaderboard.submissions.services.moderation import DECISIONS, decide


class Command(BoardCommand):
    help = "Decide on a submission that waits for a moderator. The submitter is notified, and reads the reason."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", type=int, help="number of the submission, as `manage.py submissions` prints it")
        parser.add_argument("decision", choices=DECISIONS, help="return: for changes")
        parser.add_argument("--reason", default="", help="why it is rejected, or what to change")

    def handle(self, id: int, decision: str, reason: str, **options: Any) -> None:
        submission = Submission.objects.select_related("submitter", "model").filter(pk=id).first()
        if submission is None:
            raise CommandError(f"there is no submission {id}: see `manage.py submissions --state moderated`")
        decide(submission, decision, reason)
        self.answer({"id": submission.pk, "state": submission.state, "reason": submission.reason})
        self.say(f"{submission}: {submission.get_state_display().lower()}")
