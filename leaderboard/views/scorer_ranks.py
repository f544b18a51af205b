"""Does a rank depend on the scorer?"""

from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.charts import BumpColumn, BumpLine, Chart, bump_charts
from leaderboard.formats import as_csv
from leaderboard.models import MetricVersion, Standing, address_of_model
from leaderboard.queries.scorer_ranks import (
    JudgedBoard,
    ScorerGroup,
    describe_sensitivity,
    list_groups,
    read_boards,
    table_of_ranks,
)
from leaderboard.rankings.exports import CONTENT_TYPES
from leaderboard.rankings.populations import first_population, population_title
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from scoring.metrics.measures import Measure

PARAMETERS = ("metric", "of", "scorer", "measure", "part", "kind")
MOST_LINES = 40  # of a panel
MOST_ROWS = 200  # of the table; the files have all


@dataclass(frozen=True)
class ScorerChoice:
    """What the address asks for; every value is one that exists. versions: of the chosen scorers."""

    group: ScorerGroup
    versions: list[MetricVersion]
    measure: Measure
    part: str
    population: str

    @property
    def name(self) -> str:
        """The group, as addresses have it: a metric of it and the provenance."""
        return name_of_group(self.group)

    @property
    def address(self) -> str:
        """Of the files with the same view."""
        options = [("metric", self.name), ("measure", self.measure.key), ("part", self.part), ("kind", self.population)]
        return "?" + urlencode([*options, *(("scorer", version.metric.slug) for version in self.versions)])


def name_of_group(group: ScorerGroup) -> str:
    """As in "toxicity-profanity:measured"."""
    return f"{group.versions[0].metric.slug}:{group.provenance}"


@require_safe
@keep_page(reads=(*PARAMETERS, *CHART_FILE))
def scorer_ranks(request: HttpRequest) -> HttpResponse:
    """The ranks of the same entries under each scorer: small multiples by measure, and ranges by entry."""
    metrics = metrics_with_versions()
    groups = list_groups(metrics)
    slugs = {version.metric.slug for group in groups for version in group.versions}
    if not groups or request.GET.get("metric") in {metric.slug for metric in metrics} - slugs:
        return render(request, "scorer_ranks.html", {"groups": []})
    choice = parse(request, groups)
    if request.GET.get("of", choice.name) != choice.name:  # the form's other choices are of other texts
        return redirect(f"{request.path}?{urlencode({'metric': choice.name})}")
    boards = read_boards(choice.group, choice.versions, choice.part, choice.population)
    board = boards[choice.measure.key]
    chart = draw_boards(choice, boards) if len(board.entries) > 1 and len(choice.versions) > 1 else None
    context = {
        "groups": [(name_of_group(group), group) for group in groups],
        "choice": choice,
        "candidates": choice.group.ranked_by(choice.measure.key, choice.part),
        "parts": choice.group.parts(choice.measure.key),
        "kinds": [
            (value, label)
            for value, label in Standing.Population.choices
            if value in choice.group.populations(choice.versions)
        ],
        "population": population_title(choice.population, choice.group.versions[0].metric.formula.by_kind),
        "board": board,
        "columns": list(zip(board.versions, board.slices, strict=True)),
        "rows": board.rows[:MOST_ROWS],
        "boards": list(boards.values()),
        "sentences": describe_sensitivity(board, choice.population),
        "most": MOST_ROWS,
        "files": [(name, reverse("scorer_ranks_file", args=[name]) + choice.address) for name in ("csv", "json")],
        "chart": chart,
    }
    return chart_file(request, [chart]) or render(request, "scorer_ranks.html", context)


@require_safe
@keep_page(reads=PARAMETERS)
def scorer_ranks_file(request: HttpRequest, name: str) -> HttpResponse:
    """The ranks of the page of the same address, as CSV (of the measure shown) or JSON (of all measures)."""
    groups = list_groups(metrics_with_versions())
    if not groups:
        raise Http404("No two scorers have judged the same texts here yet")
    choice = parse(request, groups)
    if len(choice.versions) < 2:
        raise Http404("scorer: choose at least two scorers; with one there is nothing to compare")
    boards = read_boards(choice.group, choice.versions, choice.part, choice.population)
    if name == "json":
        content = {
            "provenance": choice.group.provenance,
            "population": choice.population,
            "part": choice.part,
            "boards": [board.as_json() for board in boards.values()],
        }
        response: HttpResponse = JsonResponse(content, json_dumps_params={"ensure_ascii": False})
    else:
        response = HttpResponse(as_csv(table_of_ranks(boards[choice.measure.key])), content_type=CONTENT_TYPES["csv"])
    response["Content-Disposition"] = f'attachment; filename="ranks-by-scorer.{name}"'
    return response


def parse(request: HttpRequest, groups: list[ScorerGroup]) -> ScorerChoice:
    """Read the address. Raises Http404 with a sentence."""
    by_metric = {version.metric.slug: group for group in reversed(groups) for version in group.versions}
    by_name = by_metric | {f"{v.metric.slug}:{group.provenance}": group for group in groups for v in group.versions}
    group = by_name[pick(request, "metric", name_of_group(groups[0]), list(by_name))]
    measures = {measure.key: measure for measure in group.measures}
    first_measures = [version.first_measure for version in group.versions if version.first_measure in measures]
    measure = measures[pick(request, "measure", next(iter(first_measures), next(iter(measures))), list(measures))]
    parts = group.parts(measure.key)
    part = pick(request, "part", parts[0], parts)
    candidates = {version.metric.slug: version for version in group.ranked_by(measure.key, part)}
    names = set(request.GET.getlist("scorer"))
    unknown = sorted(names - {version.metric.slug for version in group.versions})
    if unknown:
        raise Http404(f"scorer = {unknown[0][:100]!r} has not judged these texts. Known: {', '.join(candidates)}")
    versions = [version for slug, version in candidates.items() if slug in names]
    versions = versions or list(candidates.values())  # the chosen ones may rank by another measure only
    populations = group.populations(versions)
    if not populations:
        raise Http404("scorer: these scorers rank no models in common; choose others")
    population = first_population(versions[0].metric, populations)
    return ScorerChoice(group, versions, measure, part, pick(request, "kind", population, sorted(populations)))


def draw_boards(choice: ScorerChoice, boards: dict[str, JudgedBoard]) -> Chart:
    """Small multiples: the ranks under each scorer, a panel a measure, the chosen one first."""
    in_order = sorted(boards.values(), key=lambda board: board.measure != choice.measure)
    columns = [
        BumpColumn(number, tuple(version.metric.title.split()), title=version.metric.title)
        for number, version in enumerate(choice.versions, 1)
    ]
    panels = {board.measure.label: draw_lines(board) for board in in_order if len(board.entries) > 1}
    return bump_charts(
        "scorer-ranks",
        columns,
        panels,
        f"Ranks of the same models under {len(columns)} scorers, a panel for each of {len(panels)} measures, the best "
        "on top. The tables under it have the ranks of the first panel, and how far the scorers agree in each.",
    )


def draw_lines(board: JudgedBoard) -> list[BumpLine]:
    """The lines of a panel: of the first entries by median rank."""
    lines = []
    for entry, places, *_ in board.rows[:MOST_LINES]:
        ranks = [rank for rank, _ in places]
        moves = [first - second for first, second in pairwise(ranks)]
        lines.append(BumpLine(entry.slug, entry.name, ranks, moves, link=address_of_model(entry.slug)))
    return lines
