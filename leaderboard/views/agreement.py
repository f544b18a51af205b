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
    CorrelationCell,
    MeasureColumn,
    Point,
    Values,
    by_family,
    columns_of,
    default_columns,
    matrix,
    points_of,
    values_of,
)
from leaderboard.rankings.versions import current_versions, metrics_with_versions
from leaderboard.rankings.words import coefficient as in_words
from leaderboard.views.keeping import keep_page
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
class AgreementChoice:
    """What the address asks for; every value is one that exists."""

    provenance: str
    provenances: list[tuple[str, str]]
    coefficient: Coefficient
    kind: str  # of the models; POOLED for all kinds together, "" for one kind in measures that differ by kind
    versions: list[MetricVersion]  # current ones, of that provenance
    columns: list[MeasureColumn]
    default: bool  # whether those are what each metric shows first
    adding: MetricVersion | None  # whose measures are offered

    def address(self, columns: Sequence[MeasureColumn] | None = None, **more: str) -> str:
        """The same view, of other columns or with more of the address."""
        options = {"numbers": self.provenance, "coefficient": self.coefficient, "kind": self.kind} | more
        address_columns = self.columns if columns is None else columns
        keys = [] if self.default and columns is None else [("c", column.key) for column in address_columns]
        return "?" + urlencode([(name, value) for name, value in [*options.items(), *keys] if value])


@dataclass(frozen=True)
class ColumnPair:
    """Two columns against each other."""

    x: MeasureColumn
    y: MeasureColumn
    points: list[Point]
    found: Correlation
    words: str
    chart: Chart | None


@require_safe
@keep_page(reads=("numbers", "for", "c", "coefficient", "add", "kind", "x", "y", "against", "of", "page"))
def agreement(request: HttpRequest) -> HttpResponse:
    """A matrix of correlations between measures over models, one pair of them, and one against architecture."""
    choice = parse(request, metrics_with_versions())
    everything = known_values(request, choice)
    values, population = of_kind(everything, choice.kind)
    pair = chosen_pair(request, choice, values)
    property_name = pick(request, "against", best_known(values), list(PROPERTIES))
    property_column = chosen_column(request, "of", choice, most_known(choice.columns, values, property_name))
    pages = -(-len(pair.points) // MOST_ROWS) if pair else 0
    page = int(pick(request, "page", "1", [str(number + 1) for number in range(max(1, pages))]))
    families = by_family(values, values.read_column(property_column), choice.coefficient) if property_column else []
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
            (
                column,
                int(np.isfinite(values.read_column(column)).sum()),
                choice.address(leave_out(choice.columns, column)),
            )
            for column in choice.columns
        ],
        "offers": [(version, choice.address(choice.columns, add=version.metric.slug)) for version in choice.versions],
        "added": columns_of(choice.adding) if choice.adding else {},
        "full": len(choice.columns) >= MOST_COLUMNS,
        "most": MOST_COLUMNS,
        "least": LEAST_MODELS,
        "matrix": link_cells(choice, values),
        "pair": pair,
        "rows": pair.points[MOST_ROWS * (page - 1) : MOST_ROWS * page] if pair else [],
        "pages": [(number, page_address(choice, pair, number)) for number in range(1, pages + 1)] if pages > 1 else [],
        "page": page,
        "of": property_column,
        "against": property_name,
        "properties": [(name, label) for name, (label, _) in PROPERTIES.items()],
        "by_family": families[: MOST_GROUPS + 1],
        "left_out": max(0, len(families) - MOST_GROUPS - 1),
        "architecture": architecture_chart(values, property_column, property_name) if property_column else None,
    }
    return render(request, "agreement.html", context)


def parse(request: HttpRequest, metrics: list[Metric]) -> AgreementChoice:
    """Read the address, but for the pair and the property. Raises Http404 with a sentence.

    The form says by `for` which numbers its columns are of: others need not have them.
    """
    versions_by_provenance = {
        source: [v for metric in metrics for v in current_versions(metric, [source])] for source in Provenance
    }
    default = next((source for source in Provenance if len(versions_by_provenance[source]) > 1), Provenance.MEASURED)
    provenance = Provenance(pick(request, "numbers", default.value, Provenance.values))
    versions = {version.metric.slug: version for version in versions_by_provenance[provenance]}
    same = request.GET.get("for", provenance.value) == provenance.value
    column_names = [name for name in request.GET.getlist("c") if name and same]
    columns = [column_called(name, versions) for name in dict.fromkeys(column_names)]
    if len(columns) > MOST_COLUMNS:
        raise Http404(f"c: {len(columns)} measures are asked for, and {MOST_COLUMNS} fit side by side: take some out")
    if not columns:
        columns = default_columns(list(versions.values()))[:MOST_COLUMNS]
    coefficient = cast(Coefficient, pick(request, "coefficient", "pearson", list(COEFFICIENTS)))
    added_slug = pick(request, "add", "", ["", *versions])
    return AgreementChoice(
        provenance=provenance.value,
        provenances=list(Provenance.choices),
        coefficient=coefficient,
        kind=pick(request, "kind", "", ["", *LanguageModel.Kind.values, POOLED]),
        versions=list(versions.values()),
        columns=columns,
        default=not column_names,
        adding=versions.get(added_slug),
    )


def column_called(name: str, versions: dict[str, MetricVersion]) -> MeasureColumn:
    """The column METRIC/MEASURE/SLICE. Raises Http404 with a sentence."""
    slug, _, rest = name.partition("/")
    measure, _, slice_name = rest.partition("/")
    version = versions.get(slug)
    if version is None or measure not in version.metric.formula.measures or not slice_name:
        slugs = ", ".join(versions) or "none yet"
        raise Http404(
            f"c = {name!r} does not exist here. Write METRIC/MEASURE/SLICE; metrics with such numbers: {slugs}"
        )
    return MeasureColumn(version, MEASURES[measure], slice_name)


def known_values(request: HttpRequest, choice: AgreementChoice) -> Values:
    """The values of the chosen columns. Raises Http404 for one that was asked for and has none at all."""
    values = values_of(choice.columns)
    for column in [] if choice.default else choice.columns:
        if not np.isfinite(values.read_column(column)).any():
            raise Http404(f"c = {column.key!r} does not exist here: {column.version.metric.title} has no such slice")
    return values


def of_kind(values: Values, kind: str) -> tuple[Values, str]:
    """The values to correlate, and of which kind those are that differ by kind; "" where they are of several, or none.

    Unasked, kinds are not pooled: in measures of likelihoods the one kind of which there are the most models is left.
    """
    if kind == POOLED:
        return values, ""
    if kind:
        return values.select_kind(kind), kind
    largest = next(iter(values.kinds), "")
    return (values.separate_kind(largest), largest) if largest else (values, "")


def leave_out(columns: Sequence[MeasureColumn], column: MeasureColumn) -> list[MeasureColumn]:
    """All but one."""
    return [other for other in columns if other != column]


def link_cells(choice: AgreementChoice, values: Values) -> list[tuple[MeasureColumn, list[tuple[object, str]]]]:
    """The matrix, each cell with the address that shows its pair."""
    base = choice.address()
    keys = {column: quote(column.key, safe="") for column in choice.columns}

    def cell_address(cell: CorrelationCell | None) -> str:
        return f"{base}&x={keys[cell.column]}&y={keys[cell.row]}" if cell else ""

    return [(row, [(cell, cell_address(cell)) for cell in cells]) for row, cells in matrix(values, choice.coefficient)]


def chosen_column(
    request: HttpRequest, name: str, choice: AgreementChoice, default: Sequence[MeasureColumn]
) -> MeasureColumn | None:
    """The column that `name` asks for, else the first of `default`. Raises Http404."""
    by_key = {column.key: column for column in choice.columns}
    return by_key.get(pick(request, name, default[0].key if default else "", ["", *by_key]))


def chosen_pair(request: HttpRequest, choice: AgreementChoice, values: Values) -> ColumnPair | None:
    """The two columns that the address asks for, else the first two with enough models in common."""
    has_value = np.isfinite(values.values).astype(int)
    common = np.triu(has_value @ has_value.T, 1) if len(has_value) else np.zeros((0, 0))
    enough = np.argwhere(common >= LEAST_MODELS)
    defaults = [choice.columns[int(place)] for place in enough[0]] if len(enough) else []
    x = chosen_column(request, "x", choice, defaults[:1])
    y = chosen_column(request, "y", choice, defaults[1:])
    if x is None or y is None:
        return None
    points = points_of(values, values.read_column(x), values.read_column(y))
    correlation = correlations(np.array([values.read_column(x), values.read_column(y)]), choice.coefficient)[0, 1]
    words = f"{COEFFICIENTS[choice.coefficient]} {in_words(correlation)}"
    return ColumnPair(x, y, points, correlation, words, pair_chart(x, y, points, words) if len(points) > 1 else None)


def page_address(choice: AgreementChoice, pair: ColumnPair | None, number: int) -> str:
    """Another page of the table of a pair."""
    return choice.address(x=pair.x.key, y=pair.y.key, page=str(number)) + "#pair" if pair else ""


def most_known(columns: Sequence[MeasureColumn], values: Values, name: str) -> list[MeasureColumn]:
    """The columns by how many models they have of which the property is known."""
    has_property = np.array([np.isfinite(model.property_of(name)) for model in values.models], dtype=bool)
    return sorted(columns, key=lambda column: -int((np.isfinite(values.read_column(column)) & has_property).sum()))


def best_known(values: Values) -> str:
    """The property that is known of the most models."""
    counts = {name: sum(bool(getattr(model, name)) for model in values.models) for name in PROPERTIES}
    return max(counts, key=lambda name: counts[name])


def pair_chart(x: MeasureColumn, y: MeasureColumn, points: Sequence[Point], words: str) -> Chart:
    """A point a model, with the straight line through them."""
    fit = line(np.array([point.x for point in points]), np.array([point.y for point in points]))
    panel = Panel(x.title, series_of(points, (x, y)), line=fit)
    alternative = (
        f"{y.title}, against {x.title}, of {len(points)} models: {words}. The table under it has the same numbers."
    )
    return scatter_chart("agreement", [panel], y.label, alternative)


def architecture_chart(values: Values, column: MeasureColumn, property_name: str) -> Chart | None:
    """One measure against one property, by family."""
    label, logarithmic = PROPERTIES[property_name]
    x = np.array([model.property_of(property_name) for model in values.models])
    points = points_of(values, x, values.read_column(column))
    if len(points) < 2:
        return None
    drawn_points = [Point(point.model, getattr(point.model, property_name), point.y) for point in points]
    fit = None if logarithmic else line(np.array([p.x for p in points]), np.array([p.y for p in points]))
    alternative = (
        f"{column.title}, against {label.lower()}, of {len(points)} models, by family. The table under it has the "
        "correlations in each family."
    )
    title = f"{label}, logarithmic scale" if logarithmic else label
    panel = Panel(title, series_of(drawn_points, (None, column), label.lower()), logarithmic, line=fit)
    return scatter_chart("architecture", [panel], column.label, alternative)


def series_of(
    points: Sequence[Point], columns: tuple[MeasureColumn | None, MeasureColumn], unit: str = ""
) -> list[Series]:
    """The points by family, the largest first; more families than there are symbols share the last one."""
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.model.family or "no family known", []).append(point)
    by_size = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(by_size) > MOST_GROUPS:
        rest = [point for _, family_points in by_size[MOST_GROUPS - 1 :] for point in family_points]
        by_size = [*by_size[: MOST_GROUPS - 1], (OTHERS, rest)]
    x, y = columns

    def describe(point: Point) -> str:
        first = f"{point.x:.{x.digits}f}" if x else f"{point.x:,.0f} {unit}"
        return f"{point.model.name}: {first}, {point.y:.{y.digits}f}"

    return [
        Series(
            family,
            [point.x for point in family_points],
            [point.y for point in family_points],
            [describe(point) for point in family_points],
        )
        for family, family_points in by_size
    ]
