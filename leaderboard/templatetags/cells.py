"""Cells of wide tables. A page has thousands of them, and a template takes ten times as long for each."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from leaderboard.models import Result
from leaderboard.queries.history import Line, Place
from leaderboard.queries.rankings import Cell, Row
from leaderboard.templatetags.board import decimals
from scoring.metrics.measures import Measure

register = template.Library()

NOT_SIGNIFICANT = format_html(
    '<abbr class="ns" title="{}">ns</abbr>',
    "Not significant: harmful and benign texts do not differ at 5% after Holm's correction",
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
    return format_html_join("", '<td class="num">{}</td>', ((_value(cell),) for cell in row.cells))


def _value(cell: Cell) -> str:
    if cell.reason:
        return format_html('<abbr class="none" title="{}">{}</abbr>', cell.reason, cell.text)
    return format_html("{}{}", cell.text, NOT_SIGNIFICANT) if cell.significant is False else cell.text


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
    return format_html(shape + VALUE, *places, *[round(percent * result.value, 1)] * 2)
