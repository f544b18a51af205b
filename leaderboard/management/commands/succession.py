import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.formats import as_csv, as_text
from leaderboard.management.lookup import metric_called
from leaderboard.management.output import RefusableCommand, json_format
from leaderboard.models import Succession, Work
from leaderboard.queries.succession import SuccessionReport, newest_succession, show_succession
from leaderboard.queries.succession_words import describe_cost, entry_table, pair_table, sentences, text_table
from leaderboard.services.succession import begin_succession, estimate_cost, perform, request_succession
from scoring.scorers import SCORERS


class Command(RefusableCommand):
    help = "What is left of a metric's numbers when another scorer takes over: on texts, in ranks, and in words."

    def add_arguments(self, parser: CommandParser) -> None:
        names = ", ".join(declaration.name for declaration in SCORERS)
        parser.add_argument("metric", help="slug of the metric, as in toxicity-perspective")
        parser.add_argument("--to", required=True, metavar="SCORER", help=f"the successor: {names}")
        parser.add_argument("--again", action="store_true", help="compare them again, though there is a comparison")
        parser.add_argument(
            "--begin", metavar="REASON", help="let the successor take over: all entries are scored by it"
        )
        parser.add_argument(
            "--format", default="table", choices=["table", "csv", "json"], help="how it is printed (default: table)"
        )
        json_format(parser)

    def handle(self, metric: str, **options: Any) -> None:
        metric_row, successor = metric_called(metric), options["to"]
        succession = None if options["again"] else newest_succession(metric_row, successor)
        if succession is None:
            succession = request_succession(metric_row, successor, send=False)
            perform(succession)
            succession.refresh_from_db()
        if succession.state != Work.State.DONE:
            reason = succession.reason or f"it is {succession.get_state_display().lower()}"
            raise CommandError(f"{succession}: {reason}")
        if options["begin"] is not None:
            self.begin(succession, options["begin"])
            return
        self.show(show_succession(succession), options["format"])

    def show(self, report: SuccessionReport, form: str) -> None:
        """Print the comparison; as CSV the pairs of entries whose order changes."""
        if form == "json":
            self.stdout.write(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
        elif form == "csv":
            self.stdout.write(as_csv(pair_table(report)))
        else:
            tables = [text_table(report), entry_table(report), pair_table(report)]
            parts = ["\n".join(sentences(report)), *(as_text(table) for table in tables if table.rows)]
            self.stdout.write("\n\n".join(parts))

    def begin(self, succession: Succession, reason: str) -> None:
        """Begin the succession, and say what it costs."""
        words = describe_cost(estimate_cost(succession))
        rescoring = begin_succession(succession, reason)
        self.stdout.write(f"{rescoring}: {rescoring.total} entries are queued. {words} {rescoring.from_version} stays.")
