"""Do metrics agree? The measures that can be compared, and their values of the models that have any."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
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
from leaderboard.rankings.selection import BOTH
from leaderboard.rankings.slices import find_slice
from leaderboard.rankings.versions import current_versions
from scoring.metrics.formulas import MEASURES, slice_label, slice_parts, slices_in_order
from scoring.metrics.measures import Measure
from scoring.refusals import Missing, Refused

Array = NDArray[np.float64]
MOST_COLUMNS = 12
# Of a model, what a measure is set against: field, what it is called, whether on a logarithmic scale.
PROPERTIES = {
    "layers": ("Layers", False),
    "heads": ("Attention heads", False),
    "hidden_size": ("Hidden size", False),
    "parameters": ("Parameters", True),
}
# Which numbers are compared. Of a model with both in a metric, the measured one counts.
NUMBERS: dict[str, tuple[str, list[Provenance]]] = {
    **{str(source.value): (str(source.label), [source]) for source in Provenance},
    BOTH: ("Measured here and published", list(Provenance)),
}
Versions = tuple[MetricVersion, ...]  # current ones of a metric: one a provenance, measured before published


@dataclass(frozen=True, slots=True)
class MeasureColumn:
    """A measure on a slice under versions; `derived`: worked out here, at least partly, from what a source prints."""

    versions: Versions
    measure: Measure
    slice: str
    derived: bool = False

    @property
    def metric(self) -> Metric:
        """Whose measure it is."""
        return self.versions[0].metric

    @property
    def key(self) -> str:
        """As addresses have it; the metric's current version is understood."""
        return f"{self.metric.slug}/{self.measure.key}/{self.slice}"

    @property
    def label(self) -> str:
        """The measure and the slice, marked where the values are no source's own."""
        return f"{DERIVED if self.derived else ''}{self.measure.label}, {slice_label(self.slice)}"

    @property
    def title(self) -> str:
        """The same with the metric."""
        return f"{self.metric.title}: {self.label}"

    @property
    def origin(self) -> str:
        """Where its numbers are from, in words."""
        return " and ".join(
            f"version {version.number}, {version.get_provenance_display().lower()}" for version in self.versions
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value is from; `derived`: worked out here from what the version's source prints."""

    version: MetricVersion
    derived: bool

    def print_value(self, value: float, column: "MeasureColumn") -> str:
        """The value with the digits of its source or measure."""
        return f"{value:.{digits_of(self.version, column.measure.key)}f}"

    @property
    def in_words(self) -> str:
        """In a word: measured, published, or derived from what is published."""
        return "derived" if self.derived else str(self.version.provenance)


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
    """The values of columns [columns, models], NaN where a model has none, where they are from, and the models."""

    columns: list[MeasureColumn]
    models: list[Subject]
    values: Array
    origins: NDArray[np.object_]

    def read_column(self, column: MeasureColumn) -> Array:
        """The values [models] of a column."""
        row: Array = self.values[self.columns.index(column)]
        return row

    def count_models(self, column: MeasureColumn) -> int:
        """How many models have a value of a column."""
        return int(np.isfinite(self.read_column(column)).sum())

    def read_property(self, name: str) -> Array:
        """One of PROPERTIES [models]."""
        return np.array([model.property_of(name) for model in self.models], dtype=np.float64)

    def select_kind(self, kind: str) -> "Values":
        """The same of the models of one kind."""
        return self._only(np.array([model.kind == kind for model in self.models], dtype=bool))

    @cached_property
    def apart(self) -> NDArray[np.bool_]:
        """Whether the values of each column are different quantities for each kind of model."""
        return np.array([column.metric.formula.by_kind for column in self.columns], dtype=bool)

    def separate_kind(self, kind: str) -> "Values":
        """The same, but in columns that are `apart` the values of models of one kind alone."""
        others = np.array([model.kind != kind for model in self.models], dtype=bool)
        values = np.where(self.apart[:, None] & others, np.nan, self.values)
        mask = np.array(np.isfinite(values).any(axis=0))
        return Values(self.columns, self.models, values, self.origins)._only(mask)

    @cached_property
    def kinds(self) -> dict[str, int]:
        """The kinds of the models with a value in columns that are `apart`, and how many models: the most first.

        Of two with as many, the one with more values of any column.
        """
        is_finite = np.isfinite(self.values)
        is_counted, own_cells = is_finite[self.apart].any(axis=0), is_finite.sum(axis=0)
        counts: dict[str, tuple[int, int]] = {}
        for place in np.flatnonzero(is_counted).tolist():
            kind = self.models[place].kind
            models, cells = counts.get(kind, (0, 0))
            counts[kind] = models + 1, cells + int(own_cells[place])
        return {kind: counts[kind][0] for kind in sorted(counts, key=lambda kind: (*(-n for n in counts[kind]), kind))}

    def drop_empty(self) -> "Values":
        """The same without the columns that no model has a value of."""
        mask = np.array(np.isfinite(self.values).any(axis=1))
        columns = [column for column, one in zip(self.columns, mask, strict=True) if one]
        return Values(columns, self.models, self.values[mask], self.origins[mask])

    def _only(self, mask: NDArray[np.bool_]) -> "Values":
        models = [model for model, one in zip(self.models, mask, strict=True) if one]
        return Values(self.columns, models, self.values[:, mask], self.origins[:, mask])


def versions_by_metric(metrics: Iterable[Metric], numbers: str) -> dict[str, Versions]:
    """The current versions of NUMBERS[numbers], by the slug of their metric; of `metrics_with_versions`."""
    found_versions = {metric.slug: tuple(current_versions(metric, NUMBERS[numbers][1])) for metric in metrics}
    return {slug: versions for slug, versions in found_versions.items() if versions}


def usual_numbers(metrics: Sequence[Metric]) -> str:
    """Which of NUMBERS a reader sees first: of one provenance, with two metrics to compare, best of known models."""
    options = [source.value for source in Provenance if len(versions_by_metric(metrics, source.value)) > 1]
    known_options = [source for source in options if has_known_models(metrics, source)]
    return next(iter([*known_options, *options]), Provenance.MEASURED.value)


def has_known_models(metrics: Iterable[Metric], numbers: str) -> bool:
    """Whether two metrics have numbers of models that do not come with the board; of `metrics_with_versions`."""
    by_metric = versions_by_metric(metrics, numbers).values()
    return sum(any(version.has_known for version in versions) for versions in by_metric) > 1  # type: ignore[attr-defined]


@dataclass(frozen=True)
class FirstSlices:
    """The measure that a metric shows first, and the slices that its versions rank it on, the overall one first."""

    versions: Versions
    measure: Measure
    slices: list[str]

    def column(self, part: str = "") -> MeasureColumn | None:
        """Its column on the slice that `part` means, the first one where that is empty; None where it has none."""
        name = find_slice(self.slices, part or None)
        return MeasureColumn(self.versions, self.measure, name) if name else None


def first_slices(metrics: Sequence[Versions]) -> list[FirstSlices]:
    """What each metric shows first, in one query; of a paper's figures, what it prints.

    Metrics without numbers are left out.
    """
    all_versions = list(chain.from_iterable(metrics))
    published_versions = [version for version in all_versions if not version.measured]
    printed_results = Result.objects.filter(scoring__metric_version__in=published_versions, derived=False)
    condition = Q(pk__in=[])
    for version in all_versions:
        first_numbers = Q(measure=version.first_measure) if version.measured else Q(result__in=printed_results)
        condition |= first_numbers & Q(metric_version=version)
    rankings = (
        Standing.objects.filter(condition).order_by().values_list("metric_version_id", "measure", "slice").distinct()
    )
    slices: dict[int, dict[str, list[str]]] = {}
    for pk, measure, name in rankings:
        slices.setdefault(pk, {}).setdefault(measure, []).append(name)
    firsts = []
    for versions in metrics:
        first = next((candidate for candidate in versions if candidate.pk in slices), None)
        key = first.measure_among(slices[first.pk]) if first else ""
        if first and key in slices[first.pk]:
            firsts.append(FirstSlices(versions, MEASURES[key], slices_in_order(slices[first.pk][key])))
    return firsts


def shared_parts(firsts: Sequence[FirstSlices]) -> list[str]:
    """The parts of slices, such as demographics, that two metrics or more have, without the overall ones."""
    counts: dict[str, int] = {}
    for first in firsts:
        for part in {slice_parts(name)[1] for name in first.slices[1:]}:
            counts[part] = counts.get(part, 0) + 1
    return slices_in_order(part for part, count in counts.items() if count > 1)


def choose_columns(
    names: Sequence[str], metrics: dict[str, Versions], firsts: Sequence[FirstSlices], part: str = ""
) -> list[MeasureColumn]:
    """The columns METRIC/MEASURE/SLICE of `names`; without any, what each metric shows first, on the slice `part`.

    metrics: of `versions_by_metric`. Raises Missing for a name that means nothing, Refused for too many.
    """
    columns = [column_called(name, metrics) for name in dict.fromkeys(names)]
    if len(columns) > MOST_COLUMNS:
        problem = f"{len(columns)} measures are asked for, and {MOST_COLUMNS} fit side by side: take some out"
        raise Refused(f"c: {problem}", field="c", value=len(columns))
    if columns:
        return columns
    if part and not any(first.column(part) for first in firsts):
        parts = ", ".join(shared_parts(firsts)) or "none yet"
        raise Missing(
            f"slice = {part[:80]!r} does not exist here. Slices of several metrics: {parts}", field="slice", value=part
        )
    return [column for first in firsts if (column := first.column(part))][:MOST_COLUMNS]


def column_called(name: str, metrics: dict[str, Versions]) -> MeasureColumn:
    """The column METRIC/MEASURE/SLICE. Raises Missing."""
    slug, _, rest = name.partition("/")
    measure, _, slice_name = rest.partition("/")
    versions = metrics.get(slug)
    if versions is None or measure not in versions[0].metric.formula.measures or not slice_name:
        slugs = ", ".join(metrics) or "none yet"
        message = f"c = {name!r} does not exist here. Write METRIC/MEASURE/SLICE; metrics with such numbers: {slugs}"
        raise Missing(message, field="c", value=name)
    return MeasureColumn(versions, MEASURES[measure], slice_name)


def columns_of(versions: Versions) -> dict[str, list[MeasureColumn]]:
    """All that versions of a metric have numbers of, ranked or not, by the measure's label, in one query."""
    results = Result.objects.filter(scoring__metric_version__in=versions, scoring__state=Work.State.DONE).order_by()
    slices: dict[str, dict[str, bool]] = {}
    for measure, name, is_derived in results.values_list("measure", "slice", "derived").distinct():
        derived_slices = slices.setdefault(measure, {})
        derived_slices[name] = is_derived or derived_slices.get(name, False)
    return {
        measure.label: [
            MeasureColumn(versions, measure, name, slices[measure.key][name])
            for name in slices_in_order(slices[measure.key])
        ]
        for measure in versions[0].metric.formula.measures.values()
        if measure.key in slices
    }


def values_of(columns: Sequence[MeasureColumn]) -> Values:
    """The values of `columns` of all models that have any, by name, in two queries.

    Without those of entries that lack too many scores to be ranked.
    """
    places: dict[tuple[int, str, str], int] = {}
    versions: dict[int, MetricVersion] = {}
    condition = Q(pk__in=[])
    for place, column in enumerate(columns):
        for version in column.versions:
            places[version.pk, column.measure.key, column.slice] = place
            versions[version.pk] = version
        condition |= Q(scoring__metric_version__in=column.versions, measure=column.measure.key, slice=column.slice)
    # A subquery: a database finds the results of few entries by their index, and joins by reading every result.
    entries = Scoring.objects.filter(
        ranked_now("model__"), not_held(), ~is_unranked(), metric_version__in=versions, state=Work.State.DONE
    )
    results = (
        Result.objects.filter(condition, scoring__in=entries)
        .order_by()
        .values_list("scoring__metric_version_id", "measure", "slice", "scoring__model_id", "value", "derived")
    )
    rows = [
        (versions[pk], places[pk, measure, name], model, value, is_derived)
        for pk, measure, name, model, value, is_derived in results
    ]
    fields = ("pk", "slug", "name", "family", "kind", *PROPERTIES)
    models = LanguageModel.objects.filter(pk__in={row[2] for row in rows}).order_by("name", "slug")
    subjects = {pk: Subject(*cells) for pk, *cells in models.values_list(*fields)}
    position = {pk: number for number, pk in enumerate(subjects)}
    values = np.full((len(columns), len(subjects)), np.nan)
    origins = np.full(values.shape, None, dtype=object)
    for version, place, model, value, is_derived in sorted(rows, key=lambda row: row[0].measured):
        values[place, position[model]] = value
        origins[place, position[model]] = Origin(version, is_derived)
    return Values(list(columns), list(subjects.values()), values, origins)


def require_values(values: Values) -> None:
    """Raise Missing for a column that no model has a value of."""
    for column in values.columns:
        if not values.count_models(column):
            message = f"c = {column.key!r} does not exist here: {column.metric.title} has no such slice"
            raise Missing(message, field="c", value=column.key)
