"""What tables of rankings are made of."""

from collections.abc import Collection
from urllib.parse import quote, urlencode

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from leaderboard.rankings.ranking import PopulationRows, Ranking, Row
from leaderboard.rankings.view import EXTRAS, SLICE
from leaderboard.templatetags.board import end
from leaderboard.templatetags.cells import FACTS, NUMERIC
from leaderboard.views.ranking_address import RankingChoice
from scoring.metrics.formulas import slice_label

register = template.Library()


# Formatted here, as cells are: a page has dozens of headings.
HEADING = (
    '<th scope="col" class="col-{column}{look}"{order}><span class="sorter">'
    '<a id="sort-{identity}-{population}-{key}" href="{address}" hx-boost="true" rel="nofollow">{label}{arrow}</a>'
    '<button type="button" class="what" tabindex="-1" popovertarget="what-{identity}-{column}">'
    '<span aria-hidden="true">?</span><span class="visually-hidden">What is this: {label}</span></button></span></th>\n'
)
SCALE_HEADING = (
    '<th scope="col" class="scale"><span>{}</span><span class="visually-hidden"> to </span><span>{}</span></th>\n'
)
ORDER, ARROW = ' aria-sort="{}"', ' <span class="arrow" aria-hidden="true">{}</span>'
ASCENDING, DESCENDING = ("ascending", "▲"), ("descending", "▼")


@register.simple_tag
def headings(
    choice: RankingChoice, ranking: Ranking, group: PopulationRows, names: list[str], value_label: str, date_label: str
) -> SafeString:
    """The headings of a group's table: each sorts by its column, says whether it does, and is asked what it is.

    names: of the facts beside the value.
    """
    labels = {**EXTRAS, "provenance": "Provenance", "date": date_label}
    facts = [(name, labels[name], FACTS[name][0] == NUMERIC) for name in names]
    slices = [(SLICE + name, slice_label(name), True) for name in ranking.columns]
    return SafeString(
        "".join(
            [
                _heading(choice, ranking, group, "rank", "Rank", True),
                _heading(choice, ranking, group, "model", "Model", False),
                _heading(choice, ranking, group, "value", value_label, True),
                SCALE_HEADING.format(end(ranking.scale.start), end(ranking.scale.end)),
                *(_heading(choice, ranking, group, *column) for column in (*facts, *slices)),
            ]
        )
    )


def _heading(
    choice: RankingChoice, ranking: Ranking, group: PopulationRows, key: str, label: str, is_numeric: bool
) -> str:
    order = choice.view.order
    word, arrow = DESCENDING if order.descending else ASCENDING
    is_sorted = order.key == key
    return HEADING.format(
        column="slice" if key.startswith(SLICE) else key,
        look=" num" if is_numeric else "",
        order=ORDER.format(word) if is_sorted else "",
        identity=ranking.identity,
        population=group.population,
        key=escape(key),
        address=escape(choice.sorted_by(key)),
        label=escape(label),
        arrow=ARROW.format(arrow) if is_sorted else "",
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
def address_of(addresses: dict[str, str], key: str) -> str:
    """One of several addresses."""
    return addresses[key]
