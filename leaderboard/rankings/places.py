"""Where a model stands in a metric, in the same words everywhere.

One rule: under a version a model's place is its rank by the measure that the version shows first, on the overall slice
of that version's ranking, in the model's own population. That is the table that the ranking page shows first. A model
that has no standing there has no place, whatever it is ranked on elsewhere: a rank on one demographic is never given
out for the rank in the metric.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, Subquery

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing
from leaderboard.rankings.digits import print_value
from leaderboard.rankings.populations import own_population, population_in_words
from leaderboard.rankings.slices import ranked_slices
from leaderboard.rankings.versions import current_versions, with_versions
from scoring.metrics.safety import ALL, AVERAGE


@dataclass(frozen=True, slots=True)
class Place:
    """A rank by a measure on a slice; `among`: of how many it is.

    low to high: the range of ranks by paired tests, None where it is unknown.
    """

    standing: Standing
    among: int

    @property
    def rank(self) -> int:
        return self.standing.rank

    @property
    def low(self) -> int | None:
        return self.standing.rank_low

    @property
    def high(self) -> int | None:
        return self.standing.rank_high

    @property
    def value(self) -> float:
        return self.standing.value

    @property
    def value_text(self) -> str:
        """Its value as pages print it."""
        return print_value(self.standing.result, self.standing.metric_version)

    @property
    def population(self) -> str:
        """Among whom, as in "5 causal models"."""
        by_kind = self.standing.metric_version.metric.formula.by_kind
        return population_in_words(self.among, self.standing.population, by_kind)

    @property
    def words(self) -> str:
        """As in "2 of 5 causal models"."""
        return f"{self.rank} of {self.population}"


def places_of(model: LanguageModel, versions: Iterable[MetricVersion]) -> dict[int, Place]:
    """Where the model stands under each of `versions`, by version, in two queries; not under those without it."""
    places = places_of_pairs([(model, version) for version in versions])
    return {version: place for (_, version), place in places.items()}


def places_of_pairs(pairs: Collection[tuple[LanguageModel, MetricVersion]]) -> dict[tuple[int, int], Place]:
    """Where models stand under versions, by the keys of both, in two queries; not where a version lacks the model."""
    by_pk = {version.pk: version for _, version in pairs}
    slices = ranked_slices({version: version.first_measure for version in by_pk.values()})
    versions: dict[tuple[int, str, str, str], list[int]] = {}
    for model, version in pairs:
        for name in overall_slices(version, slices[version.pk]):
            key = model.pk, version.first_measure, name, own_population(model, version)
            versions.setdefault(key, []).append(version.pk)
    ranking = Q(pk__in=[])
    for (model_pk, measure, name, population), pks in versions.items():
        exact = {"measure": measure, "slice": name, "population": population}
        ranking |= Q(metric_version__in=pks, model=model_pk, **exact)
    same = {name: OuterRef(name) for name in ("metric_version", "measure", "slice", "population")}
    group_sizes = Standing.objects.filter(**same).order_by().values("metric_version").annotate(entries=Count("pk"))
    standings = Standing.objects.filter(ranking).annotate(among=Subquery(group_sizes.values("entries")))
    places = {}
    for standing in standings.select_related("result"):
        standing.metric_version = by_pk[standing.metric_version_id]
        places[standing.model_id, standing.metric_version_id] = Place(standing, standing.among)
    return places


def overall_slices(version: MetricVersion, names: list[str]) -> list[str]:
    """The one of the slices `names`, in order, on which a place is one in the metric; none among demographics alone.

    A source may print values of demographics and no average of them.
    """
    lacks_overall = version.metric.formula.by_demographic and len(names) > 1 and names[0] not in (AVERAGE, ALL)
    return [] if lacks_overall else names[:1]


def places_under(model: LanguageModel, version: MetricVersion) -> dict[tuple[str, str], Place]:
    """Where the model stands under `version` by every measure on every slice, in its own population; in two queries."""
    standings = version.standings.filter(population=own_population(model, version)).order_by()
    sizes = {
        (measure, name): size
        for measure, name, size in standings.values_list("measure", "slice").annotate(entries=Count("pk"))
    }
    places = {}
    for standing in standings.filter(model=model).select_related("result"):
        standing.metric_version = version
        places[standing.measure, standing.slice] = Place(standing, sizes[standing.measure, standing.slice])
    return places


def place_now(model: LanguageModel, metric: Metric) -> Place | None:
    """Where the model stands now: under the current measured version where it has a place there, else the published."""
    versions = current_versions(with_versions(metric), Provenance.values)
    places = places_of(model, versions)
    return next((places[version.pk] for version in versions if version.pk in places), None)
