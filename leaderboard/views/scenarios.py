"""Does rescoring change the order of the models? The three scenarios of Pozzobon et al. 2023, side by side."""

from itertools import pairwise

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import BumpColumn, BumpLine, Chart, bump_chart
from leaderboard.formats import Table, TableColumn, as_csv
from leaderboard.models import Metric, address_of_model
from leaderboard.numbers import plus
from leaderboard.queries.scenarios import (
    ScenarioChange,
    ScenarioComparison,
    compare_scenarios,
    scenario_slices,
    scenario_versions,
)
from leaderboard.rankings.digits import digits_between
from leaderboard.rankings.versions import NoRanking, metrics_with_versions
from leaderboard.rankings.words import coefficient
from leaderboard.templatetags.layout import counted
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from scoring.artefacts import ArtefactError
from scoring.metrics.formulas import MEASURES, slice_phrase

MOST_MOVES = 10
PARAMETERS = ("measure", "slice")


@require_safe
@keep_page(reads=(*PARAMETERS, *CHART_FILE))
def scenarios(request: HttpRequest, slug: str) -> HttpResponse:
    """The same models ranked in each scenario, and what changed from one to the next."""
    metric, measure, name, slices = parse(request, slug)
    context = {
        "metric": metric,
        "measure": MEASURES[measure],
        "measures": metric.formula.ranked,
        "slice": name,
        "slices": slices,
    }
    bump = None
    if name:
        comparison = read_comparison(metric, measure, name)
        versions = [scenario.view.version for scenario in comparison.scenarios]
        digits = digits_between(versions[0], versions[-1], measure)
        moves = sorted(comparison.models, key=lambda model: (-abs(model.change), model.name))
        context |= {
            "comparison": comparison,
            "digits": digits,
            "more_digits": digits + 1,
            "sentences": [describe_change(step, digits) for step in comparison.changes],
            "moves": [model for model in moves if model.change][:MOST_MOVES],
            "chart": (bump := chart(metric, measure, name, comparison)),
        }
    return chart_file(request, [bump]) or render(request, "scenarios.html", context)


@require_safe
def scenarios_export(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """The comparison of the page of the same address, as CSV (a row a model) or JSON (all of it)."""
    metric, measure, slice_name, _ = parse(request, slug)
    if not slice_name:
        raise Http404(f"The metric {slug} has no scenarios to export")
    comparison = read_comparison(metric, measure, slice_name)
    if name == "json":
        response: HttpResponse = JsonResponse(
            {"metric": slug, "measure": measure, "slice": slice_name, **comparison.as_json()},
            json_dumps_params={"ensure_ascii": False},
        )
    else:
        response = HttpResponse(as_csv(model_table(comparison)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{slug}-scenarios.{name}"'
    return response


def parse(request: HttpRequest, slug: str) -> tuple[Metric, str, str, list[str]]:
    """The metric, measure and slice asked for, and the slices to choose from. Raises Http404 with a sentence."""
    metric = next((one for one in metrics_with_versions() if one.slug == slug), None)
    if metric is None:
        raise Http404(f"There is no metric {slug!r} with numbers on this board")
    versions = scenario_versions(metric)
    measures = [measure.key for measure in metric.formula.ranked]
    measure = pick(request, "measure", versions[-1].first_measure if versions else metric.measure, measures)
    slices = scenario_slices(metric, measure)
    return metric, measure, pick(request, "slice", slices[0], slices) if slices else "", slices


def read_comparison(metric: Metric, measure: str, name: str) -> ScenarioComparison:
    """The comparison. Raises Http404 where a stored file is gone or nothing is ranked."""
    try:
        return compare_scenarios(metric, measure, name)
    except NoRanking as error:
        raise Http404(str(error)) from error
    except (ArtefactError, FileNotFoundError) as error:
        raise Http404("A stored file is damaged or gone: the operator's manage.py verify says which") from error


def describe_change(step: ScenarioChange, digits: int) -> str:
    """What changed from one scenario to another, in words."""
    record = step.changes
    words = f"{record.changed_ranks} of {len(record.models)} ranks changed"
    if record.mean_abs_difference is not None and record.largest_difference is not None:
        largest = record.largest_difference
        difference = plus(largest.difference, digits + 1)
        words += f"; values changed by {record.mean_abs_difference:.{digits + 1}f} on average, and most for"
        words += f" {largest.model} ({difference})"
    if record.kendall.value is not None:
        words += f"; Kendall's tau {coefficient(record.kendall)}"
    return f"{step.before.label} to {step.after.label[0].lower()}{step.after.label[1:]}: {words}."


def chart(metric: Metric, measure: str, name: str, comparison: ScenarioComparison) -> Chart:
    """The ranks in each scenario as a bump chart."""
    population = counted(len(comparison.models), "model")
    captions = {
        "Generations and prompts rescored": ("generations", "and prompts"),
        "Generations rescored": ("generations",),
    }
    columns = [
        BumpColumn(number, captions.get(scenario.view.label, ("first",)), among=population, title=scenario.view.label)
        for number, scenario in enumerate(comparison.scenarios, start=1)
    ]
    return bump_chart(
        f"{metric.slug}-scenarios",
        columns,
        [
            BumpLine(
                model.slug,
                model.name,
                model.ranks,
                [old_rank - new_rank for old_rank, new_rank in pairwise(model.ranks)],
                link=address_of_model(model.slug),
            )
            for model in comparison.models
        ],
        f"Ranks of {population} by {MEASURES[measure].label.lower()}, {slice_phrase(name)}, in "
        f"{len(columns)} scenarios, the best on top. The table under it has the same numbers.",
    )


def model_table(comparison: ScenarioComparison) -> Table:
    """A row a model: ranks and values in each scenario."""
    columns = [TableColumn("model", False), TableColumn("slug", False)]
    for number in range(1, len(comparison.scenarios) + 1):
        columns += [TableColumn(f"rank_{number}"), TableColumn(f"value_{number}")]
    rows = [
        [
            model.name,
            model.slug,
            *(cell for pair in zip(model.ranks, model.values, strict=True) for cell in map(str, pair)),
        ]
        for model in comparison.models
    ]
    return Table("Scenarios", columns, rows)
