from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import work_called
from leaderboard.management.output import BoardCommand
from leaderboard.queries.work import KINDS
from leaderboard.services.work import CannotSteer, cancel_work, name_of


class Command(BoardCommand):
    help = "Give up runs or scorings that wait or run; `manage.py retry` takes them up again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=list(KINDS))
        parser.add_argument("number", nargs="+", type=int, help="as `manage.py work` lists them")

    def handle(self, kind: str, number: list[int], **options: Any) -> None:
        cancelled, refused = [], {}
        for work in [work_called(kind, pk) for pk in number]:
            try:
                cancel_work(work)
            except CannotSteer as error:
                refused[work.pk] = str(error)
                continue
            cancelled.append(work.pk)
            self.say(f"{name_of(work)} is cancelled")
        self.answer({"cancelled": cancelled, "refused": refused})
        if refused:
            raise CommandError("\n".join(refused.values()))
