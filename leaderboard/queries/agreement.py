"""Do metrics agree? Measures of the same models against one another, and against the models' architecture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from leaderboard.models import (
    LanguageModel,
    MetricVersion,
    Result,
    Scoring,
    Standing,
    Work,
    is_unranked,
    not_held,
    ranked_now,
)
from leaderboard.models.results import DERIVED
from leaderboard.rankings.digits import digits_of
from scoring.metrics.formulas import MEASURES, slice_label, slices_in_order
from scoring.metrics.measures import Measure
from scoring.statistics.correlations import Coefficient, Correlation, correlations

Array = NDArray[np.float64]
LEAST_MODELS = 4  # of which a coefficient says something
# Of a model, what a measure is set against: field, what it is called, whether on a logarithmic scale.
PROPERTIES = {
    "layers": ("Layers", False),
    "heads": ("Attention heads", False),
    "hidden_size": ("Hidden size", False),
    "parameters": ("Parameters", True),
}


@dataclass(frozen=True, slots=True)
class MeasureColumn:
    """A measure on a slice under a version; `derived`: worked out here from what the version's source prints."""

    version: MetricVersion
    measure: Measure
    slice: str
    derived: bool = False

    @property
    def key(self) -> str:
        """As addresses have it; the metric's current version is understood."""
        return f"{self.version.metric.slug}/{self.measure.key}/{self.slice}"

    @property
    def digits(self) -> int:
        """Decimals that its values are shown with."""
        return digits_of(self.version, self.measure.key)

    @property
    def label(self) -> str:
        """The measure and the slice, marked where the values are no source's own."""
        return f"{DERIVED if self.derived else ''}{self.measure.label}, {slice_label(self.slice)}"

    @property
    def title(self) -> str:
        """The same with the metric."""
        return f"{self.version.metric.title}: {self.label}"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model as the page shows it."""

    slug: str
    name: str
    family: str
    kind: str
    layers: int | None
    heads: int | None
    hidden_size: int | None
    parameters: int | None

    def property_of(self, name: str) -> float:
        """One of PROPERTIES, on the scale it is drawn and correlated on; NaN where it is not known."""
        value = getattr(self, name)
        if not value:
            return math.nan
        return math.log10(value) if PROPERTIES[name][1] else float(value)


@dataclass(frozen=True, eq=False)
class Values:
    """The values of columns [columns, models], NaN where a model has none, and the models."""

    columns: list[MeasureColumn]
    models: list[Subject]
    values: Array

    def read_column(self, column: MeasureColumn) -> Array:
        """The values [models] of a column."""
        row: Array = self.values[self.columns.index(column)]
        return row

    def select_kind(self, kind: str) -> "Values":
        """The same of the models of one kind."""
        return self._only(np.array([model.kind == kind for model in self.models], dtype=bool))

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Whether the values of each column are different quantities for each kind of model."""
        return np.array([column.version.metric.formula.by_kind for column in self.columns], dtype=bool)

    def separate_kind(self, kind: str) -> "Values":
        """The same, but in columns that are `apart` the values of models of one kind alone."""
        others = np.array([model.kind != kind for model in self.models], dtype=bool)
        values = np.where(self.apart[:, None] & others, np.nan, self.values)
        return Values(self.columns, self.models, values)._only(np.array(np.isfinite(values).any(axis=0)))

    @property
    def kinds(self) -> dict[str, int]:
        """The kinds of the models with a value in columns that are `apart`, and how many models: the most first.

        Of two with as many, the one with more values of any column.
        """
        is_finite = np.isfinite(self.values)
        counts: dict[str, tuple[int, int]] = {}
        for model, column in zip(self.models, is_finite.T, strict=True):
            if column[self.apart].any():
                models, cells = counts.get(model.kind, (0, 0))
                counts[model.kind] = models + 1, cells + int(column.sum())
        return {kind: counts[kind][0] for kind in sorted(counts, key=lambda kind: (*(-n for n in counts[kind]), kind))}

    def _only(self, mask: NDArray[np.bool_]) -> "Values":
        models = [model for model, one in zip(self.models, mask, strict=True) if one]
        return Values(self.columns, models, self.values[:, mask])


@dataclass(frozen=True, slots=True)
class CorrelationCell:
    """A coefficient, or the reason why there is none; `level` from -4 to 4 is the shade of its cell."""

    row: MeasureColumn
    column: MeasureColumn
    found: Correlation
    reason: str

    @property
    def level(self) -> int:
        """0 where there is nothing to colour."""
        return 0 if self.reason or self.found.value is None else round(4 * self.found.value)


def default_columns(versions: Sequence[MetricVersion]) -> list[MeasureColumn]:
    """What each of `versions` shows first, in one query; of a paper's figures, what it prints.

    Versions without numbers are left out.
    """
    condition = Q(pk__in=[])
    for version in versions:
        first_numbers = Q(measure=version.first_measure) if version.measured else Q(result__derived=False)
        condition |= first_numbers & Q(metric_version=version)
    rankings = (
        Standing.objects.filter(condition).order_by().values_list("metric_version_id", "measure", "slice").distinct()
    )
    slices: dict[int, dict[str, list[str]]] = {}
    for pk, measure, name in rankings:
        slices.setdefault(pk, {}).setdefault(measure, []).append(name)
    columns = []
    for version in versions:
        version_slices = slices.get(version.pk, {})
        key = version.measure_among(version_slices)
        if key in version_slices:
            columns.append(MeasureColumn(version, MEASURES[key], slices_in_order(version_slices[key])[0]))
    return columns


def columns_of(version: MetricVersion) -> dict[str, list[MeasureColumn]]:
    """All that `version` has numbers of, ranked or not, by the measure's label, in one query."""
    results = Result.objects.filter(scoring__metric_version=version, scoring__state=Work.State.DONE).order_by()
    slices: dict[str, dict[str, bool]] = {}
    for measure, name, is_derived in results.values_list("measure", "slice", "derived").distinct():
        slices.setdefault(measure, {})[name] = is_derived
    return {
        measure.label: [
            MeasureColumn(version, measure, name, slices[measure.key][name])
            for name in slices_in_order(slices[measure.key])
        ]
        for measure in version.metric.formula.measures.values()
        if measure.key in slices
    }


def values_of(columns: Sequence[MeasureColumn]) -> Values:
    """The values of `columns` of all models that have any, by name, in two queries.

    Without those of entries that lack too many scores to be ranked.
    """
    places = {(column.version.pk, column.measure.key, column.slice): place for place, column in enumerate(columns)}
    condition = Q(pk__in=[])
    for column in columns:
        condition |= Q(scoring__metric_version=column.version, measure=column.measure.key, slice=column.slice)
    results = (
        Result.objects.filter(condition, scoring__state=Work.State.DONE)
        .filter(ranked_now("scoring__model__"), not_held("scoring__"))
        .exclude(scoring__in=Scoring.objects.filter(is_unranked()).values("pk"))
        .order_by()
        .values_list("scoring__metric_version_id", "measure", "slice", "scoring__model_id", "value")
    )
    rows = [(places[pk, measure, name], model, value) for pk, measure, name, model, value in results]
    fields = ("pk", "slug", "name", "family", "kind", *PROPERTIES)
    models = LanguageModel.objects.filter(pk__in={model for _, model, _ in rows}).order_by("name", "slug")
    subjects = {pk: Subject(*cells) for pk, *cells in models.values_list(*fields)}
    position = {pk: number for number, pk in enumerate(subjects)}
    values = np.full((len(columns), len(subjects)), np.nan)
    for place, model, value in rows:
        values[place, position[model]] = value
    return Values(list(columns), list(subjects.values()), values)


def reason_of(correlation: Correlation, nothing: str) -> str:
    """Why a coefficient is not shown; empty where it is. nothing: what is said where no model has both values."""
    if correlation.n == 0:
        return nothing
    if correlation.n < LEAST_MODELS:
        return f"{correlation.n} model{'' if correlation.n == 1 else 's'}; {LEAST_MODELS} needed"
    return "one side never varies" if correlation.value is None else ""


def matrix(values: Values, coefficient: Coefficient) -> list[tuple[MeasureColumn, list[CorrelationCell | None]]]:
    """The coefficient of every two columns: a row a column, None on the diagonal."""
    coefficients = correlations(values.values, coefficient)

    def cell(row: int, column: int) -> CorrelationCell | None:
        if row == column:
            return None
        correlation = coefficients[min(row, column), max(row, column)]
        return CorrelationCell(
            values.columns[row], values.columns[column], correlation, reason_of(correlation, "no model in common")
        )

    places = range(len(values.columns))
    return [(values.columns[row], [cell(row, column) for column in places]) for row in places]


@dataclass(frozen=True, slots=True)
class Point:
    """A model with both values of a scatter."""

    model: Subject
    x: float
    y: float


def points_of(values: Values, x: Array, y: Array) -> list[Point]:
    """The models that have both `x` and `y` [models], by x from the highest."""
    both = zip(values.models, x, y, strict=True)
    points = [Point(model, float(a), float(b)) for model, a, b in both if math.isfinite(a + b)]
    return sorted(points, key=lambda point: -point.x)


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """A family of models: how its measure goes with each of PROPERTIES; a reason where it has no coefficient."""

    family: str
    models: int
    cells: list[tuple[Correlation, str]]


def by_family(values: Values, measure: Array, coefficient: Coefficient) -> list[FamilyRow]:
    """Of all models and then of each family, by size: `measure` [models] against each of PROPERTIES."""
    has_value = np.isfinite(measure)
    properties = np.array([[model.property_of(name) for model in values.models] for name in PROPERTIES])
    families: dict[str, list[int]] = {}
    for place in np.flatnonzero(has_value):
        families.setdefault(values.models[place].family, []).append(int(place))

    def row(name: str, places: Sequence[int]) -> FamilyRow:
        coefficients = [
            correlations(np.array([measure[places], row_property[places]]), coefficient)[0, 1]
            for row_property in properties
        ]
        return FamilyRow(
            name, len(places), [(correlation, reason_of(correlation, "not known")) for correlation in coefficients]
        )

    by_size = sorted(families.items(), key=lambda family: (-len(family[1]), family[0]))
    return [row("All families", np.flatnonzero(has_value).tolist()), *(row(name, places) for name, places in by_size)]
