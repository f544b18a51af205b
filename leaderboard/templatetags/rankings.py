"""What tables of rankings are made of."""

from django import template

from leaderboard.queries.ranking_view import SLICE
from leaderboard.queries.rankings import Group, Ranking
from leaderboard.views.ranking_address import Choice

register = template.Library()


@register.inclusion_tag("partials/sorted_heading.html")
def heading(choice: Choice, ranking: Ranking, group: Group, key: str, label: str, numeric: bool = True) -> dict:
    """The heading of a column: sorts by it, says whether the table is sorted so, and is asked what it is."""
    order = choice.view.order
    return {
        "label": label,
        "numeric": numeric,
        "address": choice.sorted_by(key),
        "id": f"sort-{ranking.identity}-{group.population}-{key}",
        "sorted": ("descending" if order.descending else "ascending") if order.key == key else "",
        "what": f"what-{ranking.identity}-{'slice' if key.startswith(SLICE) else key}",
    }


@register.simple_tag
def facts_of(ranking: Ranking, group: Group) -> list[str]:
    """The columns between the value and the slices, in order."""
    return ranking.facts(group)


@register.simple_tag
def sort_of_slice(name: str) -> str:
    """The name of the column of a slice."""
    return SLICE + name


@register.simple_tag
def address_of(addresses: dict[str, str], key: str) -> str:
    """One of several addresses."""
    return addresses[key]
