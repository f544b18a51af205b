"""Raw shares of labelled texts beside those that are corrected for the scorer's error rates."""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.formats import Table, TableColumn, as_csv
from leaderboard.models import Metric, Provenance
from leaderboard.rankings.corrected import CorrectedResult, Correction, corrections_on, read_cards
from leaderboard.rankings.exports import CONTENT_TYPES
from leaderboard.rankings.ranking import Ranking, Row
from leaderboard.rankings.rows import read_rankings
from leaderboard.rankings.selection import select_ranking
from leaderboard.rankings.versions import NoRanking, metrics_with_versions
from leaderboard.rankings.view import View
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from scoring.metrics.measures import Measure

PARAMETERS = ("slice", "set")
MOST_ROWS = 200  # of the table; the file has all


@dataclass(frozen=True)
class CorrectedRanking:
    """A ranking by a share of labelled texts, and each row's estimate by one of several corrections."""

    metric: Metric
    measure: Measure
    ranking: Ranking
    corrections: list[Correction]
    correction: Correction

    @property
    def rows(self) -> list[tuple[Row, CorrectedResult]]:
        """The rows of all populations with their estimates, by population and rank."""
        rows = [row for group in self.ranking.groups for row in group.rows]
        return [(row, self.correction.correct(row.result)) for row in rows]


@require_safe
@keep_page(reads=PARAMETERS)
def corrected(request: HttpRequest, slug: str) -> HttpResponse:
    """The raw and the corrected share of each entry, by the error rates on one labelled set; or why there is none."""
    view = read_corrected(request, slug)
    context = {
        "metric": view.metric,
        "measure": view.measure,
        "ranking": view.ranking,
        "corrections": view.corrections,
        "chosen": view.correction,
        "rows": view.rows[:MOST_ROWS],
        "most": MOST_ROWS,
    }
    return render(request, "corrected.html", context)


@require_safe
@keep_page(reads=PARAMETERS)
def corrected_file(request: HttpRequest, slug: str) -> HttpResponse:
    """The table of the page of the same address as CSV, whole."""
    view = read_corrected(request, slug)
    names = ("model", "slug", "version", "raw", "raw_low", "raw_high", "corrected", "corrected_low", "corrected_high")
    headings = [TableColumn(name, name not in ("model", "slug")) for name in names]
    headings += [TableColumn("corrected_by", False), TableColumn("reason", False)]
    rows = []
    for row, estimate in view.rows:
        result, share = row.result, estimate.share
        values = (
            result.value,
            result.ci_low,
            result.ci_high,
            *((share.value, share.low, share.high) if share else [None] * 3),
        )
        cells = ["" if value is None else repr(value) for value in values]
        entry = [row.model.name, row.model.slug, str(row.version.number)]
        rows.append([*entry, *cells, view.correction.set_label, estimate.reason])
    response = HttpResponse(as_csv(Table("Raw and corrected", headings, rows)), content_type=CONTENT_TYPES["csv"])
    response["Content-Disposition"] = f'attachment; filename="{slug}-corrected.csv"'
    return response


def read_corrected(request: HttpRequest, slug: str) -> CorrectedRanking:
    """Read the address, and what it asks for. Raises Http404 with a sentence."""
    metric = next((metric for metric in metrics_with_versions() if metric.slug == slug), None)
    measure = next((one for one in metric.formula.measures.values() if one.correctable), None) if metric else None
    if metric is None or measure is None:
        raise Http404(f"There is no metric {slug[:100]!r} of shares of labelled texts on this board")
    try:
        selection = select_ranking(
            metric, provenance=Provenance.MEASURED, measure=measure.key, name=request.GET.get("slice") or None
        )
        ranking = read_rankings([selection], View(columns=(), rows=None))[0]
    except NoRanking as error:
        raise Http404(str(error)) from error
    version = selection.versions[0]
    corrections = corrections_on(version, selection.slice, read_cards([version]).get(version.pk, []))
    by_set = {one.evaluation_set.slug: one for one in corrections if one.evaluation_set}
    correction = by_set[pick(request, "set", next(iter(by_set)), list(by_set))] if by_set else Correction("")
    return CorrectedRanking(metric, measure, ranking, corrections, correction)
