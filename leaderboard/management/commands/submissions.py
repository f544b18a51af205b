import json
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from leaderboard.management.lookup import user_called
from leaderboard.models import Submission


class Command(BaseCommand):
    help = "What was submitted, the newest first: number, state, model, by whom, and why where there is a reason."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--state", choices=Submission.State.values, help="those in this state only")
        parser.add_argument("--user", help="those of this user only: name or e-mail address")
        parser.add_argument("--json", action="store_true", help="as a list of objects, with all that was sent")

    def handle(self, state: str | None, user: str | None, **options: Any) -> None:
        matches = Submission.objects.select_related("submitter", "model")
        if state:
            matches = matches.filter(state=state)
        if user:
            matches = matches.filter(submitter=user_called(user))
        rows = [self.row(submission) for submission in matches]
        if options["json"]:
            self.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False))
            return
        for row in rows:
            reason = f"  {' '.join(row['reason'].split())}" if row["reason"] else ""
            self.stdout.write(
                f"{row['id']:>6}  {row['state']:<10} {row['sent']}  {row['user']:<20} {row['name']}{reason}"
            )
        if not rows:
            self.stdout.write("nothing was submitted" + (" that fits" if state or user else " yet"))

    def row(self, submission: Submission) -> dict[str, Any]:
        return {
            "id": submission.pk,
            "state": submission.state,
            "user": submission.submitter.get_username(),
            "form": submission.form,
            "name": submission.name,
            "model": submission.model.slug if submission.model else None,
            "reason": submission.reason,
            "report": submission.report,
            "concerns": submission.concerns,
            "name_asked": submission.name_asked,
            "sent": in_minutes(submission.created_at),
            "ended": submission.ended_at and in_minutes(submission.ended_at),
            "payload": submission.payload,
        }


def in_minutes(moment: datetime) -> str:
    """A moment in UTC, as in 2026-11-21T09:30Z."""
    return moment.strftime("%Y-%m-%dT%H:%MZ")
