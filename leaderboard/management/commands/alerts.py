import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.models import AlertMessage, Incident
from leaderboard.services.alerts import send_test
from leaderboard.services.alerts.delivery import receivers

UNSET = "nobody is told of incidents: set ALERT_WEBHOOK or ALERT_EMAIL, see .env.example"


class Command(BaseCommand):
    help = "Incidents that are not over and messages that nobody took yet; with --test, a message to every receiver."

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
        found = send_test()
        if as_json:
            self.stdout.write(json.dumps({"receivers": {name: wrong or "ok" for name, wrong in found.items()}}))
        elif found:
            for name, wrong in found.items():
                self.stdout.write(f"{name}: {wrong or 'took the message'}")
        if not found:
            raise CommandError(UNSET)
        if any(found.values()):
            raise CommandError("not every receiver took the test message")

    def tell(self) -> None:
        """For people."""
        found = state()
        for incident in found["incidents"]:
            self.stdout.write(f"since {incident['opened_at']}: {incident['summary']}")
        if not found["incidents"]:
            self.stdout.write("no incident is open")
        self.stdout.write(f"{found['undelivered']} messages were not taken yet" if found["receivers"] else UNSET)


def state() -> dict[str, Any]:
    """Open incidents, receivers and how many messages wait."""
    incidents = Incident.objects.filter(resolved_at=None)
    return {
        "incidents": [
            {
                "id": of.pk,
                "kind": of.kind,
                "subject": of.subject,
                "summary": of.summary,
                "opened_at": of.opened_at.isoformat(timespec="seconds"),
            }
            for of in incidents
        ],
        "receivers": list(receivers()),
        "undelivered": AlertMessage.objects.filter(sent_at=None, given_up_at=None).count(),
    }
