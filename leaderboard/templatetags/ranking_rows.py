"""The rows of rankings: a page has a hundred of them, and a template takes five times as long for each."""

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from leaderboard.models import LanguageModel
from leaderboard.numbers import decimals
from leaderboard.rankings.corrected import CorrectedResult
from leaderboard.rankings.ranking import PopulationRows, Ranking, Row
from leaderboard.templatetags.board import ends, nth, number, without_score, worst_cases
from leaderboard.templatetags.cells import cells, facts, gained, if_indifferent, run_marks, whisker
from scoring.metrics.measures import Measure

register = template.Library()

ROW = (
    '<tr{look}>\n<td class="num rank"><input type="checkbox" name="m" value="{slug}" aria-label="Compare {name}">{rank}'
    '<span class="among"> of {size}</span>{tie}{range}{gained}</td>\n'
    '<th scope="row"><a class="name" href="{address}" title="{name}">{name}</a>{leading} {marks}{tags}</th>\n'
    '<td class="num value">{value}{interval}{missing}{worst}{indifferent}{corrected}</td>\n'
    '<td class="scale">{whisker}</td>{facts}{cells}</tr>\n'
)
TIED = ' <abbr class="tied" title="Shared with others">=</abbr>'
RANGE = ' <span class="range" title="Anywhere from {} to {}, by paired tests">{}–{}</span>'  # noqa: RUF001 (a range)
LEADING = ' <span class="tag leading" title="Cannot be told from the best">◆ leads</span>'
BASELINE = ' <span class="tag" title="Comes with this board, as something to compare with">baseline</span>'
UPLOADED = (
    ' <a class="tag" href="{}#provenance" title="Its outputs were made elsewhere and sent; they are scored here">'
    "uploaded outputs</a>"
)
OTHER_SETTINGS = ' <a class="tag tag-differs" href="{}#provenance" title="{}">other settings</a>'
LOOKED_AT = ' <a class="tag tag-differs" href="{}#reading" title="{}">looked at</a>'
ACCESS = ' <span class="tag tag-{}">{}</span>'
NOT_REPRODUCIBLE = (
    ' <a class="tag tag-outdated" href="{}" title="The service behind this entry is another one since: nobody can '
    'measure these numbers again">not reproducible</a>'
)
FILES_LOST = (
    ' <span class="tag tag-outdated" title="Files behind this number are damaged or missing: {}">files lost</span>'
)
WORST = '<span class="interval worst" title="Whatever the {} texts without a score are">worst cases {}</span>'
ESTIMATE = (
    ' <span class="interval corrected"><abbr title="An estimate, corrected for the scorer\'s error rates: not ranked '
    'by">est.</abbr> ≈ {}</span><span class="interval">{}–{}</span>'  # noqa: RUF001 (a range wants an en dash)
)
NO_ESTIMATE = ' <span class="interval corrected"><abbr title="{}">no est.</abbr></span>'


@register.simple_tag
def ranked_rows(ranking: Ranking, group: PopulationRows, names: list[str], labels: list[str]) -> SafeString:
    """The rows of a group of a ranking.

    names: of the facts beside the value. labels: of the slices after these, escaped, which cards show beside values.
    """
    size, marks_base = intcomma(group.size), ranking.tells_apart
    return SafeString("".join(_row(row, ranking, size, marks_base, names, labels) for row in group.rows))


def _row(row: Row, ranking: Ranking, size: str, marks_base: bool, names: list[str], labels: list[str]) -> str:
    model, result, measure = row.model, row.result, ranking.measure
    interval, address = ends(result, row.version), escape(model.get_absolute_url())
    has_rates = ranking.correction is not None and ranking.correction.rates is not None
    return ROW.format(
        look=' class="leads"' if row.leads else "",
        slug=model.slug,
        name=escape(model.name),
        rank=row.rank,
        size=size,
        tie=TIED if row.tied else "",
        range=rank_range(row.rank_low, row.rank_high),
        gained=gained(row, ranking),
        address=address,
        leading=LEADING if row.leads else "",
        marks=run_marks(model, marks_base),
        tags=_tags(row, address),
        value=number(result, row.version),
        interval=f'<span class="interval">{interval}</span>' if interval else "",
        missing=without_score(result),
        worst=WORST.format(intcomma(result.missing_texts), worst_cases(result)) if result.missing_texts else "",
        indifferent=if_indifferent(row.indifferent, measure, row.version),
        corrected=_estimate(row.corrected, measure) if row.corrected and has_rates else "",
        whisker=whisker(result, measure, ranking.scale, row.indifferent),
        facts=facts(row, names),
        cells=cells(row, labels),
    )


def rank_range(low: int | None, high: int | None) -> str:
    """The ranks that a model could have beside its own; empty where no tests were made."""
    return "" if low is None or high is None else RANGE.format(nth(low), nth(high), low, high)


def _tags(row: Row, address: str) -> str:
    """What is to be known of an entry beside its name. address: of its page, escaped."""
    model, tags = row.model, []
    if model.source == LanguageModel.Source.BUNDLED:
        tags.append(BASELINE)
    if model.source == LanguageModel.Source.UPLOADED:
        tags.append(UPLOADED.format(address))
        if row.differences:
            tags.append(OTHER_SETTINGS.format(address, escape(" ".join(row.differences))))
    if row.flags:
        tags.append(LOOKED_AT.format(address, escape(" ".join(row.flags))))
    if model.access != LanguageModel.Access.OPEN:
        tags.append(ACCESS.format(model.access, model.get_access_display().lower()))
    if model.service_changed_at:
        tags.append(NOT_REPRODUCIBLE.format(address))
    if row.result.scoring.lost_files:
        tags.append(format_html(FILES_LOST, row.result.scoring.lost_files))
    return "".join(tags)


def _estimate(result: CorrectedResult, measure: Measure) -> str:
    """The corrected value beneath a raw one, or why there is none."""
    share = result.share
    if share is None:
        return format_html(NO_ESTIMATE, result.reason[:1].upper() + result.reason[1:])
    return ESTIMATE.format(*(decimals(value, measure.digits) for value in (share.value, share.low, share.high)))
