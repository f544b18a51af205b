"""Do metrics agree?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlencode

import numpy as np
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import MOST_GROUPS, Chart, Panel, Series, scatter_chart
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.queries.agreement import (
    LEAST_MODELS,
    PROPERTIES,
    Cell,
    Column,
    Point,
    Values,
    by_family,
    columns_of,
    default_columns,
    matrix,
    points_of,
    values_of,
)
from leaderboard.queries.rankings import current_versions, metrics_with_versions
from leaderboard.services.comparison_words import coefficient as in_words
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import pick
from scoring.metrics.formulas import MEASURES
from scoring.statistics.correlations import Coefficient, Correlation, correlations
from scoring.statistics.regression import line

MOST_COLUMNS = 12
MOST_ROWS = 100  # of a table of models; the rest is on further pages
COEFFICIENTS = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "kendall": "Kendall's tau"}
OTHERS = "other families"
POOLED = Standing.Population.ALL.value


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists."""

    provenance: str
    provenances: list[tuple[str, str]]
    coefficient: Coefficient
    kind: str  # of the models; POOLED for all kinds together, "" for one kind in measures that differ by kind
    versions: list[MetricVersion]  # current ones, of that provenance
    columns: list[Column]
    default: bool  # whether those are what each metric shows first
    adding: MetricVersion | None  # whose measures are offered

    def address(self, columns: Sequence[Column] | None = None, **more: str) -> str:
        """The same view, of other columns or with more of the address."""
        of = {"numbers": self.provenance, "coefficient": self.coefficient, "kind": self.kind} | more
        shown = self.columns if columns is None else columns
        keys = [] if self.default and columns is None else [("c", column.key) for column in shown]
        return "?" + urlencode([(name, value) for name, value in [*of.items(), *keys] if value])


@dataclass(frozen=True)
class Pair:
    """Two columns against each other."""

    x: Column
    y: Column
    points: list[Point]
    found: Correlation
    words: str
    chart: Chart | None


@require_safe
@kept(reads=("numbers", "for", "c", "coefficient", "add", "kind", "x", "y", "against", "of", "page"))
def agreement(request: HttpRequest) -> HttpResponse:
    """A matrix of correlations between measures over models, one pair of them, and one against architecture."""
    choice = parse(request, metrics_with_versions())
    everything = known_values(request, choice)
    values, population = of_kind(everything, choice.kind)
    pair = chosen_pair(request, choice, values)
    against = pick(request, "against", best_known(values), list(PROPERTIES))
    of = chosen_column(request, "of", choice, most_known(choice.columns, values, against))
    pages = -(-len(pair.points) // MOST_ROWS) if pair else 0
    page = int(pick(request, "page", "1", [str(number + 1) for number in range(max(1, pages))]))
    families = by_family(values, values.of(of), choice.coefficient) if of else []
    context = {
        "choice": choice,
        "coefficients": COEFFICIENTS.items(),
        "coefficient": COEFFICIENTS[choice.coefficient],
        "kinds": [("", "One kind of likelihood"), *LanguageModel.Kind.choices, (POOLED, "All kinds together")],
        "known_kinds": everything.kinds,
        "known": sum(everything.kinds.values()),
        "population": population,
        "pooled": choice.kind == POOLED and len(everything.kinds) > 1,
        "pool": choice.address(kind=POOLED),
        "apart": choice.address(kind=""),
        "columns": [
            (column, int(np.isfinite(values.of(column)).sum()), choice.address(without(choice.columns, column)))
            for column in choice.columns
        ],
        "offers": [(version, choice.address(choice.columns, add=version.metric.slug)) for version in choice.versions],
        "added": columns_of(choice.adding) if choice.adding else {},
        "full": len(choice.columns) >= MOST_COLUMNS,
        "most": MOST_COLUMNS,
        "least": LEAST_MODELS,
        "matrix": linked(choice, values),
        "pair": pair,
        "rows": pair.points[MOST_ROWS * (page - 1) : MOST_ROWS * page] if pair else [],
        "pages": [(number, page_address(choice, pair, number)) for number in range(1, pages + 1)] if pages > 1 else [],
        "page": page,
        "of": of,
        "against": against,
        "properties": [(name, label) for name, (label, _) in PROPERTIES.items()],
        "by_family": families[: MOST_GROUPS + 1],
        "left_out": max(0, len(families) - MOST_GROUPS - 1),
        "architecture": architecture_chart(values, of, against) if of else None,
    }
    return render(request, "agreement.html", context)


def parse(request: HttpRequest, metrics: list[Metric]) -> Choice:
    """Read the address, but for the pair and the property. Raises Http404 with a sentence.

    The form says by `for` which numbers its columns are of: others need not have them.
    """
    known = {of: [v for metric in metrics for v in current_versions(metric, [of])] for of in Provenance}
    default = next((of for of in Provenance if len(known[of]) > 1), Provenance.MEASURED)
    provenance = Provenance(pick(request, "numbers", default.value, Provenance.values))
    versions = {version.metric.slug: version for version in known[provenance]}
    same = request.GET.get("for", provenance.value) == provenance.value
    asked = [name for name in request.GET.getlist("c") if name and same]
    columns = [column_called(name, versions) for name in dict.fromkeys(asked)]
    if len(columns) > MOST_COLUMNS:
        raise Http404(f"c: {len(columns)} measures are asked for, and {MOST_COLUMNS} fit side by side: take some out")
    if not columns:
        columns = default_columns(list(versions.values()))[:MOST_COLUMNS]
    coefficient = cast(Coefficient, pick(request, "coefficient", "pearson", list(COEFFICIENTS)))
    adding = pick(request, "add", "", ["", *versions])
    return Choice(
        provenance=provenance.value,
        provenances=list(Provenance.choices),
        coefficient=coefficient,
        kind=pick(request, "kind", "", ["", *LanguageModel.Kind.values, POOLED]),
        versions=list(versions.values()),
        columns=columns,
        default=not asked,
        adding=versions.get(adding),
    )


def column_called(name: str, versions: dict[str, MetricVersion]) -> Column:
    """The column METRIC/MEASURE/SLICE. Raises Http404 with a sentence."""
    slug, _, rest = name.partition("/")
    measure, _, of = rest.partition("/")
    version = versions.get(slug)
    if version is None or measure not in version.metric.formula.measures or not of:
        known = ", ".join(versions) or "none yet"
        raise Http404(
            f"c = {name!r} does not exist here. Write METRIC/MEASURE/SLICE; metrics with such numbers: {known}"
        )
    return Column(version, MEASURES[measure], of)


def known_values(request: HttpRequest, choice: Choice) -> Values:
    """The values of the chosen columns. Raises Http404 for one that was asked for and has none at all."""
    values = values_of(choice.columns)
    for column in [] if choice.default else choice.columns:
        if not np.isfinite(values.of(column)).any():
            raise Http404(f"c = {column.key!r} does not exist here: {column.version.metric.title} has no such slice")
    return values


def of_kind(values: Values, kind: str) -> tuple[Values, str]:
    """The values to correlate, and of which kind those are that differ by kind; "" where they are of several, or none.

    Unasked, kinds are not pooled: in measures of likelihoods the one kind of which there are the most models is left.
    """
    if kind == POOLED:
        return values, ""
    if kind:
        return values.among(kind), kind
    largest = next(iter(values.kinds), "")
    return (values.within(largest), largest) if largest else (values, "")


def without(columns: Sequence[Column], column: Column) -> list[Column]:
    """All but one."""
    return [other for other in columns if other != column]


def linked(choice: Choice, values: Values) -> list[tuple[Column, list[tuple[object, str]]]]:
    """The matrix, each cell with the address that shows its pair."""
    base = choice.address()
    keys = {column: quote(column.key, safe="") for column in choice.columns}

    def cell_address(cell: Cell | None) -> str:
        return f"{base}&x={keys[cell.column]}&y={keys[cell.row]}" if cell else ""

    return [(row, [(cell, cell_address(cell)) for cell in cells]) for row, cells in matrix(values, choice.coefficient)]


def chosen_column(request: HttpRequest, name: str, choice: Choice, default: Sequence[Column]) -> Column | None:
    """The column that `name` asks for, else the first of `default`. Raises Http404."""
    by_key = {column.key: column for column in choice.columns}
    return by_key.get(pick(request, name, default[0].key if default else "", ["", *by_key]))


def chosen_pair(request: HttpRequest, choice: Choice, values: Values) -> Pair | None:
    """The two columns that the address asks for, else the first two with enough models in common."""
    known = np.isfinite(values.values).astype(int)
    common = np.triu(known @ known.T, 1) if len(known) else np.zeros((0, 0))
    enough = np.argwhere(common >= LEAST_MODELS)
    defaults = [choice.columns[int(place)] for place in enough[0]] if len(enough) else []
    x = chosen_column(request, "x", choice, defaults[:1])
    y = chosen_column(request, "y", choice, defaults[1:])
    if x is None or y is None:
        return None
    points = points_of(values, values.of(x), values.of(y))
    found = correlations(np.array([values.of(x), values.of(y)]), choice.coefficient)[0, 1]
    words = f"{COEFFICIENTS[choice.coefficient]} {in_words(found)}"
    return Pair(x, y, points, found, words, pair_chart(x, y, points, words) if len(points) > 1 else None)


def page_address(choice: Choice, pair: Pair | None, number: int) -> str:
    """Another page of the table of a pair."""
    return choice.address(x=pair.x.key, y=pair.y.key, page=str(number)) + "#pair" if pair else ""


def most_known(columns: Sequence[Column], values: Values, name: str) -> list[Column]:
    """The columns by how many models they have of which the property is known."""
    known = np.array([np.isfinite(model.property_of(name)) for model in values.models], dtype=bool)
    return sorted(columns, key=lambda column: -int((np.isfinite(values.of(column)) & known).sum()))


def best_known(values: Values) -> str:
    """The property that is known of the most models."""
    counts = {name: sum(bool(getattr(model, name)) for model in values.models) for name in PROPERTIES}
    return max(counts, key=lambda name: counts[name])


def pair_chart(x: Column, y: Column, points: Sequence[Point], words: str) -> Chart:
    """A point a model, with the straight line through them."""
    through = line(np.array([point.x for point in points]), np.array([point.y for point in points]))
    panel = Panel(x.title, series_of(points, (x, y)), line=through)
    alternative = (
        f"{y.title}, against {x.title}, of {len(points)} models: {words}. The table under it has the same numbers."
    )
    return scatter_chart("agreement", [panel], y.label, alternative)


def architecture_chart(values: Values, of: Column, against: str) -> Chart | None:
    """One measure against one property, by family."""
    label, logarithmic = PROPERTIES[against]
    x = np.array([model.property_of(against) for model in values.models])
    points = points_of(values, x, values.of(of))
    if len(points) < 2:
        return None
    drawn = [Point(point.model, getattr(point.model, against), point.y) for point in points]
    through = None if logarithmic else line(np.array([p.x for p in points]), np.array([p.y for p in points]))
    alternative = (
        f"{of.title}, against {label.lower()}, of {len(points)} models, by family. The table under it has the "
        "correlations in each family."
    )
    title = f"{label}, logarithmic scale" if logarithmic else label
    panel = Panel(title, series_of(drawn, (None, of), label.lower()), logarithmic, line=through)
    return scatter_chart("architecture", [panel], of.label, alternative)


def series_of(points: Sequence[Point], of: tuple[Column | None, Column], what: str = "") -> list[Series]:
    """The points by family, the largest first; more families than there are symbols share the last one."""
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.model.family or "no family known", []).append(point)
    by_size = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(by_size) > MOST_GROUPS:
        rest = [point for _, found in by_size[MOST_GROUPS - 1 :] for point in found]
        by_size = [*by_size[: MOST_GROUPS - 1], (OTHERS, rest)]
    x, y = of

    def said(point: Point) -> str:
        first = f"{point.x:.{x.measure.digits}f}" if x else f"{point.x:,.0f} {what}"
        return f"{point.model.name}: {first}, {point.y:.{y.measure.digits}f}"

    return [
        Series(family, [point.x for point in found], [point.y for point in found], [said(point) for point in found])
        for family, found in by_size
    ]
