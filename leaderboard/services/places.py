"""Where a model stands: a rank is always read with the population that it is of, in the same words everywhere."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q

from leaderboard.models import LanguageModel, Metric, MetricVersion, Standing
from scoring.metrics.formulas import slices_in_order


def population_in_words(count: int, population: str, by_kind: bool) -> str:
    """Among whom a rank is, as in "5 causal models". by_kind: whether the metric ranks kinds of models apart."""
    kind = "" if population == Standing.Population.ALL else f"{population} "
    pooled = " of all kinds" if by_kind and not kind else ""
    return f"{count:,} {kind}model{'' if count == 1 else 's'}{pooled}"


def population_title(population: str, by_kind: bool) -> str:
    """Who is ranked among themselves, as a table of them is called: "Causal models"."""
    if population != Standing.Population.ALL:
        return f"{Standing.Population(population).label} models"
    return "Models of all kinds" if by_kind else "Models"


def own_population(model: LanguageModel, metric: Metric) -> str:
    """Among whom a model is ranked where nobody chose: its kind, where kinds are ranked apart; else all."""
    return str(model.kind) if metric.formula.by_kind else Standing.Population.ALL.value


def own_standings(models: Iterable[LanguageModel], metric: Metric) -> Q:
    """The standings of `models` in their `own_population`."""
    if not metric.formula.by_kind:
        return Q(population=Standing.Population.ALL, model__in=models)
    condition = Q(pk__in=[])
    for model in models:
        condition |= Q(population=model.kind, model=model)
    return condition


def population_sizes(version: MetricVersion, measure: str, name: str) -> dict[str, int]:
    """How many models `version` ranks by `measure` on slice `name`, by population, in one query.

    As published: a model that was hidden since still takes up a rank.
    """
    ranked = Standing.objects.filter(metric_version=version, measure=measure, slice=name).order_by()
    return dict(ranked.values_list("population").annotate(Count("pk")))


def leading_count(first: int, count: int) -> int:
    """How many lead of `count` models, of which `first` cannot be told from the best.

    0 where there is nobody to lead: of a single model, and where all cannot be told from the best.
    """
    return 0 if first == count else first


@dataclass(frozen=True, slots=True)
class Place:
    """A rank by a measure on a slice; `among`: of how many it is.

    low to high: the ranks that paired tests cannot exclude, None where nothing is known of them.
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
    def population(self) -> str:
        """Among whom, as in "5 causal models"."""
        by_kind = self.standing.metric_version.metric.formula.by_kind
        return population_in_words(self.among, self.standing.population, by_kind)

    @property
    def words(self) -> str:
        """As in "2 of 5 causal models"."""
        return f"{self.rank} of {self.population}"


def places_of(model: LanguageModel, versions: Iterable[MetricVersion]) -> dict[int, Place]:
    """Where the model stands under each of `versions` that ranks it, by version, in two queries.

    On the first slice of the measure that it shows first, among models of its kind where kinds are ranked apart.
    """
    by_pk = {version.pk: version for version in versions}
    ranking = Q(pk__in=[])
    for version in by_pk.values():
        population = own_population(model, version.metric)
        ranking |= Q(metric_version=version, measure=version.first_measure, population=population)
    slices: dict[int, dict[str, Standing]] = {}
    for standing in Standing.objects.filter(ranking, model=model).select_related("result"):
        standing.metric_version = by_pk[standing.metric_version_id]
        slices.setdefault(standing.metric_version_id, {})[standing.slice] = standing
    chosen = {pk: rows[slices_in_order(rows, by_pk[pk].declared)[0]] for pk, rows in slices.items()}
    counts = _counts(chosen.values())
    return {pk: Place(standing, counts.get(pk, 0)) for pk, standing in chosen.items()}


def _counts(chosen: Iterable[Standing]) -> dict[int, int]:
    """How many models are ranked with each of `chosen`, by version."""
    same = Q(pk__in=[])
    for one in chosen:
        same |= Q(metric_version=one.metric_version_id, measure=one.measure, slice=one.slice, population=one.population)
    counted = Standing.objects.filter(same).order_by().values("metric_version")
    return dict(counted.annotate(entries=Count("pk")).values_list("metric_version", "entries"))
