from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import day_called
from leaderboard.management.output import BoardCommand
from leaderboard.queries.audit import BOARD, Wanted, find_events, told

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
        wanted = Wanted(*(options[name] for name in ("actor", "verb", "about", "since", "until")))
        found = find_events(wanted)
        events = [told(event) for event in found[: max(1, most)]]
        self.answer({"total": found.count(), "events": [of.as_json() for of in events]})
        for of in events:
            self.say(f"{of.event.at:%Y-%m-%d %H:%M:%S}  {of.actor}: {of.event.verb}, {of.event.subject}")
            for name, before, after in of.changes:
                self.say(f"    {name}: {before or 'nothing'} -> {after or 'nothing'}")
            for name, value in of.rest:
                self.say(f"    {name}: {value}")
