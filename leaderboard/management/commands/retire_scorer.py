from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.output import BoardCommand
from leaderboard.operations.services.retirement import bring_back_scorer, retire_scorer


class Command(BoardCommand):
    help = "Retire a scorer: nothing new is scored with it, and what it scored stays. Or bring it back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("scorer", help="as in profanity, detoxify-original, lexicon:starter")
        parser.add_argument("--reason", required=True, help="why: stays in the change log for good")
        parser.add_argument("--bring-back", action="store_true", help="let a retired one be used again")

    def handle(self, scorer: str, reason: str, bring_back: bool, **options: Any) -> None:
        was_changed = bring_back_scorer(scorer, reason) if bring_back else retire_scorer(scorer, reason)
        self.say(f"{scorer} is {'in use' if bring_back else 'retired'}" + ("" if was_changed else " already"))
        self.answer({"scorer": scorer, "retired": not bring_back, "changed": was_changed})
