import json
from collections.abc import Callable
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from leaderboard.formats import FORMATS, Column, Table
from leaderboard.management.arguments import found_metric
from leaderboard.models import Standing
from leaderboard.services.past import NoStandings, Ranked, ranked
from scoring.artefacts import ArtefactError
from scoring.metrics.formulas import slice_label


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
        when.add_argument("--as-of", type=date.fromisoformat, metavar="DATE", help="as in 2026-11-21")
        when.add_argument("--metric-version", type=int, metavar="V", help="number of a published version")
        parser.add_argument("--format", default="table", choices=["table", "json", "csv", "latex", "markdown"])

    def handle(self, metric: str, **options: Any) -> None:
        try:
            found = ranked(
                found_metric(metric),
                options["measure"],
                options["slice"],
                options["kind"],
                options["metric_version"],
                options["as_of"],
            )
        except (NoStandings, FileNotFoundError, ArtefactError) as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps(as_json(found), indent=2, ensure_ascii=False))
        else:
            self.stdout.write(FORMATS[options["format"]](table_of(found, exact=options["format"] == "csv")))


def title_of(found: Ranked) -> str:
    """What the ranking is of, and what fixes its numbers."""
    version = found.version
    k = f", k = {version.protocol.k}" if version.protocol.k else ""
    where = f"measured here, {version.published_at:%Y-%m-%d}" if version.measured else version.source
    when = f"; as of {found.as_of.isoformat()}" if found.as_of else ""
    return (
        f"{version.metric.title}: {found.measure.label.lower()}, {slice_label(found.slice).lower()}{k} "
        f"({version.metric.slug}, version {version.number}, {where}{when})"
    )


def table_of(found: Ranked, exact: bool) -> Table:
    """A row an entry; values in full, or with the digits of the measure or of their source."""
    version = found.version
    digits = found.measure.digits if version.decimals is None else version.decimals

    def number(value: float | None) -> str:
        return "" if value is None else repr(value) if exact else f"{value:.{digits}f}"

    def whole(value: int | None) -> str:
        return "" if value is None else str(value)

    columns: list[tuple[Column, Callable[[Standing], str]]] = [
        (Column("rank"), lambda row: str(row.rank)),
        (Column("rank_low"), lambda row: whole(row.rank_low)),
        (Column("rank_high"), lambda row: whole(row.rank_high)),
        (Column("model", False), lambda row: row.model.name),
        (Column("slug", False), lambda row: row.model.slug),
        (Column("kind", False), lambda row: row.model.kind),
        (Column("value"), lambda row: number(row.value)),
        (Column("ci_low"), lambda row: number(row.result.ci_low)),
        (Column("ci_high"), lambda row: number(row.result.ci_high)),
        (Column("k"), lambda _row: whole(version.protocol.k)),
        (Column("n"), lambda row: whole(row.result.n)),
        (Column("missing"), lambda row: str(row.result.missing)),
        (Column("scored", False), lambda row: f"{row.result.scoring.scored_at:%Y-%m-%d}"),
    ]
    if not exact:  # what people read leaves out what is empty throughout, and what the name already says
        unused = {"slug"} | (set() if version.metric.formula.by_kind else {"kind"})
        columns = [
            (column, cell)
            for column, cell in columns
            if column.heading not in unused and any(cell(row) for row in found.standings)
        ]
    rows = [[cell(row) for _, cell in columns] for row in found.standings]
    return Table(title_of(found), [column for column, _ in columns], rows)


def as_json(found: Ranked) -> dict[str, Any]:
    """The ranking as JSON can hold it."""
    version = found.version
    return {
        "metric": version.metric.slug,
        "version": version.number,
        "status": version.status,
        "provenance": version.provenance,
        "source": version.source,
        "published_at": version.published_at and version.published_at.isoformat(),
        "as_of": found.as_of and found.as_of.isoformat(),
        "scorer": version.scorer,
        "scorer_fingerprint": version.scorer_fingerprint,
        "evaluation_set": str(version.protocol.evaluation_set),
        "k": version.protocol.k,
        "measure": found.measure.key,
        "direction": found.measure.direction,
        "slice": found.slice,
        "decimals": version.decimals,
        "entries": [
            {
                "population": row.population,
                "rank": row.rank,
                "rank_low": row.rank_low,
                "rank_high": row.rank_high,
                "model": row.model.name,
                "slug": row.model.slug,
                "kind": row.model.kind,
                "revision": row.model.revision,
                "value": row.value,
                "ci_low": row.result.ci_low,
                "ci_high": row.result.ci_high,
                "n": row.result.n,
                "missing": row.result.missing,
                "k": version.protocol.k,
                "scored_at": row.result.scoring.scored_at.isoformat(),
            }
            for row in found.standings
        ],
    }
