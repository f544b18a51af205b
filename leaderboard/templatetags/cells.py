"""Cells of wide tables. A page has thousands of them, and a template takes ten times as long for each."""

from collections.abc import Callable
from datetime import datetime

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import format_html
from django.utils.safestring import SafeString

from leaderboard.models import Result
from leaderboard.queries.history import Line, Place
from leaderboard.queries.rankings import Cell, Row
from leaderboard.templatetags.board import compact, decimals
from scoring.metrics.measures import Measure

register = template.Library()

NOT_SIGNIFICANT = format_html(
    '<abbr class="ns" title="{}">ns</abbr>',
    "Not significant: no different from an indifferent model at 5% after Holm's correction",
)
# A model under a version.
OUTDATED = '<td class="num"><abbr class="none" title="{}">outdated</abbr></td>'
NOT_RANKED = '<td class="num"><span class="none">not ranked</span></td>'
PLACE = '<td class="num">{:d}{}<span class="interval">{}</span></td>'
RANGE = ' <span class="range" title="Ranks that paired tests cannot exclude">{}</span>'
# Parts of a whisker, from 0 to 100.
SCALE = (
    '<svg class="whisker" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    '<line class="whisker-scale" x1="0" y1="6" x2="100" y2="6"/>'
)
NEUTRAL = '<line class="whisker-neutral" x1="{}" y1="0" x2="{}" y2="12"/>'
INTERVAL = '<line class="whisker-interval" x1="{}" y1="6" x2="{}" y2="6"/>'
VALUE = '<line class="whisker-value" x1="{}" y1="1.5" x2="{}" y2="10.5"/></svg>'


@register.simple_tag
def cells(row: Row) -> SafeString:
    """The values of a model beside the one it is ranked by, each with the reason where there is none."""
    return SafeString("".join(f'<td class="num">{_value(cell)}</td>' for cell in row.cells))


def _value(cell: Cell) -> str:
    if cell.reason:
        return format_html('<abbr class="none" title="{}">{}</abbr>', cell.reason, cell.text)
    return cell.text + NOT_SIGNIFICANT if cell.significant is False else cell.text  # digits: nothing to escape


@register.simple_tag
def facts(row: Row, names: list[str]) -> SafeString:
    """What is known of a model and of its result, a cell for each of `names`."""
    return SafeString("".join(FACTS[name](row) for name in names))


def _of_source(count: int | None) -> str:
    return f'<td class="num">{UNPRINTED if count is None else intcomma(count)}</td>'


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if at else ""


def _parameters(row: Row) -> str:
    count = row.model.parameters
    return f'<td class="num">{compact(count) if count else UNKNOWN}</td>'


def _revision(row: Row) -> str:
    whole = row.model.revision
    return format_html('<td><code title="{}">{}</code></td>', whole, whole[:19]) if whole else f"<td>{UNKNOWN}</td>"


UNKNOWN = '<span class="none">unknown</span>'
UNPRINTED = '<span class="none" title="The source does not print it">unknown</span>'
FACTS: dict[str, Callable[[Row], str]] = {
    "provenance": lambda row: f"<td>{row.version.get_provenance_display()}</td>",
    "family": lambda row: format_html("<td>{}</td>", row.model.family or SafeString(UNKNOWN)),
    "kind": lambda row: f"<td>{row.model.get_kind_display()}</td>",
    "parameters": _parameters,
    "date": lambda row: f'<td class="date">{_day(row.result.scoring.scored_at)}</td>',
    "n": lambda row: _of_source(row.result.n),
    "missing": lambda row: _of_source(row.result.missing if row.version.measured else None),
    "revision": _revision,
}


@register.simple_tag
def places(line: Line, digits: int) -> SafeString:
    """The ranks of a model under each version, with their intervals and values."""
    return SafeString("".join(_place(place, reason, digits) for place, reason in line.cells))


def _place(place: Place | None, reason: str, digits: int) -> str:
    if place is None:
        return format_html(OUTDATED, reason) if reason else NOT_RANKED
    of = RANGE.format(place.interval) if place.low is not None else ""
    return PLACE.format(place.rank, of, decimals(place.value, digits))  # numbers: nothing to escape


@register.simple_tag
def whisker(result: Result, measure: Measure, scale: float | None = None) -> SafeString:
    """A value on the scale from 0 to `scale` (default: the measure's) with its interval, as a small drawing.

    It repeats what the cell says in digits.
    """
    percent = 100 / (scale or measure.largest)
    shape, places = SCALE, []
    if measure.neutral is not None:
        shape += NEUTRAL
        places += [round(percent * measure.neutral, 1)] * 2
    if result.ci_low is not None and result.ci_high is not None:
        shape += INTERVAL
        places += [round(percent * result.ci_low, 1), round(percent * result.ci_high, 1)]
    shape += VALUE
    return SafeString(shape.format(*places, *[round(percent * result.value, 1)] * 2))  # numbers: nothing to escape
