"""Populations: models are ranked among all models, or among those of one kind.

Likelihoods of different kinds of models are different quantities. So a metric of likelihoods ranks each kind separately
unless a request asks for all; other metrics have one population, all models.
"""

from collections.abc import Collection

from django.db.models import Count, F, Q

from leaderboard.models import LanguageModel, Metric, MetricVersion, Standing
from leaderboard.rankings.versions import NoRanking

ALL = Standing.Population.ALL.value


def population_in_words(count: int, population: str, by_kind: bool) -> str:
    """A population in words, as in "5 causal models". by_kind: whether the metric ranks kinds of models apart."""
    kind = "" if population == ALL else f"{population} "
    suffix = " of all kinds" if by_kind and not kind else ""
    return f"{count:,} {kind}model{'' if count == 1 else 's'}{suffix}"


def population_title(population: str, by_kind: bool) -> str:
    """The title of a table of a population, as in "Causal models"."""
    if population != ALL:
        return f"{Standing.Population(population).label} models"
    return "Models of all kinds" if by_kind else "Models"


def ranked_populations(metric: Metric, population: str | None = None) -> list[str]:
    """The populations of one request: `population`; where that is None, each kind, or all models.

    Raises NoRanking for a single kind where the metric does not rank kinds apart.
    """
    if population and population != ALL and not metric.formula.by_kind:
        message = f"population = {population!r}: {metric.slug} ranks models of all kinds together; use {ALL}"
        raise NoRanking(message, field="population", value=population)
    if population:
        return [population]
    return list(LanguageModel.Kind.values) if metric.formula.by_kind else [ALL]


def first_population(metric: Metric, populations: Collection[str]) -> str:
    """The default of a view of one population: the first kind of `populations`, or all models."""
    kinds = LanguageModel.Kind.values if metric.formula.by_kind else []
    return next((kind for kind in kinds if kind in populations), ALL)


def own_population(model: LanguageModel, metric: Metric) -> str:
    """The default population of a model: its kind, where kinds are ranked apart; else all models."""
    return str(model.kind) if metric.formula.by_kind else ALL


def in_own_population(metric: Metric) -> Q:
    """The standings of models in their `own_population`."""
    return Q(population=F("model__kind")) if metric.formula.by_kind else Q(population=ALL)


def population_sizes(version: MetricVersion, measure: str, name: str) -> dict[str, int]:
    """How many models `version` ranks by `measure` on slice `name`, by population, in one query.

    As published: a model that was hidden since still takes up a rank.
    """
    standings = Standing.objects.filter(metric_version=version, measure=measure, slice=name).order_by()
    return dict(standings.values_list("population").annotate(Count("pk")))


def leading_count(first: int, count: int) -> int:
    """The size of the leading group of `count` models, of which `first` cannot be told from the best.

    0 where there is none: for a single model, and where no model can be told from the best.
    """
    return 0 if first == count else first
