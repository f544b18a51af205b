from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.exports import sheet_of_standings, write
from leaderboard.management.lookup import day_called, metric_called
from leaderboard.management.output import json_format
from leaderboard.models import Standing
from leaderboard.services.past import NoStandings, ranked
from scoring.artefacts import ArtefactError


class Command(BaseCommand):
    help = "A ranking of a metric: now, under one of its versions, or as it stood at the end of a day (UTC)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric")
        parser.add_argument("--measure", help="as in toxic_fraction (default: the one its page shows first)")
        parser.add_argument("--slice", help="whole or its part alone: toxic finds TOXICITY:toxic (default: the first)")
        parser.add_argument(
            "--kind",
            choices=Standing.Population.values,
            help="among whom (default: each kind by itself, where the metric ranks kinds apart)",
        )
        when = parser.add_mutually_exclusive_group()
        when.add_argument("--as-of", type=day_called, metavar="DATE", help="as in 2026-11-21")
        when.add_argument("--metric-version", type=int, metavar="V", help="number of a published version")
        parser.add_argument("--format", default="table", choices=["table", "json", "csv", "latex", "markdown"])
        json_format(parser)

    def handle(self, metric: str, **options: Any) -> None:
        try:
            found = ranked(
                metric_called(metric),
                options["measure"],
                options["slice"],
                options["kind"],
                options["metric_version"],
                options["as_of"],
            )
        except (NoStandings, FileNotFoundError, ArtefactError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(write(sheet_of_standings(found), options["format"]))
