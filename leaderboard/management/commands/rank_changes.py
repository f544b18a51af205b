import json
from typing import Any, get_args

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.formats import Column, Table, as_csv, as_text
from leaderboard.management.lookup import metric_called
from leaderboard.management.output import json_format
from leaderboard.models import Standing
from leaderboard.services.places import population_in_words
from leaderboard.services.record import NoRecord, Record, record_of
from leaderboard.services.shifts import Shifts
from scoring.metrics.formulas import slice_label
from scoring.statistics.correlations import Correlation
from scoring.statistics.rank_changes import RankChanges, TieRule


class Command(BaseCommand):
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
        parser.add_argument("--format", default="table", choices=["table", "csv", "json"])
        json_format(parser)

    def handle(self, metric: str, **options: Any) -> None:
        try:
            record = record_of(
                metric_called(metric),
                options["measure"],
                options["slice"],
                options["from_number"],
                options["to_number"],
                options["tie_rule"],
                options["kind"],
            )
        except (NoRecord, FileNotFoundError) as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps(record.as_json(), indent=2, ensure_ascii=False))
        elif options["format"] == "csv":
            self.stdout.write(as_csv(table_of(record, record.changes.decimals)))
        else:
            self.stdout.write(as_text(table_of(record, digits_of(record))))
            self.stdout.write("\n" + "\n".join(sentences(record.changes)))
            if record.distribution_shift:
                self.stdout.write("\n" + as_text(shift_table(record.distribution_shift)))


def digits_of(record: Record) -> int:
    """Decimals of the values in the table."""
    return record.after.measure.digits if record.changes.decimals is None else record.changes.decimals


def table_of(record: Record, digits: int | None) -> Table:
    """A row a model of both boards; values with `digits` decimals, or in full."""

    def printed(value: float, sign: str = "") -> str:
        return repr(value) if digits is None else f"{value:{sign}.{digits}f}"

    before, after = record.before, record.after
    k = after.version.protocol.k
    both = population_in_words(len(record.changes.models), after.population, after.version.metric.formula.by_kind)
    title = (
        f"{after.version.metric.slug}, {after.measure.label.lower()}, {slice_label(after.slice).lower()}"
        f"{f', k = {k}' if k else ''}: version {before.version.number} to {after.version.number}, "
        f"ranks among the {both} of both"
    )
    headings = ["model", "from_rank", "to_rank", "change", "from_value", "to_value", "difference"]
    rows = [
        (
            of.model,
            str(of.from_rank),
            str(of.to_rank),
            f"{of.change:+d}" if of.change else "0",
            printed(of.from_value),
            printed(of.to_value),
            printed(of.difference, "+"),
        )
        for of in record.changes.models
    ]
    return Table(title, [Column(name, name != "model") for name in headings], rows)


def sentences(changes: RankChanges) -> list[str]:
    """What the table comes to."""
    count = len(changes.models)
    how = "" if changes.decimals is None else f", as printed to {changes.decimals} decimals"
    found = [
        f"{changes.changed_ranks} of {count} ranks changed (a positive change is a rise).",
        f"{changes.changed_values} of {count} values changed{how}.",
    ]
    largest, mean = changes.largest_difference, changes.mean_abs_difference
    if largest and mean is not None:
        found.append(
            f"Mean absolute difference {mean:.5f}; the largest is that of {largest.model}, {largest.difference:+.5f}."
        )
    found.append(
        f"Kendall's tau {correlation(changes.kendall)}; Spearman's rho {correlation(changes.spearman)}; "
        f"ties: {changes.tie_rule}."
    )
    for which, apart in (("before", changes.only_before), ("after", changes.only_after)):
        if apart:
            found.append(f"Only {which}: {', '.join(model.model for model in apart)}.")
    return found


def correlation(found: Correlation) -> str:
    """A coefficient with its interval."""
    if found.value is None:
        return "none"
    return f"{found.value:.3f}" + ("" if found.low is None else f" (95% {found.low:.3f} to {found.high:.3f})")


def shift_table(shifts: Shifts) -> Table:
    """A row an attribute and an entry, those of all entries first."""
    columns = [Column("entry", False), Column("attribute", False)]
    columns += [Column(name) for name in ("texts", "Wasserstein", "mean shift", "labels rose", "labels fell")]
    every = [("all", shift) for shift in shifts.pooled]
    every += [(slug, shift) for slug, found in shifts.entries.items() for shift in found]
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
