from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import day_called, metric_called
from leaderboard.management.output import RefusableCommand, json_format
from leaderboard.models import Standing
from leaderboard.rankings.exports import write
from leaderboard.rankings.rows import read_rankings
from leaderboard.rankings.selection import select_ranking
from leaderboard.rankings.sheets import sheet_of
from leaderboard.rankings.versions import with_versions
from leaderboard.rankings.view import View

COLUMNS = ("date", "n", "missing")  # beside the values, of every metric


class Command(RefusableCommand):
    help = "A ranking of a metric: now, under one of its versions, or as it stood at the end of a day (UTC)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric")
        parser.add_argument("--measure", help="as in toxic_fraction (default: the one its page shows first)")
        parser.add_argument("--slice", help="whole or its part alone: toxic finds TOXICITY:toxic (default: the first)")
        parser.add_argument(
            "--kind",
            choices=Standing.Population.values,
            help="among whom (default: each kind separately, where the metric ranks kinds apart)",
        )
        moment = parser.add_mutually_exclusive_group()
        moment.add_argument("--as-of", type=day_called, metavar="DATE", help="as in 2026-11-21")
        moment.add_argument("--metric-version", type=int, metavar="V", help="number of a published version")
        parser.add_argument(
            "--format",
            default="table",
            choices=["table", "json", "csv", "latex", "markdown"],
            help="how it is printed (default: table)",
        )
        json_format(parser)

    def handle(self, metric: str, **options: Any) -> None:
        selection = select_ranking(
            with_versions(metric_called(metric)),
            options["metric_version"],
            options["as_of"],
            measure=options["measure"],
            name=options["slice"],
            population=options["kind"],
        )
        ranking = read_rankings([selection], View(columns=COLUMNS, rows=None))[0]
        self.stdout.write(write(sheet_of(ranking, COLUMNS), options["format"]))
