"""Everything about one model."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel, Result, Scoring, Work
from leaderboard.views.keeping import kept
from leaderboard.views.polling import polling
from scoring.metrics.formulas import slices_in_order
from scoring.metrics.measures import Measure


@dataclass(frozen=True)
class Profile:
    """One scoring as a table: a row a slice, a column a measure."""

    scoring: Scoring
    measures: list[Measure]
    rows: list[tuple[str, list[Result | None]]]


@require_safe
@kept(watching=True)
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """A model's card, its runs, and every number it has."""
    found = get_object_or_404(LanguageModel, slug=slug)
    scorings = (
        found.scorings.filter(state=Work.State.DONE)
        .select_related("metric_version__metric__protocol__evaluation_set", "run")
        .prefetch_related("results")
        .order_by("metric_version__metric__position", "-metric_version__number")
    )
    runs = found.runs.select_related("protocol__evaluation_set", "artefact").order_by("created_at")
    context = {
        "model": found,
        "profiles": [profile(scoring) for scoring in scorings],
        "runs": runs,
        **polling(request, found.scorings.all()),
    }
    return render(request, "model.html", context)


def profile(scoring: Scoring) -> Profile:
    """Arrange a scoring's results."""
    results = list(scoring.results.all())
    cells = {(result.slice, result.measure): result for result in results}
    declared = scoring.metric_version.metric.formula.measures.values()
    measures = [measure for measure in declared if any(r.measure == measure.key for r in results)]
    slices = slices_in_order(result.slice for result in results)
    rows = [(name, [cells.get((name, measure.key)) for measure in measures]) for name in slices]
    return Profile(scoring, measures, rows)
