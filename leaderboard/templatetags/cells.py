"""Cells of wide tables. A page has thousands of them, and a template takes ten times as long for each."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from leaderboard.queries.history import Line, Place
from leaderboard.queries.rankings import Cell, Row
from leaderboard.templatetags.board import decimals

register = template.Library()

NOT_SIGNIFICANT = format_html(
    '<abbr class="ns" title="{}">ns</abbr>',
    "Not significant: harmful and benign texts do not differ at 5% after Holm's correction",
)
NO_RANK = format_html('<span class="none">{}</span>', "not ranked")


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
    return format_html_join("", '<td class="num">{}</td>', ((_place(*cell, digits),) for cell in line.cells))


def _place(place: Place | None, reason: str, digits: int) -> SafeString:
    if place is None:
        return format_html('<abbr class="none" title="{}">outdated</abbr>', reason) if reason else NO_RANK
    value = decimals(place.value, digits)
    if not place.interval:
        return format_html('{}<span class="interval">{}</span>', place.rank, value)
    return format_html(
        '{} <span class="range" title="Ranks that paired tests cannot exclude">{}</span>'
        '<span class="interval">{}</span>',
        place.rank,
        place.interval,
        value,
    )
