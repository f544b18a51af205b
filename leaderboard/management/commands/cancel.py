from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import work_called
from leaderboard.management.output import BoardCommand
from leaderboard.operations.queries.work import STEERED
from leaderboard.operations.services.work import cancel_work, name_of
from scoring.refusals import Refused


class Command(BoardCommand):
    help = "Cancel runs or scorings that wait or run; `manage.py retry` queues them again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=list(STEERED), help="what the numbers count")
        parser.add_argument("number", nargs="+", type=int, help="as `manage.py work` lists them")

    def handle(self, kind: str, number: list[int], **options: Any) -> None:
        cancelled_numbers, refusals = [], {}
        for work in [work_called(kind, pk) for pk in number]:
            try:
                cancel_work(work)
            except Refused as error:
                refusals[work.pk] = str(error)
                continue
            cancelled_numbers.append(work.pk)
            self.say(f"{name_of(work)} is cancelled")
        self.answer({"cancelled": cancelled_numbers, "refused": refusals})
        if refusals:
            raise CommandError("\n".join(refusals.values()))
