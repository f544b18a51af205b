import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from leaderboard.management.lookup import metric_called
from leaderboard.services.verify import verify


class Command(BaseCommand):
    help = "Recompute what is published from what is stored, and say what differs. Exit status 1 where anything does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", nargs="?", help="slug of the metric (default: all)")

    def handle(self, metric: str | None, **options: Any) -> None:
        chosen = metric_called(metric) if metric else None
        with tqdm(desc="verify", unit="entry", file=sys.stderr) as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            found = verify(chosen, show)
        for line in (*found.not_recomputed, *found.differences):
            self.stdout.write(str(line))
        counted = (
            f"{found.versions} versions, {found.entries} entries, {found.results} results, {found.standings} ranks, "
            f"{found.artefacts} artefacts"
        )
        if found.differences:
            raise CommandError(f"{len(found.differences)} differences in {counted}")
        self.stdout.write(f"nothing differs: {counted}")
