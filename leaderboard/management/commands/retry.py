from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called, work_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.models import Work
from leaderboard.operations.queries.work import STEERED, WorkSearch, find_work
from leaderboard.operations.services.work import name_of, retry
from scoring.refusals import Refused


class Command(BoardCommand):
    help = "Queue failed or cancelled runs or scorings again: by number, or all that failed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", choices=list(STEERED), help="what the numbers count")
        parser.add_argument("number", nargs="*", type=int, help="as `manage.py work` lists them")
        parser.add_argument("--failed", action="store_true", help="all that failed, in place of numbers")
        parser.add_argument("--metric", default="", help="with --failed: of this metric only")

    def handle(self, kind: str, number: list[int], metric: str, **options: Any) -> None:
        all_failed = options["failed"]
        if bool(number) == all_failed:
            raise CommandError(f"give the numbers of {kind}, or --failed for all that failed")
        if metric and not all_failed:
            raise CommandError(
                f"--metric = {metric!r}: it chooses among --failed; leave it out where numbers are given"
            )
        if metric:
            metric_called(metric)
        search = WorkSearch(kind, Work.State.FAILED, metric)
        works = list(find_work(search)) if all_failed else [work_called(kind, pk) for pk in number]
        retried_numbers, refusals = [], {}
        with progress_of("retry", STEERED[kind].kind.one) as show:
            for count, work in enumerate(works, 1):
                try:
                    retry(work)
                    retried_numbers.append(work.pk)
                except Refused as error:
                    refusals[work.pk] = str(error)
                show(count, len(works))
        for pk in retried_numbers:
            self.say(f"{name_of(work_called(kind, pk))} is queued again")
        self.answer({"retried": retried_numbers, "refused": refusals})
        if refusals:
            raise CommandError("\n".join(refusals.values()))
        if not works:
            self.say(f"no {kind} failed: nothing to do")
