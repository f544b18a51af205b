"""Do metrics agree?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.charts import MOST_GROUPS, Chart
from leaderboard.formats import as_csv
from leaderboard.queries.agreement import (
    MOST_COLUMNS,
    NUMBERS,
    PROPERTIES,
    MeasureColumn,
    Values,
    columns_of,
    shared_parts,
)
from leaderboard.queries.agreement_rows import as_table, correlation_rows, model_rows, size_rows
from leaderboard.queries.coefficients import (
    COEFFICIENTS,
    LEAST_MODELS,
    CoefficientCell,
    ModelGroup,
    Point,
    by_family,
    by_measure,
    every_coefficient,
    matrix,
    model_groups,
    points_of,
)
from leaderboard.rankings.exports import CONTENT_TYPES
from leaderboard.rankings.populations import ALL
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.rankings.words import coefficient as in_words
from leaderboard.views.agreement_address import KINDS, PARAMETERS, AgreementChoice, parse, read_values
from leaderboard.views.agreement_charts import architecture_chart, pair_chart
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick

MOST_ROWS = 100  # of a table of models; the rest is on further pages
FILES = {"correlations": "every pair", "sizes": "with size", "models": "values of the models"}
MATRIX = "Table of correlations"
MatrixRow = tuple[MeasureColumn, list[tuple[MeasureColumn, CoefficientCell | None, str]]]


@dataclass(frozen=True)
class Matrix:
    """The coefficients of every two columns over one group, each with the address that shows its pair; its label."""

    group: ModelGroup
    label: str
    rows: list[MatrixRow]

    @property
    def is_empty(self) -> bool:
        """Whether it has no coefficient."""
        return all(cell is None or cell.reason for _, cells in self.rows for _, cell, _ in cells)


@dataclass(frozen=True)
class ColumnPair:
    """Two columns against each other: all coefficients by group, and the points over all of the models."""

    x: MeasureColumn
    y: MeasureColumn
    points: list[Point]
    coefficients: list[tuple[str, list[CoefficientCell]]]
    words: str
    chart: Chart | None


@require_safe
@keep_page(reads=(*PARAMETERS, *CHART_FILE))
def agreement(request: HttpRequest) -> HttpResponse:
    """Matrices of correlations between measures over models, one pair of them, and one against architecture."""
    choice = parse(request, metrics_with_versions())
    everything = read_values(choice)
    groups = model_groups(everything, choice.kind)
    values = groups[-1].values
    pair_context = describe_pair(request, choice, groups)
    architecture_context = describe_architecture(request, choice, values)
    pair = pair_context["pair"]
    charts = [pair.chart if pair else None, architecture_context["architecture"]]
    context = {
        "choice": choice,
        "coefficients": COEFFICIENTS.items(),
        "coefficient": COEFFICIENTS[choice.coefficient],
        "numbers": [(value, label) for value, (label, _) in NUMBERS.items()],
        "numbers_label": NUMBERS[choice.numbers][0],
        "kinds": KINDS,
        "known_kinds": everything.kinds,
        "known": sum(everything.kinds.values()),
        "population": groups[-1].kind,
        "pooled": choice.kind == ALL and len(everything.kinds) > 1,
        "pool": choice.address(kind=ALL),
        "apart": choice.address(kind=""),
        "columns": [
            (column, values.count_models(column), choice.address(leave_out(choice.columns, column)))
            for column in choice.columns
        ],
        "offers": [(versions, choice.address(choice.columns, add=slug)) for slug, versions in choice.metrics.items()],
        "parts": [(part, choice.address_of_part(part)) for part in shared_parts(choice.firsts)],
        "usual": choice.address_of_part(""),
        "added": columns_of(choice.offer) if choice.offer else {},
        "full": len(choice.columns) >= MOST_COLUMNS,
        "most": MOST_COLUMNS,
        "least": LEAST_MODELS,
        "matrices": [
            Matrix(group, f"{MATRIX}: {group.title}", link_cells(choice, group.values.drop_empty()))
            if len(groups) > 1
            else Matrix(group, MATRIX, link_cells(choice, group.values))
            for group in groups
        ],
        "files": [(label, reverse("agreement_file", args=[name]) + choice.address()) for name, label in FILES.items()],
        **pair_context,
        **architecture_context,
    }
    return chart_file(request, charts) or render(request, "agreement.html", context)


@require_safe
@keep_page(reads=PARAMETERS)
def agreement_file(request: HttpRequest, name: str) -> HttpResponse:
    """A table of the page of the same address as CSV: one of FILES, with all coefficients."""
    choice = parse(request, metrics_with_versions())
    groups = model_groups(read_values(choice), choice.kind)
    rows = {
        "correlations": lambda: correlation_rows(groups),
        "sizes": lambda: size_rows(groups),
        "models": lambda: model_rows(groups[-1].values),
    }[name]()
    response = HttpResponse(as_csv(as_table(FILES[name], list(rows))), content_type=CONTENT_TYPES["csv"])
    response["Content-Disposition"] = f'attachment; filename="agreement-{name}.csv"'
    return response


def describe_pair(request: HttpRequest, choice: AgreementChoice, groups: Sequence[ModelGroup]) -> dict[str, Any]:
    """The part of the context on one pair of measures, with a page of the table of its models."""
    pair = chosen_pair(request, choice, groups)
    pages = -(-len(pair.points) // MOST_ROWS) if pair else 0
    page = int(pick(request, "page", "1", [str(number + 1) for number in range(max(1, pages))]))
    return {
        "pair": pair,
        "rows": pair.points[MOST_ROWS * (page - 1) : MOST_ROWS * page] if pair else [],
        "pages": [(number, page_address(choice, pair, number)) for number in range(1, pages + 1)] if pages > 1 else [],
        "page": page,
    }


def describe_architecture(request: HttpRequest, choice: AgreementChoice, values: Values) -> dict[str, Any]:
    """The part of the context on one measure against the size of the models, and on all of them."""
    property_name = pick(request, "against", best_known(values), list(PROPERTIES))
    column = chosen_column(request, "of", choice, most_known(choice.columns, values, property_name))
    families, left_out = by_family(values, column, choice.coefficient, MOST_GROUPS) if column else ([], 0)
    return {
        "of": column,
        "against": property_name,
        "properties": [(name, label) for name, (label, _) in PROPERTIES.items()],
        "by_family": families,
        "families": sum(not row.overall for row in families),
        "left_out": left_out,
        "by_measure": by_measure(values, choice.coefficient) if len(choice.columns) > 1 else [],
        "architecture": architecture_chart(values, column, property_name) if column else None,
    }


def leave_out(columns: Sequence[MeasureColumn], column: MeasureColumn) -> list[MeasureColumn]:
    """All but one."""
    return [other for other in columns if other != column]


def link_cells(choice: AgreementChoice, values: Values) -> list[MatrixRow]:
    """The matrix, each cell with its column and the address that shows its pair."""
    base = choice.address()
    keys = {column: quote(column.key, safe="") for column in choice.columns}
    return [
        (
            row,
            [
                (column, cell, f"{base}&x={keys[column]}&y={keys[row]}" if cell else "")
                for column, cell in zip(values.columns, cells, strict=True)
            ],
        )
        for row, cells in zip(values.columns, matrix(values, choice.coefficient), strict=True)
    ]


def chosen_column(
    request: HttpRequest, name: str, choice: AgreementChoice, default: Sequence[MeasureColumn]
) -> MeasureColumn | None:
    """The column that `name` asks for, else the first of `default`. Raises Http404."""
    by_key = {column.key: column for column in choice.columns}
    return by_key.get(pick(request, name, default[0].key if default else "", ["", *by_key]))


def chosen_pair(request: HttpRequest, choice: AgreementChoice, groups: Sequence[ModelGroup]) -> ColumnPair | None:
    """The two columns that the address asks for, else the first two with enough models in common."""
    values = groups[-1].values
    has_value = np.isfinite(values.values).astype(int)
    common = np.triu(has_value @ has_value.T, 1) if len(has_value) else np.zeros((0, 0))
    enough = np.argwhere(common >= LEAST_MODELS)
    defaults = [choice.columns[int(place)] for place in enough[0]] if len(enough) else []
    x = chosen_column(request, "x", choice, defaults[:1])
    y = chosen_column(request, "y", choice, defaults[1:])
    if x is None or y is None:
        return None
    points = points_of(values, x, y)
    coefficients = every_coefficient(groups, x, y)
    cell = coefficients[-1][1][list(COEFFICIENTS).index(choice.coefficient)]
    words = f"{COEFFICIENTS[choice.coefficient]} {in_words(cell.correlation)}"
    chart = pair_chart(x, y, points, words) if len(points) > 1 else None
    return ColumnPair(x, y, points, coefficients, words, chart)


def page_address(choice: AgreementChoice, pair: ColumnPair | None, number: int) -> str:
    """Another page of the table of a pair."""
    return choice.address(x=pair.x.key, y=pair.y.key, page=str(number)) + "#pair" if pair else ""


def most_known(columns: Sequence[MeasureColumn], values: Values, name: str) -> list[MeasureColumn]:
    """The columns by how many models they have of which the property is known."""
    has_property = np.isfinite(values.read_property(name))
    return sorted(columns, key=lambda column: -int((np.isfinite(values.read_column(column)) & has_property).sum()))


def best_known(values: Values) -> str:
    """The property that is known of the most models."""
    counts = {name: sum(bool(getattr(model, name)) for model in values.models) for name in PROPERTIES}
    return max(counts, key=lambda name: counts[name])
