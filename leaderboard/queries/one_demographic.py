"""One demographic: which metrics have it, and which models stand first and last on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Q, Window
from django.db.models.functions import RowNumber

from leaderboard.models import Metric, MetricVersion, Provenance, Result, Standing, is_listed
from leaderboard.rankings.indifferent import indifferent_results
from leaderboard.rankings.populations import population_title, ranked_populations
from leaderboard.rankings.versions import current_versions
from scoring.metrics.formulas import MEASURES
from scoring.metrics.measures import Measure
from scoring.metrics.safety import ALL, AVERAGE, DISTILLED

NO_DEMOGRAPHICS = (ALL, AVERAGE, *DISTILLED)
ENDS = 3  # models that are named from each end of a ranking


@dataclass(frozen=True, slots=True)
class DemographicPlace:
    """A model's rank and value; indifferent: what it would have if it were indifferent, None where nobody knows it."""

    standing: Standing
    indifferent: float | None


@dataclass(frozen=True, slots=True)
class DemographicGroup:
    """The first and the last models of a population of `size`, in order; none twice."""

    title: str
    size: int
    first: list[DemographicPlace]
    last: list[DemographicPlace]

    @property
    def skipped(self) -> int:
        """How many stand between them."""
        return self.size - len(self.first) - len(self.last)


@dataclass(frozen=True, slots=True)
class DemographicPart:
    """What one version says of a demographic, by the first measure that it ranks it by."""

    version: MetricVersion
    measure: Measure
    groups: list[DemographicGroup]


def versions_of_demographics(metrics: Iterable[Metric]) -> list[MetricVersion]:
    """The current versions of metrics whose slices are demographics; of metrics of `metrics_with_versions`."""
    by_demographic = [metric for metric in metrics if metric.formula.by_demographic]
    return [version for metric in by_demographic for version in current_versions(metric, Provenance.values)]


def list_demographics(metrics: Iterable[Metric]) -> list[str]:
    """Every demographic that a current version ranks models on, by name; in one query."""
    standings = Standing.objects.filter(
        is_listed("model__"), metric_version__in=versions_of_demographics(metrics), measure__in=ranked_keys(metrics)
    )
    return sorted(
        set(standings.order_by().exclude(slice__in=NO_DEMOGRAPHICS).values_list("slice", flat=True).distinct())
    )


def ranked_keys(metrics: Iterable[Metric]) -> set[str]:
    """The measures by which metrics rank."""
    return {measure.key for metric in metrics for measure in metric.formula.ranked}


def read_demographic(metrics: Sequence[Metric], name: str) -> list[DemographicPart]:
    """What the current versions say of the demographic, in three queries; nothing where none ranks it."""
    versions = versions_of_demographics(metrics)
    standings = Standing.objects.filter(is_listed("model__"), slice=name, metric_version__in=versions).order_by()
    sizes: dict[tuple[int, str], dict[str, int]] = {}
    counts = standings.values_list("metric_version", "measure", "population").annotate(Count("pk"))
    for version, key, population, count in counts:
        sizes.setdefault((version, key), {})[population] = count
    measures: dict[MetricVersion, Measure] = {}
    for version in versions:
        keys = {key for pk, key in sizes if pk == version.pk} & ranked_keys([version.metric])
        if keys:
            measures[version] = MEASURES[version.measure_among(keys)]
    places = read_ends(measures, name)
    return [
        DemographicPart(version, measure, build_groups(version, sizes[version.pk, measure.key], places))
        for version, measure in measures.items()
    ]


Ends = dict[tuple[int, str], list[tuple[DemographicPlace, bool]]]  # by version and population; whether of the first


def read_ends(measures: dict[MetricVersion, Measure], name: str) -> Ends:
    """The models at both ends of the rankings of a demographic, in two queries."""
    condition = Q(pk__in=[])
    for version, measure in measures.items():
        condition |= Q(metric_version=version, measure=measure.key, population__in=ranked_populations([version]))
    group = [F("metric_version"), F("population")]
    standings = Standing.objects.filter(condition, is_listed("model__"), slice=name).annotate(
        from_first=Window(RowNumber(), partition_by=group, order_by=[F("rank").asc(), F("model__name").asc()]),
        from_last=Window(RowNumber(), partition_by=group, order_by=[F("rank").desc(), F("model__name").desc()]),
    )
    rows = list(
        standings.filter(Q(from_first__lte=ENDS) | Q(from_last__lte=ENDS))
        .select_related("model", "result")
        .order_by("metric_version", "population", "from_first")
    )
    own_values = Q(pk__in=[])
    for version, measure in measures.items():
        scorings = {row.result.scoring_id for row in rows if row.metric_version_id == version.pk}
        own_values |= indifferent_results(measure, scorings, {name})
    indifferent = dict(Result.objects.filter(own_values).order_by().values_list("scoring_id", "value"))
    ends: Ends = {}
    for row in rows:
        place = DemographicPlace(row, indifferent.get(row.result.scoring_id))
        ends.setdefault((row.metric_version_id, row.population), []).append((place, row.from_first <= ENDS))
    return ends


def build_groups(version: MetricVersion, sizes: dict[str, int], ends: Ends) -> list[DemographicGroup]:
    """The populations of a version, each kind separately where kinds are ranked apart."""
    by_kind = version.metric.formula.by_kind
    groups = []
    for population in ranked_populations([version]):
        places = ends.get((version.pk, population), [])
        first = [place for place, is_first in places if is_first]
        last = [place for place, is_first in places if not is_first]
        if places:
            groups.append(DemographicGroup(population_title(population, by_kind), sizes[population], first, last))
    return groups
