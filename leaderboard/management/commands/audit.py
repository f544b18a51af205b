from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import day_called
from leaderboard.management.output import BoardCommand
from leaderboard.operations.queries.audit import BOARD, AuditSearch, describe_event, find_events

MOST = 50


class Command(BoardCommand):
    help = "The audit trail, the newest first: who did what to what, when, with what was before and after."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--actor", default="", help=f"part of a name, or '{BOARD}' for what nobody did by name")
        parser.add_argument("--verb", default="", help="as in 'withdraw model'")
        parser.add_argument("--about", default="", metavar="WORDS", help="in the object, as in 'metric safety-toxigen'")
        parser.add_argument("--since", type=day_called, metavar="DATE", help="from this day on, in UTC")
        parser.add_argument("--until", type=day_called, metavar="DATE", help="to the end of this day")
        parser.add_argument("--most", type=int, default=MOST, help=f"show at most so many (default: {MOST})")

    def handle(self, most: int, **options: Any) -> None:
        search = AuditSearch(*(options[name] for name in ("actor", "verb", "about", "since", "until")))
        matches = find_events(search)
        events = [describe_event(event) for event in matches[: max(1, most)]]
        self.answer({"total": matches.count(), "events": [description.as_json() for description in events]})
        for description in events:
            self.say(
                f"{description.event.at:%Y-%m-%d %H:%M:%S}  {description.actor}: {description.event.verb}, "
                f"{description.event.subject}"
            )
            for name, old_value, new_value in description.changes:
                self.say(f"    {name}: {old_value or 'nothing'} -> {new_value or 'nothing'}")
            for name, value in description.rest:
                self.say(f"    {name}: {value}")
