import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.models import Incident, OutboxMessage
from leaderboard.operations.alerts import send_test
from leaderboard.operations.alerts.delivery import receivers

UNSET = "no receiver of incidents is set: set ALERT_WEBHOOK or ALERT_EMAIL, see .env.example"


class Command(BaseCommand):
    help = "List open incidents and undelivered messages; with --test, send a message to every receiver."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--test", action="store_true", help="send a test message now; exit status 1 if one fails")
        parser.add_argument("--json", action="store_true", help="print as JSON")

    def handle(self, test: bool, **options: Any) -> None:
        if test:
            self.test(options["json"])
        elif options["json"]:
            self.stdout.write(json.dumps(state()))
        else:
            self.tell()

    def test(self, as_json: bool) -> None:
        """Try every receiver."""
        answers = send_test()
        if as_json:
            self.stdout.write(json.dumps({"receivers": {name: wrong or "ok" for name, wrong in answers.items()}}))
        elif answers:
            for name, wrong in answers.items():
                self.stdout.write(f"{name}: {wrong or 'took the message'}")
        if not answers:
            raise CommandError(UNSET)
        if any(answers.values()):
            raise CommandError("not every receiver took the test message")

    def tell(self) -> None:
        """For people."""
        current = state()
        for incident in current["incidents"]:
            self.stdout.write(f"since {incident['opened_at']}: {incident['summary']}")
        if not current["incidents"]:
            self.stdout.write("no incident is open")
        self.stdout.write(f"{current['undelivered']} messages were not taken yet" if current["receivers"] else UNSET)


def state() -> dict[str, Any]:
    """Open incidents, receivers and how many messages wait."""
    incidents = Incident.objects.filter(resolved_at=None)
    return {
        "incidents": [
            {
                "id": incident.pk,
                "kind": incident.kind,
                "subject": incident.subject,
                "summary": incident.summary,
                "path": incident.path,
                "opened_at": incident.opened_at.isoformat(timespec="seconds"),
            }
            for incident in incidents
        ],
        "receivers": list(receivers()),
        "undelivered": OutboxMessage.objects.waiting().filter(kind=OutboxMessage.Kind.ALERT).count(),
    }
