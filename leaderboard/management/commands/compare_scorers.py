import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.formats import Column, Table, as_csv, as_text
from leaderboard.management.commands.rank_changes import correlation
from leaderboard.management.output import json_format
from leaderboard.services.comparison import (
    MOST_TEXTS,
    CannotCompare,
    Comparison,
    comparable_versions,
    compare,
    find_version,
)
from leaderboard.services.comparison_words import summary
from scoring.artefacts import ArtefactError
from scoring.metrics.formulas import slice_label


class Command(BaseCommand):
    help = "Do two scorers agree on the same continuations, and do they order the models alike?"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("a", help="a metric, or one of its versions as METRIC@VERSION")
        parser.add_argument("b", help="another one that scored the same runs")
        parser.add_argument("--texts", type=int, default=MOST_TEXTS, help=f"at most so many (default: {MOST_TEXTS})")
        parser.add_argument("--format", default="table", choices=["table", "csv", "json"])
        json_format(parser)

    def handle(self, a: str, b: str, **options: Any) -> None:
        if options["texts"] < 1:
            raise CommandError(f"--texts {options['texts']}: give 1 or more")
        try:
            versions = comparable_versions()
            found = compare(find_version(a, versions), find_version(b, versions), options["texts"])
        except (CannotCompare, ArtefactError, FileNotFoundError) as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps(found.as_json(), indent=2, ensure_ascii=False))
        elif options["format"] == "csv":
            self.stdout.write(as_csv(attribute_table(found)))
        else:
            parts = [" ".join(summary(found)), as_text(attribute_table(found)), as_text(rank_table(found))]
            self.stdout.write("\n\n".join(parts))


def attribute_table(found: Comparison) -> Table:
    """A row a pair of attributes."""
    numbers = ["texts", "pearson", "pearson_low", "pearson_high", "label_agreement", "kappa", "both", "only_a"]
    columns = [Column("a", False), Column("b", False), *map(Column, [*numbers, "only_b", "neither"])]

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4f}"

    rows = []
    for of in found.attributes:
        labels = of.labels
        counts = (labels.both, labels.only_first, labels.only_second, labels.neither) if labels else ("",) * 4
        pearson = (of.pearson.value, of.pearson.low, of.pearson.high)
        agreed = (labels.share, labels.kappa) if labels else (None, None)
        rows.append(
            [
                of.attribute,
                of.counterpart,
                str(of.n),
                *map(number, (*pearson, *agreed)),
                *(str(count) for count in counts),
            ]
        )
    return Table(f"Scores of the same texts: a = {found.first}, b = {found.second}", columns, rows)


def rank_table(found: Comparison) -> Table:
    """A row a pair of boards."""
    columns = [Column("a", False), Column("b", False), Column("models"), Column("other rank")]
    columns += [Column("Kendall's tau", False), Column("Spearman's rho", False)]
    rows = [
        (
            f"{of.first.measure.key}, {slice_label(of.first.slice)}",
            f"{of.second.measure.key}, {slice_label(of.second.slice)}",
            str(len(of.changes.models)),
            str(of.changes.changed_ranks),
            correlation(of.changes.kendall),
            correlation(of.changes.spearman),
        )
        for of in found.ranks
    ]
    return Table("Order of the models", columns, rows)
