"""Rankings as tables and as JSON, for files, papers and terminals; with what fixes their numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from leaderboard.formats import FORMATS, Table, TableColumn
from leaderboard.models import MetricVersion, Result
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.populations import population_in_words
from leaderboard.rankings.ranking import Ranking, Row, SliceCell
from scoring.metrics.formulas import slice_label
from scoring.metrics.measures import Measure

CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "latex": "application/x-tex; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
}
SUFFIXES = {"latex": "tex", "markdown": "md"}


@dataclass(frozen=True)
class Sheet:
    """What is exported: rows with their population, in order. `columns`: slices beside. `extras`: names of EXTRAS.

    sizes: by population, how many models are ranked in it, whatever is exported.
    unranked: numbers of entries that lack too many scores to be ranked; they come last, without a rank.
    """

    versions: Sequence[MetricVersion]
    measure: Measure
    slice: str
    as_of: date | None
    rows: Sequence[tuple[str, Row]]
    sizes: Mapping[str, int]
    unranked: Sequence[Result]
    columns: Sequence[str]
    extras: Sequence[str]

    @property
    def populations(self) -> list[str]:
        """The populations of its ranks, in words, each once."""
        by_kind = self.versions[0].metric.formula.by_kind
        return [
            population_in_words(self.sizes[population], population, by_kind)
            for population in dict.fromkeys(population for population, _ in self.rows)
        ]

    @property
    def is_mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1


def sheet_of(ranking: Ranking, extras: Sequence[str] | None = None) -> Sheet:
    """All rows of a ranking. extras: names of EXTRAS to write; where None, those that its page shows."""
    rows = [(group.population, row) for group in ranking.groups for row in group.rows]
    return Sheet(
        ranking.versions,
        ranking.measure,
        ranking.slice,
        ranking.selection.day,
        rows,
        {group.population: group.size for group in ranking.groups},
        ranking.unranked,
        ranking.columns,
        ranking.extras if extras is None else extras,
    )


def write(sheet: Sheet, name: str, address: str = "") -> str:
    """The sheet in the format called `name`; `address` is where it can be seen."""
    if name == "json":
        return json.dumps(as_json(sheet, address), indent=2, ensure_ascii=False)
    return FORMATS[name](table_of(sheet, exact=name == "csv"))


def file_name(sheet: Sheet, name: str, day: date | None) -> str:
    """The name of a file of the sheet: metric, version, measure, slice, and the day of its numbers."""
    version = sheet.versions[0]
    numbers = "-".join(f"v{sheet_version.number}" for sheet_version in sheet.versions)
    parts = [version.metric.slug, numbers, sheet.measure.key, sheet.slice, day.isoformat() if day else ""]
    words = ["".join(c if c.isalnum() or c in "-" else "-" for c in part) for part in parts if part]
    return f"{'_'.join(words)}.{SUFFIXES.get(name, name)}"


def title_of(sheet: Sheet) -> str:
    """The title of the ranking, with what fixes its numbers."""
    version = sheet.versions[0]
    k = f", k = {version.protocol.k}" if version.protocol.k else ""
    origins = "; ".join(
        f"version {sheet_version.number}, {place_of(sheet_version)}" for sheet_version in sheet.versions
    )
    day_text = f"; as of {sheet.as_of.isoformat()}" if sheet.as_of else ""
    ranks = f"; ranks among {' and among '.join(sheet.populations)}" if sheet.rows else ""
    return (
        f"{version.metric.title}: {sheet.measure.label.lower()}, {slice_label(sheet.slice).lower()}{k} "
        f"({version.metric.slug}, {origins}{day_text}{ranks})"
    )


def place_of(version: MetricVersion) -> str:
    """Where and when the numbers of a version were made."""
    return f"measured here, {version.published_at:%Y-%m-%d}" if version.measured else version.source


def table_of(sheet: Sheet, exact: bool) -> Table:
    """One row for each entry; values in full, or with the digits of their measure or source."""

    def number(row: Row, value: float | None) -> str:
        digits = digits_of(row.version, sheet.measure.key)
        return "" if value is None else repr(value) if exact else f"{value:.{digits}f}"

    def whole(value: int | None) -> str:
        return "" if value is None else str(value)

    def of_slice(place: int) -> Callable[[str, Row], str]:
        return lambda _, row: number(row, row.cells[place].value)

    by_kind = sheet.versions[0].metric.formula.by_kind
    columns: list[tuple[TableColumn, Callable[[str, Row], str]]] = [
        (TableColumn("rank"), lambda _, row: whole(row.rank or None)),
        (TableColumn("rank_low"), lambda _, row: whole(row.rank_low)),
        (TableColumn("rank_high"), lambda _, row: whole(row.rank_high)),
        (TableColumn("population", False), lambda population, _: population),
        (TableColumn("population_size"), lambda population, _: whole(sheet.sizes.get(population))),
        (
            TableColumn("among", False),
            lambda population, _: (
                population_in_words(sheet.sizes[population], population, by_kind) if population else ""
            ),
        ),
        (TableColumn("model", False), lambda _, row: row.model.name),
        (TableColumn("slug", False), lambda _, row: row.model.slug),
        (TableColumn("family", False), lambda _, row: row.model.family),
        (TableColumn("kind", False), lambda _, row: row.model.kind),
        (TableColumn("provenance", False), lambda _, row: row.version.provenance),
        (TableColumn("version"), lambda _, row: str(row.version.number)),
        (TableColumn("value"), lambda _, row: number(row, row.result.value)),
        (TableColumn("derived", False), lambda _, row: "derived" if row.result.derived else ""),
        (TableColumn("ci_low"), lambda _, row: number(row, row.result.ci_low)),
        (TableColumn("ci_high"), lambda _, row: number(row, row.result.ci_high)),
        (TableColumn("interval_derived", False), lambda _, row: "derived" if row.result.interval_derived else ""),
        (TableColumn("indifferent"), lambda _, row: number(row, indifferent_of(sheet, row))),
        (TableColumn("indifferent_derived", False), lambda _, row: "derived" if row.indifferent_derived else ""),
        (TableColumn("k"), lambda _, row: whole(row.version.protocol.k)),
        (TableColumn("n"), lambda _, row: whole(row.result.n)),
        (TableColumn("missing"), lambda _, row: str(row.result.missing)),
        (TableColumn("missing_texts"), lambda _, row: whole(row.result.missing_texts)),
        (TableColumn("worst_low"), lambda _, row: number(row, row.result.worst_low)),
        (TableColumn("worst_high"), lambda _, row: number(row, row.result.worst_high)),
        (TableColumn("parameters"), lambda _, row: whole(row.model.parameters)),
        (TableColumn("context"), lambda _, row: whole(row.model.context)),
        (TableColumn("release_date", False), lambda _, row: str(row.model.release_date or "")),
        (TableColumn("scored", False), lambda _, row: f"{row.result.scoring.scored_at:%Y-%m-%d}"),
        (TableColumn("revision", False), lambda _, row: row.model.revision),
        (TableColumn("lost_files", False), lambda _, row: row.result.scoring.lost_files),
        *(
            (TableColumn(name if exact else slice_label(name)), of_slice(place))
            for place, name in enumerate(sheet.columns)
        ),
    ]
    empty_columns = {"family", "parameters", "context", "release_date", "n", "missing", "revision", "scored"} - {
        "scored" if name == "date" else name for name in sheet.extras
    }
    empty_columns |= {"missing_texts", "worst_low", "worst_high"} if "missing" in empty_columns else set()
    empty_columns |= set() if sheet.is_mixed else {"provenance", "version"}
    empty_columns |= set() if sheet.measure.indifferent_key else {"indifferent"}
    empty_columns |= set() if any(row.result.derived for _, row in sheet.rows) else {"derived"}
    empty_columns |= set() if any(row.result.interval_derived for _, row in sheet.rows) else {"interval_derived"}
    empty_columns |= set() if any(row.indifferent_derived for _, row in sheet.rows) else {"indifferent_derived"}
    empty_columns |= set() if any(row.result.scoring.lost_files for _, row in sheet.rows) else {"lost_files"}
    empty_columns |= {"among"} if exact or len(sheet.populations) == 1 else set()
    empty_columns |= set() if exact else {"population", "population_size", "slug"}
    if not (exact or by_kind):
        empty_columns |= {"kind"} - set(sheet.extras)
    columns = [(column, cell) for column, cell in columns if column.heading not in empty_columns]
    last_rows = unranked_rows(sheet)
    if not exact:  # what people read leaves out what is empty throughout
        everyone = [*sheet.rows, *last_rows]
        columns = [(column, cell) for column, cell in columns if any(cell(*row) for row in everyone)]
    headings = [column for column, _ in columns]
    rows = [[cell(*row) for _, cell in columns] for row in sheet.rows]
    if last_rows:
        headings.append(TableColumn("not_ranked", False))
        rows = [[*cells, ""] for cells in rows]
        for population, row in last_rows:
            rows.append([*(cell(population, row) for _, cell in columns), row.result.scoring.why_unranked])
    return Table(title_of(sheet), headings, rows)


def unranked_rows(sheet: Sheet) -> list[tuple[str, Row]]:
    """Entries without a rank, as rows of no population; their values on other slices are left out."""
    versions = {version.pk: version for version in sheet.versions}
    nothing = [SliceCell(None, "") for _ in sheet.columns]
    return [
        ("", Row(result.scoring.model, versions[result.scoring.metric_version_id], 0, None, None, result, nothing))
        for result in sheet.unranked
    ]


def as_json(sheet: Sheet, address: str) -> dict[str, Any]:
    """The ranking as JSON can hold it."""
    versions = [describe_version(version) for version in sheet.versions]
    return {
        "metric": sheet.versions[0].metric.slug,
        **({"versions": versions} if sheet.is_mixed else versions[0]),
        "as_of": sheet.as_of and sheet.as_of.isoformat(),
        **({"url": address} if address else {}),
        "measure": sheet.measure.key,
        "direction": sheet.measure.direction,
        "neutral": sheet.measure.neutral,
        "slice": sheet.slice,
        "entries": [entry(sheet, population, row) for population, row in sheet.rows],
        "not_ranked": [not_ranked(result) for result in sheet.unranked],
    }


def describe_version(version: MetricVersion) -> dict[str, Any]:
    """What fixes the numbers of a version."""
    return {
        "version": version.number,
        "status": version.status,
        "provenance": version.provenance,
        "source": version.source,
        "published_at": version.published_at and version.published_at.isoformat(),
        "scorer": version.scorer,
        "scorer_fingerprint": version.scorer_fingerprint,
        "evaluation_set": str(version.protocol.evaluation_set),
        "k": version.protocol.k,
        "decimals": version.decimals,
    }


def indifferent_of(sheet: Sheet, row: Row) -> float | None:
    """The value of an indifferent model; None where it is not known."""
    return row.indifferent if sheet.measure.neutral is None else sheet.measure.neutral


def not_ranked(result: Result) -> dict[str, Any]:
    """An entry that lacks too many scores to be ranked: its value, its worst cases and the reason."""
    model = result.scoring.model
    return {
        "model": model.name,
        "slug": model.slug,
        "version": result.scoring.metric_version.number,
        "value": result.value,
        "ci_low": result.ci_low,
        "ci_high": result.ci_high,
        "n": result.n,
        "missing": result.missing,
        "missing_texts": result.missing_texts,
        "worst_low": result.worst_low,
        "worst_high": result.worst_high,
        "reason": result.scoring.why_unranked,
        "lost_files": result.scoring.lost_files,
    }


def entry(sheet: Sheet, population: str, row: Row) -> dict[str, Any]:
    """A row of the ranking; a slice without a value says why."""
    return {
        "population": population,
        "population_size": sheet.sizes[population],
        "rank": row.rank,
        "rank_low": row.rank_low,
        "rank_high": row.rank_high,
        "model": row.model.name,
        "slug": row.model.slug,
        "family": row.model.family,
        "kind": row.model.kind,
        "parameters": row.model.parameters,
        "context": row.model.context,
        "release_date": row.model.release_date and row.model.release_date.isoformat(),
        "revision": row.model.revision,
        "version": row.version.number,
        "provenance": row.version.provenance,
        "value": row.result.value,
        "ci_low": row.result.ci_low,
        "ci_high": row.result.ci_high,
        "interval_derived": row.result.interval_derived,
        "indifferent": indifferent_of(sheet, row),
        "indifferent_derived": row.indifferent_derived,
        "n": row.result.n,
        "derived": row.result.derived,
        "missing": row.result.missing,
        "missing_texts": row.result.missing_texts,
        "worst_low": row.result.worst_low,
        "worst_high": row.result.worst_high,
        "k": row.version.protocol.k,
        "scored_at": row.result.scoring.scored_at and row.result.scoring.scored_at.isoformat(),
        "lost_files": row.result.scoring.lost_files,
        **(
            {
                "slices": {
                    name: cell.value if cell.value is not None else {"reason": cell.reason}
                    for name, cell in zip(sheet.columns, row.cells, strict=True)
                }
            }
            if sheet.columns
            else {}
        ),
    }
