"""Rankings as tables and as JSON, for files, papers and terminals; with what fixes their numbers."""

import json
from collections.abc import Callable
from datetime import date
from typing import Any

from leaderboard.formats import FORMATS, Table, TableColumn
from leaderboard.models import MetricVersion, Result
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.latex_tables import write_latex
from leaderboard.rankings.populations import population_in_words
from leaderboard.rankings.ranking import Row, SliceCell
from leaderboard.rankings.sheets import Sheet, indifferent_of, place_of
from leaderboard.rankings.view import OPEN, UNKNOWN
from scoring.metrics.formulas import slice_label, slice_phrase

CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "latex": "application/x-tex; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
}
ExportColumn = tuple[TableColumn, Callable[[str, Row], str]]  # its cells by population and row
SUFFIXES = {"latex": "tex", "markdown": "md"}


def write(sheet: Sheet, name: str, address: str = "") -> str:
    """The sheet in the format called `name`; `address` is where it can be seen."""
    if name == "json":
        return json.dumps(as_json(sheet, address), indent=2, ensure_ascii=False)
    if name == "latex":
        return write_latex(sheet, address)
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
        f"{version.metric.title}: {sheet.measure.label.lower()}, {slice_phrase(sheet.slice)}{k} "
        f"({version.metric.slug}, {origins}{day_text}{ranks})"
    )


def table_of(sheet: Sheet, exact: bool) -> Table:
    """One row for each entry; exact: values in full and every column, else as people read them."""
    columns = all_columns(sheet, exact)
    last_rows = unranked_rows(sheet)
    if not exact:  # what people read leaves out what they did not ask for, and what is empty throughout
        omitted_names = hidden_columns(sheet)
        everyone = [*sheet.rows, *last_rows]
        columns = [
            (column, cell)
            for column, cell in columns
            if column.heading not in omitted_names and any(cell(*row) for row in everyone)
        ]
    headings = [column for column, _ in columns]
    rows = [[cell(*row) for _, cell in columns] for row in sheet.rows]
    if exact or last_rows:
        headings.append(TableColumn("not_ranked", False))
        rows = [[*cells, ""] for cells in rows]
        for population, row in last_rows:
            rows.append([*(cell(population, row) for _, cell in columns), row.result.scoring.why_unranked])
    return Table(title_of(sheet), headings, rows)


def all_columns(sheet: Sheet, exact: bool) -> list[ExportColumn]:
    """Everything that is known of a row, the same for every metric; last the slices that are shown beside."""

    def number(row: Row, value: float | None) -> str:
        digits = digits_of(row.version, sheet.measure.key)
        return "" if value is None else repr(value) if exact else f"{value:.{digits}f}"

    def derived(flag: bool) -> str:
        return "derived" if flag else ""

    def slice_cell(place: int) -> Callable[[str, Row], str]:
        return lambda _, row: number(row, row.cells[place].value)

    return [
        (TableColumn("rank"), lambda _, row: whole(row.rank or None)),
        (TableColumn("rank_low"), lambda _, row: whole(row.rank_low)),
        (TableColumn("rank_high"), lambda _, row: whole(row.rank_high)),
        *population_columns(sheet),
        (TableColumn("model", False), lambda _, row: row.model.name),
        (TableColumn("slug", False), lambda _, row: row.model.slug),
        (TableColumn("source_name", False), lambda _, row: row.model.source_name),
        (TableColumn("family", False), lambda _, row: row.model.family),
        (TableColumn("kind", False), lambda _, row: row.model.kind),
        (TableColumn("revision", False), lambda _, row: row.model.revision),
        *origin_columns(sheet),
        (TableColumn("value"), lambda _, row: number(row, row.result.value)),
        (TableColumn("derived", False), lambda _, row: derived(row.result.derived)),
        (TableColumn("ci_low"), lambda _, row: number(row, row.result.ci_low)),
        (TableColumn("ci_high"), lambda _, row: number(row, row.result.ci_high)),
        (TableColumn("interval_derived", False), lambda _, row: derived(row.result.interval_derived)),
        (TableColumn("indifferent"), lambda _, row: number(row, indifferent_of(sheet, row))),
        (TableColumn("indifferent_derived", False), lambda _, row: derived(row.indifferent_derived)),
        (TableColumn("k"), lambda _, row: whole(row.version.protocol.k)),
        (TableColumn("n"), lambda _, row: whole(row.result.n)),
        (TableColumn("missing"), lambda _, row: str(row.result.missing) if row.version.measured else ""),
        (
            TableColumn("missing_share"),
            lambda _, row: f"{row.result.missing_share:.6g}" if row.version.measured else "",
        ),
        (TableColumn("missing_texts"), lambda _, row: whole(row.result.missing_texts)),
        (TableColumn("worst_low"), lambda _, row: number(row, row.result.worst_low)),
        (TableColumn("worst_high"), lambda _, row: number(row, row.result.worst_high)),
        *corrected_columns(sheet, exact),
        (TableColumn("refusal_rate"), lambda _, row: "" if row.refusal_rate is None else f"{row.refusal_rate:.6g}"),
        (TableColumn("parameters"), lambda _, row: whole(row.model.parameters)),
        (TableColumn("context"), lambda _, row: whole(row.model.context)),
        *run_columns(),
        (TableColumn("release_date", False), lambda _, row: str(row.model.release_date or "")),
        (TableColumn("scored", False), lambda _, row: f"{row.result.scoring.scored_at:%Y-%m-%d}"),
        (TableColumn("lost_files", False), lambda _, row: row.result.scoring.lost_files),
        *(
            (TableColumn(name if exact else slice_label(name)), slice_cell(place))
            for place, name in enumerate(sheet.columns)
        ),
    ]


def population_columns(sheet: Sheet) -> list[ExportColumn]:
    """Whom a rank is among: by key, in numbers and in words."""
    by_kind = sheet.versions[0].metric.formula.by_kind
    return [
        (TableColumn("population", False), lambda population, _: population),
        (TableColumn("population_size"), lambda population, _: whole(sheet.sizes.get(population))),
        (
            TableColumn("among", False),
            lambda population, _: (
                population_in_words(sheet.sizes[population], population, by_kind) if population else ""
            ),
        ),
    ]


def corrected_columns(sheet: Sheet, exact: bool) -> list[ExportColumn]:
    """An estimate beside a share of labelled texts: corrected for the scorer's error rates on a labelled set."""
    label = sheet.correction.set_label if sheet.correction else ""
    form = ".6g" if exact else f".{sheet.measure.digits}f"

    def end(name: str) -> Callable[[str, Row], str]:
        return lambda _, row: (
            f"{getattr(row.corrected.share, name):{form}}" if row.corrected and row.corrected.share else ""
        )

    return [
        (TableColumn("corrected"), end("value")),
        (TableColumn("corrected_low"), end("low")),
        (TableColumn("corrected_high"), end("high")),
        (TableColumn("corrected_by", False), lambda _, row: label if row.corrected and row.corrected.share else ""),
    ]


def run_columns() -> list[ExportColumn]:
    """How an entry is run, and what others may do with its model."""
    return [
        (TableColumn("interface", False), lambda _, row: row.model.interface),
        (TableColumn("prompting", False), lambda _, row: row.model.prompting.value),
        (TableColumn("precision", False), lambda _, row: row.model.precision),
        (TableColumn("weight_format", False), lambda _, row: row.model.weight_format),
        (TableColumn("weights", False), lambda _, row: OPEN if row.model.has_open_weights else UNKNOWN),
        (TableColumn("licence", False), lambda _, row: row.model.licence),
    ]


def origin_columns(sheet: Sheet) -> list[ExportColumn]:
    """What fixes the numbers, so that a row says it by itself."""
    return [
        (TableColumn("metric", False), lambda _, row: row.version.metric.slug),
        (TableColumn("version"), lambda _, row: str(row.version.number)),
        (TableColumn("provenance", False), lambda _, row: row.version.provenance),
        (TableColumn("source", False), lambda _, row: row.version.source),
        (
            TableColumn("published", False),
            lambda _, row: f"{row.version.published_at:%Y-%m-%d}" if row.version.published_at else "",
        ),
        (TableColumn("measure", False), lambda _, _row: sheet.measure.key),
        (TableColumn("slice", False), lambda _, _row: sheet.slice),
    ]


ORIGIN = ("metric", "source", "published", "measure", "slice")  # which the title says


def hidden_columns(sheet: Sheet) -> set[str]:
    """The columns of a table for people that the page does not show, or whose content the title says."""
    optional = {"family", "parameters", "context", "release_date", "n", "missing", "revision", "scored"}
    optional |= {"prompting", "precision", "weights", "licence"}
    names = optional - {"scored" if name == "date" else name for name in sheet.extras}
    names |= {"weight_format"} if "precision" in names else set()
    names |= {"missing_share", "missing_texts", "worst_low", "worst_high"} if "missing" in names else set()
    names |= set() if sheet.is_mixed else {"provenance", "version"}
    names |= set() if sheet.measure.indifferent_key else {"indifferent"}
    names |= {"among"} if len(sheet.populations) == 1 else set()
    if not sheet.versions[0].metric.formula.by_kind:
        names |= {"kind"} - set(sheet.extras)
    return names | {"population", "population_size", "slug", "source_name", "interface", *ORIGIN}


def whole(value: int | None) -> str:
    """A whole number as a cell."""
    return "" if value is None else str(value)


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
        "missing_share": result.missing_share,
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
        "source_name": row.model.source_name,
        "family": row.model.family,
        "kind": row.model.kind,
        "parameters": row.model.parameters,
        "context": row.model.context,
        "interface": row.model.interface,
        "prompting": row.model.prompting.value,
        "precision": row.model.precision,
        "weight_format": row.model.weight_format,
        "weights": OPEN if row.model.has_open_weights else UNKNOWN,
        "licence": row.model.licence,
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
        "missing_share": row.result.missing_share,
        "missing_texts": row.result.missing_texts,
        "worst_low": row.result.worst_low,
        "worst_high": row.result.worst_high,
        "refusal_rate": row.refusal_rate,
        "corrected": row.corrected.as_json(sheet.correction) if row.corrected and sheet.correction else None,
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
