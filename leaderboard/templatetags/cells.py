"""Cells of wide tables. A page has thousands of them, and a template takes ten times as long for each."""

from collections.abc import Callable
from datetime import date

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from leaderboard.glossary import TERMS
from leaderboard.models import LanguageModel, MetricVersion
from leaderboard.models.results import DERIVED
from leaderboard.numbers import decimals
from leaderboard.queries.coefficients import CoefficientCell, SizeRow
from leaderboard.rankings.digits import PrintedNumber, digits_of
from leaderboard.rankings.history import Absence, ModelHistory, PastPlace
from leaderboard.rankings.ranking import Ranking, Row, SliceCell
from leaderboard.rankings.scales import WhiskerScale, whole_scale
from leaderboard.rankings.view import EXTRAS
from leaderboard.templatetags.board import compact, p
from scoring.metrics.formulas import slice_label
from scoring.metrics.measures import Measure

register = template.Library()

NOT_SIGNIFICANT = format_html(
    '<abbr class="ns" title="{}">ns</abbr>',
    "Not significant: no different from an indifferent model at 5% after Holm's correction",
)
# A model under a version.
ABSENT = '<td class="num"><abbr class="none" title="{}">{}</abbr></td>'
NOT_RANKED = '<td class="num"><span class="none">not ranked</span></td>'
PLACE = '<td class="num">{:d}{}<span class="interval">{}</span></td>'
RANGE = ' <span class="range" title="Anywhere in this range of ranks, by paired tests">{}</span>'
INDIFFERENT = (
    '<span class="indifferent"><span aria-hidden="true">┆</span>'
    '<span class="visually-hidden">, if indifferent </span>{}{}</span>'
)
# Parts of a whisker, from 0 to 100.
SCALE = (
    '<svg class="whisker" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    '<line class="whisker-scale" x1="0" y1="6" x2="100" y2="6"/>'
)
NEUTRAL = '<line class="whisker-neutral" x1="{}" y1="0" x2="{}" y2="12"/>'
INTERVAL = '<line class="whisker-interval{}" x1="{}" y1="6" x2="{}" y2="6"/>'
VALUE = '<line class="whisker-value" x1="{}" y1="1.5" x2="{}" y2="10.5"/></svg>'


def cells(row: Row, labels: list[str]) -> SafeString:
    """The values of a model beside the one it is ranked by, each with the reason where there is none.

    labels: of the columns, escaped, which cards show beside the values.
    """
    pairs = zip(row.cells, labels, strict=True)
    mark, digits = "" if row.version.measured else DERIVED, digits_of(row.version, row.result.measure)
    return SafeString(
        "".join(
            f'<td class="num{_shade(cell)}" data-label="{label}">{_value(cell)}{_tick(cell, mark, digits)}</td>'
            for cell, label in pairs
        )
    )


@register.simple_tag
def labels_of(ranking: Ranking) -> list[str]:
    """The labels of the slices beside the value, escaped."""
    return [escape(slice_label(name)) for name in ranking.columns]


def _shade(cell: SliceCell) -> str:
    return "" if cell.level is None else f" heat heat-{cell.level}"


def _value(cell: SliceCell) -> str:
    if cell.reason:
        return format_html('<abbr class="none" title="{}">{}</abbr>', cell.reason, cell.text)
    return cell.text + NOT_SIGNIFICANT if cell.significant is False else cell.text  # digits: nothing to escape


def _tick(cell: SliceCell, mark: str, digits: int) -> str:
    return "" if cell.indifferent is None else INDIFFERENT.format(mark, decimals(cell.indifferent, digits))


def facts(row: Row, names: list[str]) -> SafeString:
    """What is known of a model and of its result, a cell for each of `names`."""
    return SafeString("".join(_fact(row, name) for name in names))


GAINED = (
    '<span class="gained" title="{}"><span aria-hidden="true">{}{}</span>'
    '<span class="visually-hidden">, {}</span></span>'
)
# By the sign of the ranks that a model gained.
MOVES = {1: ("▲", "rose by"), 0: ("=", "kept its rank"), -1: ("▼", "fell by")}


def gained(row: Row, ranking: Ranking) -> SafeString:
    """How many ranks a model gained since the version before, as an arrow and a number, with the cause."""
    if row.gained is None or ranking.movement is None:
        return SafeString("")
    shape, words = MOVES[(row.gained > 0) - (row.gained < 0)]
    count = str(abs(row.gained)) if row.gained else ""
    move, cause = f"{words} {count}".rstrip(), ranking.movement.cause
    title = f"{move.capitalize()} since version {ranking.movement.before.number}" + (f": {cause}" if cause else "")
    return SafeString(GAINED.format(escape(title), shape, count, move))


def _fact(row: Row, name: str) -> str:
    look, describe = FACTS[name]
    return f'<td class="{look}" data-label="{EXTRAS.get(name, "Provenance")}">{describe(row)}</td>'


MARKS = {  # of how an entry is asked: the word beside the name, and the term of the glossary that explains it
    LanguageModel.Prompting.BASE: ("base", "base-model"),
    LanguageModel.Prompting.RAW: ("chat model, as raw text", "chat-as-raw-text"),
    LanguageModel.Prompting.CHAT: ("chat", "chat-entry"),
}


@register.simple_tag
def run_marks(model: LanguageModel, marks_base: bool = False) -> SafeString:
    """How an entry is asked and what it is computed in, as short words that the glossary explains.

    marks_base: whether base models are marked as well, as they are beside others.
    """
    marks = [MARKS[model.prompting]] if model.prompting in MARKS else []
    if model.prompting == LanguageModel.Prompting.BASE and not marks_base:
        marks = []
    if model.precision_label:
        marks.append((model.precision_label, "precision"))
    return format_html_join(" ", MARK, ((TERMS[term].meaning, word) for word, term in marks))


MARK = '<span class="tag" title="{}">{}</span>'


@register.simple_tag
def constant_facts(ranking: Ranking) -> dict[str, tuple[str, SafeString]]:
    """The columns that say the same in each row of a ranking, by name, with their labels and what they say.

    None where fewer than three rows are shown, or somebody chose the columns.
    """
    rows = [row for group in ranking.groups for row in group.rows]
    names = {name for group in ranking.groups for name in ranking.facts(group)} & set(FACTS)
    if len(rows) < FEWEST_ALIKE or ranking.has_chosen_columns:
        return {}
    cells = {name: {FACTS[name][1](row) for row in rows} for name in EXTRAS if name in names}
    labels = EXTRAS | {"date": "Scored" if ranking.versions[0].measured else "Entered"}
    return {name: (labels[name], SafeString(texts.pop())) for name, texts in cells.items() if len(texts) == 1}


def _of_source(count: int | None) -> str:
    return UNPRINTED if count is None else intcomma(count)


def _day(day: date | None) -> str:
    return f"{day:%Y-%m-%d}" if day else ""


def _parameters(row: Row) -> str:
    count = row.model.parameters
    return compact(count) if count else UNKNOWN


def _context(row: Row) -> str:
    return intcomma(row.model.context) if row.model.context else UNKNOWN


def _prompting(row: Row) -> str:
    manner = row.model.prompting
    return UNKNOWN if manner == LanguageModel.Prompting.UNKNOWN else str(manner.label)


def _precision(row: Row) -> str:
    if row.model.precision_label:
        return format_html("{}", row.model.precision_label)
    return format_html("{}", row.version.protocol.parameters.get("precision", "")) if row.version.measured else UNKNOWN


def _revision(row: Row) -> str:
    whole = row.model.revision
    return format_html('<code title="{}">{}</code>', whole, whole[:19]) if whole else UNKNOWN


def _refusals(row: Row) -> str:
    rate = row.refusal_rate
    return "" if rate is None else f"{rate:.1%}"


def _describe_missing(row: Row) -> str:
    """Texts without a score; of a measure of prompts, the prompts without any, and the continuations too."""
    result = row.result
    if not row.version.measured:
        return _of_source(None)
    prompts, texts = result.missing, result.missing_texts
    if texts is None or texts == prompts:
        return _of_source(prompts)
    return MISSING.format(intcomma(prompts), "" if prompts == 1 else "s", intcomma(texts), "" if texts == 1 else "s")


NUMERIC = "num"
MISSING = '{} prompt{}<span class="interval">{} text{}</span>'
UNKNOWN = '<span class="none">unknown</span>'
UNPRINTED = '<span class="none" title="The source does not print it">unknown</span>'
FACTS: dict[str, tuple[str, Callable[[Row], str]]] = {  # by column: the class of its cells, and what they say
    "provenance": ("", lambda row: row.version.get_provenance_display()),
    "family": ("", lambda row: format_html("{}", row.model.family or SafeString(UNKNOWN))),
    "kind": ("", lambda row: row.model.get_kind_display()),
    "parameters": (NUMERIC, _parameters),
    "context": (NUMERIC, _context),
    "prompting": ("words", _prompting),
    "precision": ("words", _precision),
    "weights": ("", lambda row: "Open" if row.model.has_open_weights else UNKNOWN),
    "licence": ("words", lambda row: format_html("{}", row.model.licence or SafeString(UNKNOWN))),
    "release_date": ("date", lambda row: _day(row.model.release_date) or UNKNOWN),
    "date": ("date", lambda row: _day(row.result.scoring.scored_at)),
    "n": (NUMERIC, lambda row: _of_source(row.result.n)),
    "missing": (NUMERIC, _describe_missing),
    "refusals": (NUMERIC, _refusals),
    "revision": ("", _revision),
}
FEWEST_ALIKE = 3  # rows


@register.simple_tag
def places(line: ModelHistory, digits: int) -> SafeString:
    """The ranks of a model under each version, with their intervals and values."""
    return SafeString("".join(_place(place, absence, digits) for place, absence in line.cells))


def _place(place: PastPlace | None, absence: Absence | None, digits: int) -> str:
    if place is None:
        return format_html(ABSENT, absence.reason, absence.label) if absence else NOT_RANKED
    interval = RANGE.format(place.interval) if place.low is not None else ""
    return PLACE.format(place.rank, interval, decimals(place.value, digits))  # numbers: nothing to escape


@register.simple_tag
def whisker(
    result: PrintedNumber, measure: Measure, scale: WhiskerScale | None = None, indifferent: float | None = None
) -> SafeString:
    """A value with its interval on a scale (default: the measure's whole one), as a small drawing.

    A tick stands where an indifferent model would be: at the measure's neutral value, else at `indifferent`. The cells
    say the same in digits.
    """
    place = (scale or whole_scale(measure)).place
    shape = SCALE
    places: list[float | str] = []
    tick = indifferent if measure.neutral is None else measure.neutral
    if tick is not None:
        shape += NEUTRAL
        places += [place(tick)] * 2
    if result.ci_low is not None and result.ci_high is not None:
        shape += INTERVAL
        places += [" derived" if result.interval_derived else "", place(result.ci_low), place(result.ci_high)]
    shape += VALUE
    return SafeString(shape.format(*places, *[place(result.value)] * 2))  # numbers: nothing to escape


@register.simple_tag
def if_indifferent(value: float | None, measure: Measure, version: MetricVersion) -> SafeString:
    """What a model would have if it were indifferent, beneath its value; nothing where that is not known.

    No paper prints it: of published figures it was worked out here, and is marked.
    """
    if value is None:
        return SafeString("")
    mark = "" if version.measured else DERIVED
    return SafeString(INDIFFERENT.format(mark, decimals(value, digits_of(version, measure.key))))


@register.simple_tag
def beneath(cell: CoefficientCell) -> SafeString:
    """What stands beneath a coefficient: its interval, how many models it is of, and p."""
    correlation = cell.correlation
    lines = [f"n = {intcomma(correlation.n)}"]
    if cell.p is not None:
        lines[0] += f", p {p(cell.p)}" if p(cell.p).startswith("<") else f", p = {p(cell.p)}"
    if correlation.low is not None and correlation.high is not None:
        lines.insert(0, f"{decimals(correlation.low, 2)} to {decimals(correlation.high, 2)}")
    return format_html_join("", '<span class="interval">{}</span>', ((line,) for line in lines))


@register.simple_tag
def size_cells(row: SizeRow) -> SafeString:
    """The coefficients of a measure with each property of its models, or the reasons why there are none."""
    return SafeString("".join(f'<td class="num">{_coefficient(cell)}</td>' for cell in row.cells))


def _coefficient(cell: CoefficientCell) -> str:
    value = cell.correlation.value
    if cell.reason or value is None:
        return format_html('<span class="none">{}</span>', cell.reason)
    return decimals(value, 2) + beneath(cell)
