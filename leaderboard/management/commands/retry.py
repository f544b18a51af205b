from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called, work_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.models import Work
from leaderboard.queries.work import KINDS, Wanted, find_work
from leaderboard.services.work import CannotSteer, name_of, retry


class Command(BoardCommand):
    help = "Queue failed or cancelled runs or scorings again: by number, or all that failed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=list(KINDS))
        parser.add_argument("number", nargs="*", type=int, help="as `manage.py work` lists them")
        parser.add_argument("--failed", action="store_true", help="all that failed, in place of numbers")
        parser.add_argument("--metric", default="", help="with --failed: of this metric only")

    def handle(self, kind: str, number: list[int], failed: bool, metric: str, **options: Any) -> None:
        if bool(number) == failed:
            raise CommandError(f"give the numbers of {kind}, or --failed for all that failed")
        if metric:
            metric_called(metric)
        wanted = Wanted(kind, Work.State.FAILED, metric)
        works = list(find_work(wanted)) if failed else [work_called(kind, pk) for pk in number]
        retried, refused = [], {}
        with progress_of("retry", KINDS[kind].one) as show:
            for done, work in enumerate(works, 1):
                try:
                    retry(work)
                    retried.append(work.pk)
                except CannotSteer as error:
                    refused[work.pk] = str(error)
                show(done, len(works))
        for pk in retried:
            self.say(f"{name_of(work_called(kind, pk))} is queued again")
        self.answer({"retried": retried, "refused": refused})
        if refused:
            raise CommandError("\n".join(refused.values()))
        if not works:
            self.say(f"no {kind} failed: nothing to do")
