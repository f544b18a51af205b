"""Everything that is known of one model: what its entries have under the current versions, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Exists, OuterRef, Q, QuerySet

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    Provenance,
    Result,
    Scoring,
    Standing,
    Work,
    ranked_now,
)
from leaderboard.queries.profiles import ProfileCell
from leaderboard.rankings.places import Place, places_of_pairs
from scoring.metrics.formulas import slices_in_order
from scoring.metrics.measures import Measure


@dataclass(frozen=True, slots=True)
class EvidenceColumn:
    """What one entry has under one version; place: None where it has none on the overall slice."""

    scoring: Scoring
    place: Place | None

    @property
    def entry(self) -> LanguageModel:
        """Whose numbers they are."""
        return self.scoring.model

    @property
    def version(self) -> MetricVersion:
        """The version that fixes them."""
        return self.scoring.metric_version


@dataclass(frozen=True, slots=True)
class EvidenceGroup:
    """What is known by one measure: a row a slice, a cell a column of the table, with the version that fixes it."""

    measure: Measure
    rows: list[tuple[str, list[tuple[MetricVersion, ProfileCell]]]]


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """What is known of a model by one metric: a column an entry and version."""

    metric: Metric
    columns: list[EvidenceColumn]
    groups: list[EvidenceGroup]


Values = dict[tuple[str, str], Result]  # of one scoring, by slice and measure


def list_visible_entries(identity: ModelIdentity) -> list[LanguageModel]:
    """The entries of a model that are neither hidden nor withdrawn, by what they are; in one query."""
    return list(identity.entries.filter(ranked_now()).order_by("source", "created_at", "pk"))


def identities_with_entries(words: str = "") -> "QuerySet[ModelIdentity]":
    """The models of which an entry may be shown, by name. Each of `words` is in the name, family, maker or slug."""
    condition = Q(Exists(LanguageModel.objects.filter(ranked_now(), identity=OuterRef("pk"))))
    for word in words.split():
        columns = ("name", "family", "organisation", "slug")
        condition &= Q(*((f"{column}__icontains", word) for column in columns), _connector=Q.OR)
    return ModelIdentity.objects.filter(condition)


def collect_evidence(entries: Sequence[LanguageModel]) -> list[EvidenceTable]:
    """What the entries have under the current versions, published before measured, in four queries.

    Each number keeps its version: tables put them side by side and rank nothing.
    """
    scorings = ranked_scorings(entries)
    keys = {key for scoring in scorings for measure in measures_of(scoring) for key in keys_of(measure)}
    values: dict[int, Values] = {scoring.pk: {} for scoring in scorings}
    for result in Result.objects.filter(scoring__in=scorings, measure__in=keys).order_by():
        values[result.scoring_id][result.slice, result.measure] = result
    places = places_of_pairs([(scoring.model, scoring.metric_version) for scoring in scorings])
    columns = [
        EvidenceColumn(scoring, places.get((scoring.model_id, scoring.metric_version_id))) for scoring in scorings
    ]
    by_metric = groupby(columns, lambda column: column.version.metric)
    return [build_table(metric, list(group), values) for metric, group in by_metric]


def measures_of(scoring: Scoring) -> list[Measure]:
    """What the table of a scoring shows: the measure shown first, and all that rank demographics."""
    formula, first = scoring.metric_version.metric.formula, scoring.metric_version.first_measure
    return [measure for measure in formula.ranked if measure.key == first or formula.by_demographic]


def keys_of(measure: Measure) -> list[str]:
    """The results that belong to a measure: its own, and the indifferent value where each model has one."""
    return [key for key in (measure.key, measure.indifferent_key) if key]


def ranked_scorings(entries: Sequence[LanguageModel]) -> list[Scoring]:
    """The scorings of entries under current versions that rank them, by metric, provenance and entry."""
    by_pk = {entry.pk: entry for entry in entries}
    scorings = (
        Scoring.objects.filter(
            model__in=by_pk, state=Work.State.DONE, metric_version__status=MetricVersion.Status.CURRENT
        )
        .filter(Exists(Standing.objects.filter(result__scoring=OuterRef("pk"))))
        .select_related("metric_version__metric", "metric_version__protocol__evaluation_set")
    )
    for scoring in scorings:
        scoring.model = by_pk[scoring.model_id]
    provenances = list(reversed(Provenance.values))

    def order(scoring: Scoring) -> tuple[int, str, int, int]:
        version, metric = scoring.metric_version, scoring.metric_version.metric
        return metric.position, metric.slug, provenances.index(version.provenance), scoring.model_id

    return sorted(scorings, key=order)


def build_table(metric: Metric, columns: list[EvidenceColumn], values: dict[int, Values]) -> EvidenceTable:
    """The table of one metric."""
    measures = {measure.key: measure for column in columns for measure in measures_of(column.scoring)}
    by_column = [(column.version, values[column.scoring.pk]) for column in columns]
    groups = [build_group(measure, by_column) for measure in measures.values()]
    return EvidenceTable(metric, columns, [group for group in groups if group.rows])


def build_group(measure: Measure, by_column: list[tuple[MetricVersion, Values]]) -> EvidenceGroup:
    """The rows of one measure."""
    names = {name for _, values in by_column for name, key in values if key == measure.key}

    def cell_of(values: Values, name: str) -> ProfileCell:
        indifferent = values.get((name, measure.indifferent_key))
        return ProfileCell(measure, values.get((name, measure.key)), indifferent.value if indifferent else None)

    rows = [
        (name, [(version, cell_of(values, name)) for version, values in by_column])
        for name in slices_in_order(names, by_column[0][0].declared)
    ]
    return EvidenceGroup(measure, rows)
