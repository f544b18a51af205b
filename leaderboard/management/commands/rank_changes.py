import json
from typing import Any, get_args

from django.core.management.base import CommandParser

from leaderboard.formats import Table, TableColumn, as_csv, as_text
from leaderboard.management.lookup import metric_called
from leaderboard.management.output import RefusableCommand, json_format
from leaderboard.models import Standing
from leaderboard.rankings.changes import Record, record_of
from leaderboard.rankings.digits import digits_between
from leaderboard.rankings.populations import population_in_words
from leaderboard.rankings.versions import with_versions
from leaderboard.services.shifts import Shifts
from scoring.metrics.formulas import slice_phrase
from scoring.statistics.correlations import Correlation
from scoring.statistics.rank_changes import RankChanges, TieRule


class Command(RefusableCommand):
    help = "What changed between two versions of a metric: ranks, values, and how far the two orders agree."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric")
        parser.add_argument("--measure", help="as in toxic_fraction (default: the one its page shows first)")
        parser.add_argument("--slice", help="whole or its part alone: toxic finds TOXICITY:toxic (default: the first)")
        parser.add_argument(
            "--from", type=int, dest="from_number", metavar="V", help="default: the last but one version"
        )
        parser.add_argument("--to", type=int, dest="to_number", metavar="V", help="default: the last version")
        parser.add_argument(
            "--tie-rule",
            default="equal",
            choices=get_args(TieRule),
            help="equal values share a rank, as on the board; or follow each other by name (default: equal)",
        )
        parser.add_argument(
            "--kind",
            choices=Standing.Population.values,
            help="among whom, where a metric ranks kinds apart (default: the first kind there is)",
        )
        parser.add_argument(
            "--format", default="table", choices=["table", "csv", "json"], help="how it is printed (default: table)"
        )
        json_format(parser)

    def handle(self, metric: str, **options: Any) -> None:
        record = record_of(
            with_versions(metric_called(metric)),
            options["measure"],
            options["slice"],
            options["from_number"],
            options["to_number"],
            options["tie_rule"],
            options["kind"],
        )
        if options["format"] == "json":
            self.stdout.write(json.dumps(record.as_json(), indent=2, ensure_ascii=False))
        elif options["format"] == "csv":
            self.stdout.write(as_csv(table_of(record, record.changes.decimals, whole=True)))
        else:
            old_version, new_version = record.before.version, record.after.version
            digits = digits_between(old_version, new_version, record.after.measure.key)
            self.stdout.write(as_text(table_of(record, digits)))
            self.stdout.write("\n" + "\n".join(sentences(record.changes)))
            if record.distribution_shift:
                self.stdout.write("\n" + as_text(shift_table(record.distribution_shift)))


def table_of(record: Record, digits: int | None, whole: bool = False) -> Table:
    """A row a model of both boards; values with `digits` decimals, or in full. whole: with its ranks on each board."""

    def print_value(value: float, sign: str = "") -> str:
        return repr(value) if digits is None else f"{value:{sign}.{digits}f}"

    old_side, new_side = record.before, record.after
    k = new_side.version.protocol.k
    both = population_in_words(len(record.changes.models), new_side.population, new_side.version.metric.formula.by_kind)
    title = (
        f"{new_side.version.metric.slug}, {new_side.measure.label.lower()}, {slice_phrase(new_side.slice)}"
        f"{f', k = {k}' if k else ''}: version {old_side.version.number} to {new_side.version.number}, "
        f"ranks among the {both} of both"
    )
    headings = ["model", "from_rank", "to_rank", "change", "from_value", "to_value", "difference"]
    headings += ["from_board_rank", "to_board_rank"] if whole else []
    rows = [
        (
            model.model,
            str(model.from_rank),
            str(model.to_rank),
            f"{model.change:+d}" if model.change else "0",
            print_value(model.from_value),
            print_value(model.to_value),
            print_value(model.difference, "+"),
            *((str(model.from_board_rank), str(model.to_board_rank)) if whole else ()),
        )
        for model in record.changes.models
    ]
    return Table(title, [TableColumn(name, name != "model") for name in headings], rows)


def sentences(changes: RankChanges) -> list[str]:
    """What the table comes to."""
    count = len(changes.models)
    precision = "" if changes.decimals is None else f", as printed to {changes.decimals} decimals"
    statements = [
        f"{changes.changed_ranks} of {count} ranks changed (a positive change is a rise).",
        f"{changes.changed_values} of {count} values changed{precision}.",
    ]
    largest, mean = changes.largest_difference, changes.mean_abs_difference
    if largest and mean is not None:
        statements.append(
            f"Mean absolute difference {mean:.5f}; the largest is that of {largest.model}, {largest.difference:+.5f}."
        )
    statements.append(
        f"Kendall's tau {correlation(changes.kendall)}; Spearman's rho {correlation(changes.spearman)}; "
        f"ties: {changes.tie_rule}."
    )
    for side, lone_models in (("before", changes.only_before), ("after", changes.only_after)):
        if lone_models:
            statements.append(f"Only {side}: {', '.join(model.model for model in lone_models)}.")
    return statements


def correlation(coefficient: Correlation) -> str:
    """A coefficient with its interval."""
    if coefficient.value is None:
        return "none"
    return f"{coefficient.value:.3f}" + (
        "" if coefficient.low is None else f" (95% {coefficient.low:.3f} to {coefficient.high:.3f})"
    )


def shift_table(shifts: Shifts) -> Table:
    """A row an attribute and an entry, those of all entries first."""
    columns = [TableColumn("entry", False), TableColumn("attribute", False)]
    columns += [TableColumn(name) for name in ("texts", "Wasserstein", "mean shift", "labels rose", "labels fell")]
    every = [("all", shift) for shift in shifts.pooled]
    every += [(slug, shift) for slug, entry_shifts in shifts.entries.items() for shift in entry_shifts]
    rows = [
        (
            entry,
            shift.attribute,
            str(shift.n),
            f"{shift.wasserstein:.5f}",
            f"{shift.mean_shift:+.5f}",
            str(shift.rose),
            str(shift.fell),
        )
        for entry, shift in every
    ]
    return Table("How the scores of the same texts moved", columns, rows)
