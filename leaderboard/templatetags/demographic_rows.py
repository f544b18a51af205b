"""The rows of tables by demographic. A page has hundreds of cells, and a template takes ten times as long for each."""

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import escape
from django.utils.safestring import SafeString

from leaderboard.models import address_of_model
from leaderboard.numbers import decimals
from leaderboard.queries.demographics import Board, HeatMapCell, HeatRow, OwnRanking, Ranked
from leaderboard.rankings.digits import print_value
from leaderboard.templatetags.board import ends, without_score
from leaderboard.templatetags.cells import if_indifferent, whisker
from leaderboard.templatetags.ranking_rows import LEADING, rank_range

register = template.Library()

MARK = ' <span class="mark">not sig.</span>'
NO_SCORE = '<td class="num"><span class="none">no score</span></td>'
NOT_STATED = '<td class="num"><span class="none">not stated</span></td>'
PLACE = (
    '<tr{look}><td class="num rank">{rank}{range}</td>\n<th scope="row"><a href="{address}">{name}</a>{leading}</th>\n'
    '<td class="num value">{value}{mark}{interval}{missing}{indifferent}</td>\n<td class="scale">{whisker}</td>\n'
    "<td>{kind}</td>{texts}{unscorable}</tr>\n"
)


@register.simple_tag
def heat_cells(row: HeatRow, board: Board) -> SafeString:
    """The cells of a model: a value a slice with its shade, or that there is none."""
    return SafeString("".join(_heat_cell(cell, board) for cell in row.cells))


def _heat_cell(cell: HeatMapCell | None, board: Board) -> str:
    if cell is None:
        return NO_SCORE if board.version.measured else NOT_STATED
    mark = MARK if cell.significant is False else ""
    own = if_indifferent(cell.indifferent, board.measure, board.version)
    return f'<td class="num heat heat-{cell.level}">{decimals(cell.value, board.digits)}{mark}{own}</td>'


@register.simple_tag
def places_of_slice(ranking: OwnRanking, board: Board) -> SafeString:
    """The rows of a demographic's own ranking."""
    return SafeString("".join(_place(row, ranking, board) for row in ranking.rows))


def _place(row: Ranked, ranking: OwnRanking, board: Board) -> str:
    version, entry = board.version, row.entry
    leads, interval = bool(ranking.leading and row.rank_low == 1), ends(row, version)
    return PLACE.format(
        look=' class="leads"' if leads else "",
        rank=row.rank,
        range=rank_range(row.rank_low, row.rank_high),
        address=escape(address_of_model(entry.slug)),
        name=escape(entry.name),
        leading=LEADING if leads else "",
        value=print_value(row, version),
        mark=MARK if row.significant is False else "",
        interval=f'<span class="interval">{interval}</span>' if interval else "",
        missing=without_score(row),
        indifferent=if_indifferent(row.indifferent, board.measure, version),
        whisker=whisker(row, board.measure, board.scale, row.indifferent),
        kind=entry.kind,
        texts=f'<td class="num">{intcomma(row.n)}</td>' if row.n else NOT_STATED,
        unscorable=f'<td class="num">{row.missing}</td>' if version.measured else "",
    )
