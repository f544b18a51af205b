import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.formats import Table, TableColumn, as_csv, as_text
from leaderboard.management.commands.rank_changes import correlation
from leaderboard.management.output import RefusableCommand, json_format
from leaderboard.queries.comparison import MOST_TEXTS, Comparison, comparable_versions, compare, find_version
from leaderboard.queries.comparison_words import attribute_table, summary
from scoring.metrics.formulas import slice_label


class Command(RefusableCommand):
    help = "Do two scorers agree on the same continuations, and do they order the models alike?"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("a", help="a metric, or one of its versions as METRIC@VERSION")
        parser.add_argument("b", help="another one that scored the same runs")
        parser.add_argument("--texts", type=int, default=MOST_TEXTS, help=f"at most so many (default: {MOST_TEXTS})")
        parser.add_argument(
            "--format", default="table", choices=["table", "csv", "json"], help="how it is printed (default: table)"
        )
        json_format(parser)

    def handle(self, a: str, b: str, **options: Any) -> None:
        if options["texts"] < 1:
            raise CommandError(f"--texts {options['texts']}: give 1 or more")
        versions = comparable_versions()
        comparison = compare(find_version(a, versions), find_version(b, versions), options["texts"])
        if options["format"] == "json":
            self.stdout.write(json.dumps(comparison.as_json(), indent=2, ensure_ascii=False))
        elif options["format"] == "csv":
            self.stdout.write(as_csv(attribute_table(comparison)))
        else:
            parts = [
                " ".join(summary(comparison)),
                as_text(attribute_table(comparison)),
                as_text(rank_table(comparison)),
            ]
            self.stdout.write("\n\n".join(parts))


def rank_table(comparison: Comparison) -> Table:
    """A row a pair of boards."""
    columns = [TableColumn("a", False), TableColumn("b", False), TableColumn("models"), TableColumn("other rank")]
    columns += [TableColumn("Kendall's tau", False), TableColumn("Spearman's rho", False)]
    rows = [
        (
            f"{pair.first.measure.key}, {slice_label(pair.first.slice)}",
            f"{pair.second.measure.key}, {slice_label(pair.second.slice)}",
            str(len(pair.changes.models)),
            str(pair.changes.changed_ranks),
            correlation(pair.changes.kendall),
            correlation(pair.changes.spearman),
        )
        for pair in comparison.ranks
    ]
    return Table("Order of the models", columns, rows)
