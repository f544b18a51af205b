"""Coefficients between measures over models, and between a measure and the models' size."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from leaderboard.models import LanguageModel
from leaderboard.queries.agreement import PROPERTIES, Array, MeasureColumn, Origin, Subject, Values
from leaderboard.rankings.populations import ALL, population_title
from scoring.statistics.auc import holm
from scoring.statistics.correlations import Coefficient, Correlation, correlations, p_value

LEAST_MODELS = 4  # of which a coefficient says something
EACH = "each"  # in place of a kind of models: each by itself, and then all together
COEFFICIENTS: dict[Coefficient, str] = {
    "pearson": "Pearson's r",
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau",
}
NO_COMMON, NO_PROPERTY = "no model in common", "not known"  # where no model has both values
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ModelGroup:
    """The models that coefficients are over. kind: of those that give likelihoods, "" where of several, or none."""

    title: str
    kind: str
    values: Values


@dataclass(frozen=True, slots=True)
class CoefficientCell:
    """A coefficient, or the reason why there is none; p: adjusted by Holm over its table."""

    correlation: Correlation
    reason: str
    p: float | None = None

    @property
    def level(self) -> int:
        """The shade of the cell, from -4 to 4; 0 where there is nothing to colour."""
        return 0 if self.reason or self.correlation.value is None else round(4 * self.correlation.value)


def model_groups(values: Values, kind: str) -> list[ModelGroup]:
    """The groups to take coefficients over: one, or with EACH those of each kind and then all models together.

    Without a kind, kinds are not pooled: in measures of likelihoods the one kind of which there are the most models is
    left.
    """
    if kind == EACH:
        kinds = [name for name in LanguageModel.Kind.values if any(model.kind == name for model in values.models)]
        if len(kinds) > 1:
            by_kind = [ModelGroup(population_title(name, True), name, values.select_kind(name)) for name in kinds]
            return [*by_kind, ModelGroup(population_title(ALL, True), "", values)]
        return [ModelGroup(population_title(kinds[0] if kinds else ALL, True), "".join(kinds), values)]
    if kind == ALL:
        return [ModelGroup(population_title(ALL, True), "", values)]
    if kind:
        return [ModelGroup(population_title(kind, True), kind, values.select_kind(kind))]
    largest = next(iter(values.kinds), "")
    if largest and len(values.kinds) > 1:
        return [ModelGroup(f"Models; of likelihoods, {largest} ones", largest, values.separate_kind(largest))]
    return [ModelGroup(population_title(ALL, False), largest, values)]


def cells_of(
    correlation_by_key: Mapping[Key, Correlation],
    sides: Callable[[Key], tuple[Array, Array]],
    coefficient: Coefficient,
    absence: str,
) -> dict[Key, CoefficientCell]:
    """The cells of one table, with Holm's adjustment over all coefficients in it.

    sides: both values [models] of a key, NaN where a model has none. absence: the reason where no model has both.
    """
    reasons = {key: reason_of(correlation, absence) for key, correlation in correlation_by_key.items()}
    p_values: dict[Key, float] = {}
    for key, correlation in correlation_by_key.items():
        first, second = sides(key)
        has_both = np.isfinite(first) & np.isfinite(second)
        p = None if reasons[key] else p_value(correlation, first[has_both], second[has_both], coefficient)
        if p is not None:
            p_values[key] = p
    adjusted_values = dict(zip(p_values, holm(np.array(list(p_values.values()))).tolist(), strict=True))
    return {
        key: CoefficientCell(correlation, reasons[key], adjusted_values.get(key))
        for key, correlation in correlation_by_key.items()
    }


def reason_of(correlation: Correlation, absence: str) -> str:
    """Why a coefficient is not shown; empty where it is. absence: the reason where no model has both values."""
    if correlation.n == 0:
        return absence
    if correlation.n < LEAST_MODELS:
        return f"{correlation.n} model{'' if correlation.n == 1 else 's'}; {LEAST_MODELS} needed"
    return "one side never varies" if correlation.value is None else ""


def pair_cells(values: Values, coefficient: Coefficient) -> dict[tuple[int, int], CoefficientCell]:
    """The coefficient of every two columns, by their positions, the lower first."""
    return cells_of(
        correlations(values.values, coefficient),
        lambda pair: (values.values[pair[0]], values.values[pair[1]]),
        coefficient,
        NO_COMMON,
    )


def matrix(values: Values, coefficient: Coefficient) -> list[list[CoefficientCell | None]]:
    """The same as rows and columns, None on the diagonal."""
    cells = pair_cells(values, coefficient)
    places = range(len(values.columns))
    return [
        [None if row == column else cells[min(row, column), max(row, column)] for column in places] for row in places
    ]


def every_coefficient(
    groups: Sequence[ModelGroup], x: MeasureColumn, y: MeasureColumn
) -> list[tuple[str, list[CoefficientCell]]]:
    """All three coefficients of two columns over each group; p is of each alone."""

    def cell(values: Values, coefficient: Coefficient) -> CoefficientCell:
        sides = values.read_column(x), values.read_column(y)
        alone = correlations(np.array(sides), coefficient)
        return cells_of(alone, lambda _: sides, coefficient, NO_COMMON)[0, 1]

    return [(group.title, [cell(group.values, coefficient) for coefficient in COEFFICIENTS]) for group in groups]


@dataclass(frozen=True, slots=True)
class Point:
    """A model with both values of a scatter, as numbers and as printed; origins are None of a property of the model."""

    model: Subject
    x: float
    y: float
    x_text: str
    y_text: str
    x_origin: Origin | None
    y_origin: Origin | None


def points_of(values: Values, x: MeasureColumn | str, y: MeasureColumn) -> list[Point]:
    """The models that have both `x`, a column or one of PROPERTIES, and `y`; by x from the highest.

    x of a property is on its own scale, without the logarithm.
    """

    def read_side(side: MeasureColumn | str, number: int) -> tuple[float, str, Origin | None]:
        if isinstance(side, str):
            size = getattr(values.models[number], side)
            return (float(size), f"{size:,}", None) if size else (math.nan, "", None)
        place = values.columns.index(side)
        value, origin = float(values.values[place, number]), values.origins[place, number]
        return value, origin.print_value(value, side) if math.isfinite(value) else "", origin

    points = []
    for number, model in enumerate(values.models):
        x_value, x_text, x_origin = read_side(x, number)
        y_value, y_text, y_origin = read_side(y, number)
        if math.isfinite(x_value + y_value):
            points.append(Point(model, x_value, y_value, x_text, y_text, x_origin, y_origin))
    return sorted(points, key=lambda point: -point.x)


@dataclass(frozen=True, slots=True)
class SizeRow:
    """How a measure goes with each of PROPERTIES over some models. overall: whether those are of several families."""

    title: str
    models: int
    cells: list[CoefficientCell]
    overall: bool = False


def by_family(
    values: Values, column: MeasureColumn, coefficient: Coefficient, most: int | None = None
) -> tuple[list[SizeRow], int]:
    """A measure against each of PROPERTIES, over all models, those of each kind and of each family, by size.

    Kinds are there where values are of several. most: families to show; the second value says how many are left out.
    """
    measure = values.read_column(column)
    places = np.flatnonzero(np.isfinite(measure)).tolist()
    families: dict[str, list[int]] = {}
    kinds: dict[str, list[int]] = {}
    for place in places:
        families.setdefault(values.models[place].family, []).append(place)
        kinds.setdefault(values.models[place].kind, []).append(place)
    by_size = sorted(families.items(), key=lambda family: (-len(family[1]), family[0]))
    groups = [("All families", places, True)]
    if len(kinds) > 1:
        groups += [
            (population_title(kind, True), kinds[kind], True) for kind in LanguageModel.Kind.values if kind in kinds
        ]
    groups += [(name or "unknown", family, False) for name, family in by_size[:most]]
    cells = size_cells(values, [(measure, group) for _, group, _ in groups], coefficient)
    return [
        SizeRow(title, len(group), row, overall) for (title, group, overall), row in zip(groups, cells, strict=True)
    ], len(by_size[len(by_size) if most is None else most :])


def by_measure(values: Values, coefficient: Coefficient) -> list[SizeRow]:
    """Every column against each of PROPERTIES, over all models."""
    everyone = list(range(len(values.models)))
    cells = size_cells(values, [(measure, everyone) for measure in values.values], coefficient)
    return [
        SizeRow(column.title, values.count_models(column), row)
        for column, row in zip(values.columns, cells, strict=True)
    ]


def size_cells(
    values: Values, rows: Sequence[tuple[Array, Sequence[int]]], coefficient: Coefficient
) -> list[list[CoefficientCell]]:
    """The cells of a table of measures against PROPERTIES: a row is a measure [models] and the places of its models."""
    properties = {name: values.read_property(name) for name in PROPERTIES}
    sides = {
        (number, name): (measure[list(places)], model_property[list(places)])
        for number, (measure, places) in enumerate(rows)
        for name, model_property in properties.items()
    }
    correlation_by_key = {key: correlations(np.array(pair), coefficient)[0, 1] for key, pair in sides.items()}
    cells = cells_of(correlation_by_key, sides.__getitem__, coefficient, NO_PROPERTY)
    return [[cells[number, name] for name in PROPERTIES] for number in range(len(rows))]
