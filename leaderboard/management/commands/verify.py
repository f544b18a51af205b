from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.progress import progress_of
from leaderboard.services.verify import verify

COUNTED = ("versions", "entries", "results", "standings", "artefacts", "absent", "recollected")


class Command(BoardCommand):
    help = "Recompute what is published from what is stored, and say what differs. Exit status 1 if anything does."

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
        metric_row = metric_called(metric) if metric else None
        with progress_of("verify", "entry") as show:
            verification = verify(metric_row, show, recompute)
        for line in (*verification.not_recomputed, *verification.differences):
            self.say(str(line))
        counts = {name: getattr(verification, name) for name in COUNTED}
        lines = {
            "differences": map(str, verification.differences),
            "not_recomputed": map(str, verification.not_recomputed),
        }
        self.answer(counts | {name: list(texts) for name, texts in lines.items()})
        counts_text = (
            f"{verification.versions} versions, {verification.entries} entries, {verification.results} results, "
            f"{verification.standings} ranks, "
            f"{verification.artefacts} artefacts"
            + (f", {verification.recollected} texts taken through their models again" if recompute else "")
            + (f", and {verification.absent} that are deliberately not kept here" if verification.absent else "")
        )
        if verification.differences:
            raise CommandError(f"{len(verification.differences)} differences in {counts_text}")
        self.say(f"nothing differs: {counts_text}")
