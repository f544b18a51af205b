"""Who is harmed?"""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import BoxColumn, Chart, box_plots
from leaderboard.models import Metric, MetricVersion, Provenance, Standing
from leaderboard.queries.demographics import (
    Board,
    Entry,
    board,
    boxes,
    entries_of,
    heat_map,
    of_demographics,
    own_ranking,
    scale,
    sentences,
    usual_measure,
)
from leaderboard.queries.rankings import current_versions, metrics_with_versions
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import choose_metric, pick

PAGE = 50  # models


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists. version: None where the metric has none yet."""

    metric: Metric
    measure: str
    version: MetricVersion | None
    versions: list[MetricVersion]
    provenance: str
    population: str


@require_safe
@kept(reads=("metric", "provenance", "version", "kind", "measure", "demographic", "page", "m"))
def demographics(request: HttpRequest) -> HttpResponse:
    """The values of a metric's models by demographic."""
    metrics = [metric for metric in metrics_with_versions() if of_demographics(metric)]
    metric = choose_metric(request, metrics, next((of for of in metrics if published(of)), None))
    choice, entries = parse(request, metric)
    context = {
        "metrics": metrics,
        "choice": choice,
        "provenances": [(value, label) for value, label in Provenance.choices if value in provenances(metric)],
        "kinds": [(value, label) for value, label in Standing.Population.choices if value in populations(entries)],
    }
    if choice.version:
        context |= shown(request, board(choice.version, choice.measure, choice.population, entries))
    return render(request, "demographics.html", context)


def parse(request: HttpRequest, metric: Metric) -> tuple[Choice, dict[int, Entry]]:
    """Read the address but for the slice and the page, and the models that it asks for. Raises Http404."""
    provenance = pick(request, "provenance", "", ["", *provenances(metric)])
    versions = {str(version.number): version for version in published(metric)}
    version = versions.get(pick(request, "version", "", ["", *versions]))
    if version is None or provenance not in ("", version.provenance):
        wanted = [Provenance(provenance)] if provenance else list(Provenance)
        version = next(iter(current_versions(metric, wanted)), None)
    entries = entries_of(version) if version else {}
    found = populations(entries)
    kinds = [value for value in found if value != Standing.Population.ALL]
    # A paper's figures are shown as the paper has them; of one's own, values of different kinds are kept apart.
    apart = bool(version and version.measured and metric.formula.by_kind and kinds)
    population = pick(request, "kind", kinds[0] if apart else Standing.Population.ALL.value, found)
    if not metric.formula.by_kind:
        population = Standing.Population.ALL.value
    usual = usual_measure(version) if version else metric.measure
    measure = pick(request, "measure", usual, [of.key for of in metric.formula.ranked])
    return Choice(metric, measure, version, list(versions.values()), provenance, population), entries


def shown(request: HttpRequest, found: Board) -> dict[str, object]:
    """The rest of the context: one page of the heat map, all boxes, and the ranking of one demographic."""
    columns = boxes(found)
    wanted = pick(request, "demographic", "", ["", *found.slices])
    ranked = wanted or (columns[0][0] if columns else found.overall)
    ordered = found.in_order(wanted or found.overall or ranked)
    pages = [str(number) for number in range(1, max(1, -(-len(ordered) // PAGE)) + 1)]
    page = int(pick(request, "page", "1", pages))
    first = (page - 1) * PAGE
    shades = scale(found)
    rows = heat_map(found, shades, ordered[first : first + PAGE])
    return {
        "board": found,
        "scale": shades,
        "order": wanted or found.overall or ranked,
        "wanted": wanted,
        "rows": rows,
        "boxes": columns,
        "chart": chart(found, columns) if columns else None,
        "sentences": sentences(found, columns),
        "ranked": ranked,
        "ranking": own_ranking(found, ranked, first, PAGE),
        "tested": any(cell and cell.significant is not None for row in rows for cell in row.cells),
        "page": page,
        "pages": len(pages),
        "first": first + 1,
        "last": min(first + PAGE, len(ordered)),
    }


def published(metric: Metric) -> list[MetricVersion]:
    """The versions that a reader may look at, oldest first."""
    return [version for version in metric.versions.all() if version.published_at]


def provenances(metric: Metric) -> list[str]:
    """Those that its versions have."""
    return sorted({version.provenance for version in published(metric)})


def populations(entries: dict[int, Entry]) -> list[str]:
    """All models together, and each kind that there is."""
    kinds = {entry.kind for entry in entries.values()}
    return [value for value in Standing.Population.values if value == Standing.Population.ALL or value in kinds]


def chart(found: Board, columns: list[tuple[str, BoxColumn]]) -> Chart:
    """The boxes, as Figure 2 of Hosseini et al. 2023 has them."""
    (_, worst), (_, best) = columns[0], columns[-1]
    digits, measure = found.digits, found.measure
    return box_plots(
        f"{found.version.metric.slug}-demographics",
        [column for _, column in columns],
        measure.label,
        digits,
        measure.neutral,
        f"Box plots of the {measure.label.lower()} of {found.models} models for each of {len(columns)} demographics, "
        f"the worst median first: from {worst.label}, median {worst.box.median:.{digits}f}, to {best.label}, median "
        f"{best.box.median:.{digits}f}. The table under it has the five numbers of each.",
    )
