"""Rankings as tables of a paper: LaTeX with booktabs, at most eight columns each, with a caption and a note."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from leaderboard.formats import LatexTable, TableColumn, as_latex, latex
from leaderboard.models import MetricVersion
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.intervals import explain_intervals
from leaderboard.rankings.populations import population_in_words
from leaderboard.rankings.ranking import Row
from leaderboard.rankings.sheets import Sheet, indifferent_of, place_of
from leaderboard.rankings.view import EXTRAS
from scoring.metrics.formulas import slice_label, slice_phrase

MOST_COLUMNS = 8  # of a table: what a page of a paper holds
MILLION = 1_000_000
NOTHING = "--"
APPROXIMATELY = r"$\approx$\,"  # before what no source prints
OURS = r"$^\dagger$"  # after an interval that no source prints


@dataclass(frozen=True, slots=True)
class LatexColumn:
    """A column and what its cells say, in LaTeX."""

    heading: str
    cell: Callable[[Row], str]
    numeric: bool = True


def write_latex(sheet: Sheet, address: str) -> str:
    """The sheet as LaTeX: for each population one table of ranks and values, and further ones of the other slices.

    address: where the ranking can be seen; "" for none.
    """
    tables = [
        table for population in dict.fromkeys(name for name, _ in sheet.rows) for table in tables_of(sheet, population)
    ]
    return as_latex(tables, address)


def tables_of(sheet: Sheet, population: str) -> Iterator[LatexTable]:
    """The tables of one population: its ranking, and the slices that do not fit beside it."""
    rows = [row for row_population, row in sheet.rows if row_population == population]
    model = LatexColumn("Model", lambda row: latex(row.model.name), numeric=False)
    first = [LatexColumn("Rank", write_rank), model, *value_columns(sheet, rows)]
    facts = fact_columns(sheet, rows)[: MOST_COLUMNS - len(first)]
    slices = [slice_column(sheet, place) for place in range(len(sheet.columns))]
    if len(first) + len(facts) + len(slices) <= MOST_COLUMNS:
        groups = [[*first, *facts, *slices]]
    else:
        groups = [[*first, *facts], *([model, *group] for group in share_out(slices, MOST_COLUMNS - 1))]
    name = f"{sheet.versions[0].metric.slug}-{population}"
    for number, columns in enumerate(groups):
        yield LatexTable(
            caption=caption_of(sheet, population, part=number),
            label=f"tab:{name}-{number + 1}" if len(groups) > 1 else f"tab:{name}",
            columns=[TableColumn(column.heading, column.numeric) for column in columns],
            rows=[[column.cell(row) for column in columns] for row in rows],
            note=note_of(sheet, rows, is_first=number == 0),
        )


def share_out(columns: Sequence[LatexColumn], most: int) -> list[Sequence[LatexColumn]]:
    """Columns in groups of at most `most`, the groups as even as can be."""
    count = -(-len(columns) // most)
    size = -(-len(columns) // count)
    return [columns[begin : begin + size] for begin in range(0, len(columns), size)]


def value_columns(sheet: Sheet, rows: Sequence[Row]) -> list[LatexColumn]:
    """The value with its interval, and what an indifferent model would have where each model has a value of its own."""
    columns = [LatexColumn(latex(slice_label(sheet.slice)), lambda row: write_value(sheet, row))]
    if sheet.measure.neutral is None and any(row.indifferent is not None for row in rows):
        columns.append(LatexColumn("If indifferent", lambda row: write_indifferent(sheet, row)))
    return columns


def fact_columns(sheet: Sheet, rows: Sequence[Row]) -> list[LatexColumn]:
    """What is known of the models and results, as far as the ranking shows it; revisions and days are in the CSV."""
    smallest = min((row.model.parameters for row in rows if row.model.parameters), default=0)
    decimals = 0 if smallest >= 10 * MILLION else 1 if smallest >= MILLION else 2
    cells: dict[str, tuple[bool, Callable[[Row], str]]] = {
        "provenance": (False, lambda row: row.version.get_provenance_display()),
        "family": (False, lambda row: latex(row.model.family) or NOTHING),
        "kind": (False, lambda row: latex(row.model.get_kind_display())),
        "parameters": (True, lambda row: write_parameters(row.model.parameters, decimals)),
        "context": (True, lambda row: f"{row.model.context:,}" if row.model.context else NOTHING),
        "prompting": (False, lambda row: latex(row.model.prompting.label)),
        "precision": (False, lambda row: latex(row.model.precision_label) or NOTHING),
        "weights": (False, lambda row: "Open" if row.model.has_open_weights else NOTHING),
        "licence": (False, lambda row: latex(row.model.licence) or NOTHING),
        "release_date": (False, lambda row: f"{row.model.release_date:%Y}" if row.model.release_date else NOTHING),
        "n": (True, lambda row: f"{row.result.n:,}" if row.result.n else NOTHING),
        "missing": (True, lambda row: f"{row.result.missing:,}" if row.version.measured else NOTHING),
        "refusals": (True, lambda row: NOTHING if row.refusal_rate is None else f"{100 * row.refusal_rate:.1f}\\%"),
    }
    names = (["provenance"] if sheet.is_mixed else []) + list(sheet.extras)
    labels = {"provenance": "Provenance", **EXTRAS}
    return [LatexColumn(labels[name], cells[name][1], cells[name][0]) for name in names if name in cells]


def slice_column(sheet: Sheet, place: int) -> LatexColumn:
    """A slice beside the ranked one."""

    def cell(row: Row) -> str:
        value = row.cells[place].value
        return NOTHING if value is None else write_number(value, digits_of(row.version, sheet.measure.key))

    return LatexColumn(latex(slice_label(sheet.columns[place])), cell)


def write_rank(row: Row) -> str:
    """A rank, with the range of those that cannot be excluded."""
    return str(row.rank) if row.rank_low is None else f"{row.rank} ({row.rank_low}--{row.rank_high})"


def write_value(sheet: Sheet, row: Row) -> str:
    """As in 0.048 [0.034, 0.065]."""
    result, digits = row.result, digits_of(row.version, sheet.measure.key)
    value = (APPROXIMATELY if result.derived else "") + write_number(result.value, digits)
    if result.ci_low is None or result.ci_high is None:
        return value
    ends = f"[{write_number(result.ci_low, digits)}, {write_number(result.ci_high, digits)}]"
    return f"{value} {ends}{OURS if result.interval_derived else ''}"


def write_indifferent(sheet: Sheet, row: Row) -> str:
    """What the model would have if it were indifferent."""
    if row.indifferent is None:
        return NOTHING
    mark = APPROXIMATELY if row.indifferent_derived else ""
    return mark + write_number(row.indifferent, digits_of(row.version, sheet.measure.key))


def write_number(value: float, digits: int) -> str:
    """A number with a minus that is one."""
    return f"{value:.{digits}f}".replace("-", "$-$")


def write_parameters(count: int | None, decimals: int) -> str:
    """A number of parameters in millions, as in 124M with a thin space."""
    return NOTHING if not count else f"{count / MILLION:,.{decimals}f}\\,M"


def caption_of(sheet: Sheet, population: str, part: int) -> str:
    """Metric, measure, slice, version, day and population. part: the number of the table; the first has the ranks."""
    version = sheet.versions[0]
    models = population_in_words(sheet.sizes[population], population, version.metric.formula.by_kind)
    k = f", k = {version.protocol.k}" if version.protocol.k else ""
    subject = slice_phrase(sheet.slice) if not part else "further slices"
    origins = "; ".join(map(origin_of, sheet.versions))
    day = f"; as of {sheet.as_of.isoformat()}" if sheet.as_of else ""
    order = (
        f"Ranks are among {models}" if not part else f"{models[:1].upper()}{models[1:]}, in the order of their ranks"
    )
    return latex(
        f"{version.metric.title}: {sheet.measure.label.lower()}, {subject}{k} ({version.metric.slug}, {origins}{day}). "
        f"{order}."
    )


def origin_of(version: MetricVersion) -> str:
    """Where and when the numbers of a version were made, with its number."""
    entry_day = "" if version.measured or not version.published_at else f", entered {version.published_at:%Y-%m-%d}"
    return f"metric version {version.number}, {place_of(version)}{entry_day}"


def note_of(sheet: Sheet, rows: Sequence[Row], is_first: bool) -> str:
    """What the cells mean: direction, intervals, marks."""
    better = {"higher": "Higher is better.", "lower": "Lower is better."}.get(sheet.measure.direction or "", "")
    sentences = [better]
    if is_first:
        sentences += interval_sentences(sheet, rows)
        if any(row.rank_low for row in rows):
            sentences.append("In parentheses: the range of ranks, by paired tests on the same texts.")
        if sheet.measure.neutral is not None:
            sentences.append(f"A model without preference would have {sheet.measure.neutral:g}.")
        elif any(indifferent_of(sheet, row) is not None for row in rows):
            sentences.append("If indifferent: what the model would have if it were indifferent to harm.")
        left_out = [result.scoring.model.name for result in sheet.unranked]
        if left_out:
            sentences.append(f"Not ranked, as too many texts have no score: {', '.join(left_out)}.")
    note = latex(" ".join(filter(None, sentences)))
    if is_first and any(row.result.derived or row.indifferent_derived for row in rows):
        note += r" $\approx$: worked out by Plumbline; the source does not print it."
    if is_first and any(row.result.interval_derived for row in rows):
        note += f" {OURS}: worked out by Plumbline from counts of texts, conservative; the source prints no interval."
    return note


def interval_sentences(sheet: Sheet, rows: Sequence[Row]) -> list[str]:
    """How the intervals in brackets were computed, or why there are none."""
    results = [row.result for row in rows]
    if any(row.version.measured for row in rows):
        return [f"In brackets: 95% intervals ({sheet.versions[0].metric.formula.interval_method})."]
    if any(result.interval_derived for result in results):
        return ["In brackets: 95% intervals."]
    if any(result.ci_low is not None for result in results):
        return ["In brackets: 95% intervals, as the source prints them."]
    return [explain_intervals(sheet.versions[0], sheet.slice, results)]
