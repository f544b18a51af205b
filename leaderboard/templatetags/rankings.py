"""What tables of rankings are made of."""

from collections.abc import Collection
from urllib.parse import quote, urlencode

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from leaderboard.rankings.ranking import PopulationRows, Ranking, Row
from leaderboard.rankings.view import SLICE
from leaderboard.views.ranking_address import RankingChoice

register = template.Library()


# Formatted here, as cells are: a page has dozens of headings.
HEADING = (
    '<th scope="col" class="col-{column}{look}"{order}><span class="sorter">'
    '<a id="{id}" href="{address}" hx-boost="true" rel="nofollow">{label}{arrow}</a>'
    '<button type="button" class="what" tabindex="-1" popovertarget="{what}"><span aria-hidden="true">?</span>'
    '<span class="visually-hidden">What is this: {label}</span></button></span></th>'
)
ORDER, ARROW = ' aria-sort="{}"', ' <span class="arrow" aria-hidden="true">{}</span>'


@register.simple_tag
def heading(
    choice: RankingChoice, ranking: Ranking, group: PopulationRows, key: str, label: str, numeric: bool = True
) -> SafeString:
    """The heading of a column: sorts by it, says whether the table is sorted so, and is asked what it is."""
    order = choice.view.order
    is_sorted = order.key == key
    column = "slice" if key.startswith(SLICE) else key
    return format_html(
        HEADING,
        column=column,
        look=" num" if numeric else "",
        order=format_html(ORDER, "descending" if order.descending else "ascending") if is_sorted else "",
        id=f"sort-{ranking.identity}-{group.population}-{key}",
        address=choice.sorted_by(key),
        label=label,
        arrow=format_html(ARROW, "▼" if order.descending else "▲") if is_sorted else "",
        what=f"what-{ranking.identity}-{column}",
    )


@register.simple_tag
def comparison_address(ranking: Ranking, rows: list[Row]) -> str:
    """The address that compares the models of some rows by what they are ranked by."""
    query = [
        ("metric", ranking.metric.slug),
        ("version", ranking.versions[0].number),
        ("measure", ranking.measure.key),
        ("slice", ranking.slice),
        *(("m", row.model.slug) for row in rows),
    ]
    return f"{reverse('compare')}?{urlencode(query, safe='/', quote_via=quote)}"


@register.simple_tag
def facts_of(ranking: Ranking, group: PopulationRows, constants: Collection[str] = ()) -> list[str]:
    """The columns between the value and the slices, in order, but for `constants`."""
    return [name for name in ranking.facts(group) if name not in constants]


@register.simple_tag
def sort_of_slice(name: str) -> str:
    """The name of the column of a slice."""
    return SLICE + name


@register.simple_tag
def address_of(addresses: dict[str, str], key: str) -> str:
    """One of several addresses."""
    return addresses[key]
