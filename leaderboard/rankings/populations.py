"""Populations: models are ranked among all models, or among those that are like them.

Likelihoods of different kinds of models are different quantities, and so are continuations of raw text and answers of
chats. So a metric of likelihoods ranks each kind separately, and a version with chat entries each interface, unless a
request asks for all; other rankings have one population, all models.
"""

from collections.abc import Collection, Sequence

from django.db.models import Count, F, Q

from leaderboard.models import LanguageModel, Metric, MetricVersion, Standing
from leaderboard.rankings.versions import NoRanking

ALL = Standing.Population.ALL.value
NAMES = {ALL: "", Standing.Population.TEXT.value: "raw text "}  # before "models", where that is not the key


def population_in_words(count: int, population: str, by_kind: bool) -> str:
    """A population in words, as in "5 causal models". by_kind: whether the metric ranks kinds of models apart."""
    name = NAMES.get(population, f"{population} ")
    suffix = " of all kinds" if by_kind and not name else ""
    return f"{count:,} {name}model{'' if count == 1 else 's'}{suffix}"


def population_title(population: str, by_kind: bool) -> str:
    """The title of a table of a population, as in "Causal models"."""
    if population != ALL:
        return f"{Standing.Population(population).label} models"
    return "Models of all kinds" if by_kind else "Models"


def apart_populations(versions: Sequence[MetricVersion]) -> list[str]:
    """The populations that a ranking of `versions` keeps apart unless asked; none where it ranks all together.

    Of two versions in one ranking both have to know them.
    """
    return [
        population
        for population in Standing.Population.values
        if population != ALL and versions and all(population in version.populations for version in versions)
    ]


def ranked_populations(versions: Sequence[MetricVersion], population: str | None = None) -> list[str]:
    """The populations of one request: `population`; where that is None, each that is ranked apart, or all models.

    Raises NoRanking for one that the versions do not rank apart.
    """
    groups = apart_populations(versions)
    if population and population not in (ALL, *groups):
        slug = versions[0].metric.slug if versions else ""
        message = f"population = {population!r}: {slug} does not rank it apart; use {', '.join([ALL, *groups])}"
        raise NoRanking(message, field="population", value=population)
    return [population] if population else groups or [ALL]


def first_population(metric: Metric, populations: Collection[str]) -> str:
    """The default of a view of one population: the first kind or interface of `populations`, or all models."""
    groups = LanguageModel.Kind.values if metric.formula.by_kind else LanguageModel.Interface.values
    return next((population for population in groups if population in populations), ALL)


def own_population(model: LanguageModel, version: MetricVersion) -> str:
    """The default population of a model: its kind or its interface, where these are ranked apart; else all models."""
    if version.ranks_interfaces:
        return str(model.interface)
    return str(model.kind) if version.metric.formula.by_kind else ALL


def in_own_population(version: MetricVersion) -> Q:
    """The standings of models in their `own_population`."""
    if version.ranks_interfaces:
        return Q(population=F("model__interface"))
    return Q(population=F("model__kind")) if version.metric.formula.by_kind else Q(population=ALL)


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
