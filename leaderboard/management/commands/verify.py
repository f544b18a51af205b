from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.services.verify import verify

COUNTED = ("versions", "entries", "results", "standings", "artefacts", "absent", "recollected")


class Command(BoardCommand):
    help = "Recompute what is published from what is stored, and say what differs. Exit status 1 where anything does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", nargs="?", help="slug of the metric (default: all)")
        parser.add_argument(
            "--recompute",
            type=int,
            default=0,
            metavar="N",
            help="take N random texts of each entry through its model again, where the model is at hand",
        )

    def handle(self, metric: str | None, recompute: int, **options: Any) -> None:
        if recompute < 0:
            raise CommandError(f"--recompute {recompute}: give a number of texts, 0 or more")
        chosen = metric_called(metric) if metric else None
        with progress_of("verify", "entry") as show:
            found = verify(chosen, show, recompute)
        for line in (*found.not_recomputed, *found.differences):
            self.say(str(line))
        counts = {
            name: getattr(found, name)
            for name in ("versions", "entries", "results", "standings", "artefacts", "absent", "recollected")
        }
        lines = {"differences": map(str, found.differences), "not_recomputed": map(str, found.not_recomputed)}
        self.answer(counts | {name: list(of) for name, of in lines.items()})
        counted = (
            f"{found.versions} versions, {found.entries} entries, {found.results} results, {found.standings} ranks, "
            f"{found.artefacts} artefacts"
            + (f", {found.recollected} texts taken through their models again" if recompute else "")
            + (f", and {found.absent} that are deliberately not kept here" if found.absent else "")
        )
        if found.differences:
            raise CommandError(f"{len(found.differences)} differences in {counted}")
        self.say(f"nothing differs: {counted}")
