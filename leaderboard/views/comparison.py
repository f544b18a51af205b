"""Do two scorers agree?"""

from dataclasses import dataclass

from django.core.cache import caches
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart
from leaderboard.formats import as_csv
from leaderboard.models import MetricVersion, Scoring, Standing, Work, ranked_now
from leaderboard.queries.comparison import Comparison, RankAgreement, comparable_versions, compare, find_version
from leaderboard.queries.comparison_words import attribute_table, summary
from leaderboard.queries.scorer_figures import MEASURES
from leaderboard.rankings.changes import Side, label_models
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.page_store import digest_makers
from leaderboard.views.scorer_charts import ScorePanel, score_charts
from scoring.artefacts import ArtefactError
from scoring.refusals import Refused

MOST_RUNS = 50  # whose artefacts one request reads: a second or two
KEPT_SECONDS = 300
FILE_LOST = "A stored file that this needs is damaged or gone: the operator's manage.py verify says which"


@dataclass(frozen=True)
class ScorerMove:
    """A model under one scorer and under the other."""

    first: Standing
    second: Standing
    change: int

    @property
    def words(self) -> str:
        """How its rank among the models of both differs under the second scorer."""
        return f"{'up' if self.change > 0 else 'down'} {abs(self.change)}" if self.change else "same"


@require_safe
@keep_page(reads=("a", "b", *CHART_FILE))
def compare_scorers(request: HttpRequest) -> HttpResponse:
    """Two metric versions whose scorers judged the same continuations, chosen by `a` and `b`."""
    versions = comparable_versions()
    selection = select_versions(request, versions)
    context: dict[str, object] = {"versions": versions, **selection}
    if len(selection) == 2:
        try:
            if "chart" in request.GET and (file := chart_file(request, charts(compare_versions(selection)))):
                return file
            context["comparison"] = kept_comparison(selection["a"], selection["b"])
        except Refused as error:
            context["problem"] = str(error)
        except (ArtefactError, FileNotFoundError):
            context["problem"] = FILE_LOST
    return render(request, "compare_scorers.html", context)


@require_safe
@keep_page(reads=("a", "b"))
def compare_scorers_export(request: HttpRequest, name: str) -> HttpResponse:
    """The comparison of the page of the same address, as CSV (a row an attribute) or JSON (all of it)."""
    selection = select_versions(request, comparable_versions())
    if len(selection) < 2:
        raise Http404("Name two metrics, or versions as METRIC@VERSION: ?a=...&b=...")
    try:
        comparison = compare_versions(selection)
    except Refused as error:
        raise Http404(str(error)) from error
    except (ArtefactError, FileNotFoundError) as error:
        raise Http404(FILE_LOST) from error
    if name == "json":
        response: HttpResponse = JsonResponse(comparison.as_json(), json_dumps_params={"ensure_ascii": False})
    else:
        response = HttpResponse(as_csv(attribute_table(comparison)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="scorers.{name}"'
    return response


def select_versions(request: HttpRequest, versions: list[MetricVersion]) -> dict[str, MetricVersion]:
    """The versions that `a` and `b` of the address name. Raises Http404."""
    names = {key: request.GET.get(key, "") for key in ("a", "b")}
    try:
        return {key: find_version(name, versions) for key, name in names.items() if name}
    except Refused as error:
        raise Http404(str(error)) from error


def kept_comparison(first: MetricVersion, second: MetricVersion) -> SafeString:
    """A comparison as HTML, kept for some minutes while nothing is scored under either version."""
    scorings = Scoring.objects.filter(ranked_now("model__"), metric_version__in=[first, second], state=Work.State.DONE)
    state = scorings.aggregate(count=Count("pk"), last=Max("scored_at"))
    last = state["last"] and state["last"].timestamp()
    key = f"comparison-{digest_makers()}-{first.pk}-{second.pk}-{state['count']}-{last}"
    html: str | None = caches["pages"].get(key)
    if html is None:
        comparison = compare_versions({"a": first, "b": second})
        context: dict[str, object] = {
            "found": comparison,
            "sentences": summary(comparison),
            "moved": list_moves(comparison.ranks),
        }
        context |= {"charts": charts(comparison), "measures": MEASURES}
        context["chart_query"] = [("a", name_version(first)), ("b", name_version(second))]
        html = render_to_string("partials/scorer_agreement.html", context)
        caches["pages"].set(key, html, KEPT_SECONDS)
    return mark_safe(html)  # noqa: S308 (what a template of ours has made)


def compare_versions(versions: dict[str, MetricVersion]) -> Comparison:
    """The comparison of the versions `a` and `b`. Raises Refused, and what reading stored files raises."""
    return compare(versions["a"], versions["b"], most_runs=MOST_RUNS)


def name_version(version: MetricVersion) -> str:
    """A version as addresses of this page have it."""
    return f"{version.metric.slug}@{version.number}"


def charts(comparison: Comparison) -> list[Chart]:
    """The scores of both on the same texts."""
    panels = [
        ScorePanel(figures.attribute, attribute.pearson.value, figures.points)
        for figures, attribute in zip(comparison.figures, comparison.attributes, strict=True)
    ]
    return score_charts(comparison.first.scorer, comparison.second.scorer, panels)


def list_moves(ranks: list[RankAgreement]) -> list[ScorerMove]:
    """The models of the first pair of boards, by their rank under the second scorer."""
    if not ranks:
        return []
    first, second, changes = ranks[0].first, ranks[0].second, ranks[0].changes
    labels = label_models(first, second)
    boards = [
        {labels[standing.model.slug]: standing for standing in standings_on(side) if standing.model.slug in labels}
        for side in (first, second)
    ]
    return [ScorerMove(boards[0][move.model], boards[1][move.model], move.change) for move in changes.models]


def standings_on(side: Side) -> QuerySet[Standing]:
    """The standings of a board, with models and results."""
    exact = {"measure": side.measure.key, "slice": side.slice, "population": side.population}
    return side.version.standings.filter(**exact).select_related("model", "result")
