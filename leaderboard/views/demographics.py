"""Who is harmed?"""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import BoxColumn, Chart, ShadedCell, box_plots, heat_map
from leaderboard.models import Metric, MetricVersion, Provenance, Standing, address_of_model
from leaderboard.numbers import decimals
from leaderboard.queries.demographics import (
    Board,
    BoardModel,
    HeatRow,
    board,
    boxes,
    entries_of,
    heat_rows,
    of_demographics,
    own_ranking,
    sentences,
    shades_of,
    usual_measure,
)
from leaderboard.rankings.intervals import explain_intervals
from leaderboard.rankings.populations import ALL, first_population
from leaderboard.rankings.versions import current_versions, metrics_with_versions, published_versions
from leaderboard.templatetags.layout import counted
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import choose_metric, pick
from scoring.metrics.formulas import slice_label

PAGE = 50  # models


@dataclass(frozen=True)
class DemographicsChoice:
    """What the address asks for; every value is one that exists. version: None where the metric has none yet."""

    metric: Metric
    measure: str
    version: MetricVersion | None
    versions: list[MetricVersion]
    provenance: str
    population: str


@require_safe
@keep_page(reads=("metric", "provenance", "version", "kind", "measure", "demographic", "page", "m", *CHART_FILE))
def demographics(request: HttpRequest) -> HttpResponse:
    """The values of a metric's models by demographic."""
    metrics = [metric for metric in metrics_with_versions() if of_demographics(metric)]
    metric = choose_metric(
        request, metrics, next((candidate for candidate in metrics if published_versions(candidate)), None)
    )
    choice, entries = parse(request, metric)
    context: dict[str, object] = {
        "metrics": [candidate for candidate in metrics if published_versions(candidate)],
        "unfilled": [candidate for candidate in metrics if not published_versions(candidate)],
        "choice": choice,
        "provenances": [(value, label) for value, label in Provenance.choices if value in provenances(metric)],
        "kinds": [(value, label) for value, label in Standing.Population.choices if value in populations(entries)],
    }
    charts: list[Chart] = []
    if choice.version:
        values_board = board(choice.version, choice.measure, choice.population, entries)
        charts, board_context = describe_board(request, values_board)
        context |= board_context
    return chart_file(request, charts) or render(request, "demographics.html", context)


def parse(request: HttpRequest, metric: Metric) -> tuple[DemographicsChoice, dict[int, BoardModel]]:
    """Read the address but for the slice and the page, and the models that it asks for. Raises Http404."""
    provenance = pick(request, "provenance", "", ["", *provenances(metric)])
    versions = {str(version.number): version for version in published_versions(metric)}
    version = versions.get(pick(request, "version", "", ["", *versions]))
    if version is None or provenance not in ("", version.provenance):
        wanted_provenances = [Provenance(provenance)] if provenance else list(Provenance)
        version = next(iter(current_versions(metric, wanted_provenances)), None)
    entries = entries_of(version) if version else {}
    kinds = populations(entries)
    # A paper's figures are shown as the paper has them; of one's own, values of different kinds are kept apart.
    usual_population = first_population(metric, kinds) if version and version.measured else ALL
    population = pick(request, "kind", usual_population, kinds)
    if not metric.formula.by_kind:
        population = ALL
    usual = usual_measure(version) if version else metric.measure
    measure = pick(request, "measure", usual, [option.key for option in metric.formula.ranked])
    return DemographicsChoice(metric, measure, version, list(versions.values()), provenance, population), entries


def describe_board(request: HttpRequest, values_board: Board) -> tuple[list[Chart], dict[str, object]]:
    """The charts, and the rest of the context: a page of the heat map, all boxes, the ranking of one demographic."""
    columns = boxes(values_board)
    demographic = pick(request, "demographic", "", ["", *values_board.slices])
    ranked_slice = demographic or (columns[0][0] if columns else values_board.overall)
    models = values_board.in_order(demographic or values_board.overall or ranked_slice)
    pages = [str(number) for number in range(1, max(1, -(-len(models) // PAGE)) + 1)]
    page = int(pick(request, "page", "1", pages))
    first = (page - 1) * PAGE
    shades = shades_of(values_board)
    rows = heat_rows(values_board, shades, models[first : first + PAGE])
    ranking = own_ranking(values_board, ranked_slice, first, PAGE)
    box_chart = chart(values_board, columns) if columns else None
    # The page shows these rows as a table, and names the chart alone.
    heat_chart = draw_heat_map(values_board, rows if "chart" in request.GET else []) if columns else None
    return [one for one in (box_chart, heat_chart) if one], {
        "board": values_board,
        "scale": shades,
        "order": demographic or values_board.overall or ranked_slice,
        "wanted": demographic,
        "rows": rows,
        "boxes": columns,
        "chart": box_chart,
        "heat_chart": heat_chart,
        "sentences": sentences(values_board, columns),
        "ranked": ranked_slice,
        "ranking": ranking,
        "interval_note": explain_intervals(values_board.version, ranked_slice, ranking.rows),
        "tested": any(cell and cell.significant is not None for row in rows for cell in row.cells),
        "page": page,
        "pages": len(pages),
        "first": first + 1,
        "last": min(first + PAGE, len(models)),
    }


def provenances(metric: Metric) -> list[str]:
    """Those that its versions have."""
    return sorted({version.provenance for version in published_versions(metric)})


def populations(entries: dict[int, BoardModel]) -> list[str]:
    """All models together, and each kind that there is."""
    kinds = {entry.kind for entry in entries.values()}
    return [value for value in Standing.Population.values if value == Standing.Population.ALL or value in kinds]


def chart(values_board: Board, columns: list[tuple[str, BoxColumn]]) -> Chart:
    """The boxes, as Figure 2 of Hosseini et al. 2023 has them."""
    (_, worst), (_, best) = columns[0], columns[-1]
    digits, measure = values_board.digits, values_board.measure
    return box_plots(
        f"{values_board.version.metric.slug}-demographics",
        [column for _, column in columns],
        measure.label,
        digits,
        measure.neutral,
        f"Box plots of the {measure.label.lower()} of {counted(values_board.models, 'model')} for each of "
        f"{counted(len(columns), 'demographic')}, the worst median first: from {worst.label}, median "
        f"{worst.box.median:.{digits}f}, to {best.label}, median {best.box.median:.{digits}f}. "
        "The table under it has the five numbers of each.",
        (measure.smallest, measure.largest),
    )


def draw_heat_map(values_board: Board, rows: list[HeatRow]) -> Chart:
    """The rows of the page, a column a slice, for files; the page has them as a table."""
    labels = [slice_label(name) for name in values_board.slices]
    digits, measure = values_board.digits, values_board.measure
    cells = [
        [
            ShadedCell(decimals(cell.value, digits), cell.level, f"{row.entry.name}, {label}: {cell.value:.{digits}f}")
            if cell
            else None
            for cell, label in zip(row.cells, labels, strict=True)
        ]
        for row in rows
    ]
    return heat_map(
        f"{values_board.version.metric.slug}-heat-map",
        [(row.entry.name, address_of_model(row.entry.slug)) for row in rows],
        labels,
        cells,
        f"{measure.label} of {counted(len(rows), 'model')} by demographic: blue where it is better and orange "
        "where it is worse than of an indifferent model, or than usual.",
    )
