"""Rankings as pages show them: the standings of a version, joined with the numbers of every slice."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result, Standing, Work
from scoring.metrics.measures import Measure
from scoring.metrics.safety import ALL, AVERAGE, MEASURES
from scoring.statistics.ranks import competition_ranks

WITHIN_KIND = ""  # the default population: each kind of likelihood has a ranking of its own


@dataclass(frozen=True, slots=True)
class Row:
    """One model in a ranking; `cells` are its results in the order of the ranking's columns, None where it has none."""

    model: LanguageModel
    version: MetricVersion
    rank: int
    rank_low: int | None
    rank_high: int | None
    result: Result
    cells: list[Result | None]

    @property
    def leads(self) -> bool:
        """Whether the paired tests cannot tell it from the best."""
        return self.rank_low == 1


@dataclass(frozen=True, slots=True)
class Group:
    """Models that are ranked among themselves."""

    title: str
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranking: of a measure, on a slice, under one version; or, asked for, measured and published side by side."""

    metric: Metric
    versions: list[MetricVersion]
    measure: Measure
    slice: str
    columns: list[str]
    groups: list[Group] = field(default_factory=list)

    @property
    def mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1

    @property
    def sized(self) -> bool:
        """Whether the number of parameters of any model is known: papers rarely print it."""
        return any(row.model.parameters for group in self.groups for row in group.rows)

    @property
    def models(self) -> int:
        """How many models it ranks."""
        return sum(len(group.rows) for group in self.groups)


def slices_of(results: Iterable[Result]) -> list[str]:
    """Slices in the order of columns: the overall one first, then demographics by name."""
    names = {result.slice for result in results}
    return [name for name in (AVERAGE, ALL) if name in names] + sorted(names - {AVERAGE, ALL})


def headline_slice(names: Iterable[str]) -> str:
    """The slice shown first."""
    return AVERAGE if AVERAGE in names else ALL


def ranking(
    metric: Metric, versions: list[MetricVersion], measure: str, name: str, population: str = WITHIN_KIND
) -> Ranking:
    """The ranking of `measure` on slice `name` under `versions`, in a constant number of queries.

    `population`: WITHIN_KIND, one kind, or all kinds together. With two versions (measured and published) the ranks
    are taken anew over both, without rank intervals: nothing pairs their texts.
    """
    chosen = [population] if population else LanguageModel.Kind.values
    standings = list(
        Standing.objects.filter(metric_version__in=versions, measure=measure, slice=name, population__in=chosen)
        .select_related("model", "result__scoring", "metric_version")
        .order_by("rank", "model__name")
    )
    results = list(Result.objects.filter(scoring__metric_version__in=versions, measure=measure))
    cells = {(result.scoring_id, result.slice): result for result in results}
    columns = [column for column in slices_of(results) if column != name]
    by_population: dict[str, list[Row]] = {}
    for standing in standings:
        row = Row(
            standing.model,
            standing.metric_version,
            standing.rank,
            standing.rank_low,
            standing.rank_high,
            standing.result,
            [cells.get((standing.result.scoring_id, column)) for column in columns],
        )
        by_population.setdefault(standing.population, []).append(row)
    labels = dict(Standing.Population.choices)
    groups = [
        Group(
            labels[key], ranked_anew(by_population[key], MEASURES[measure]) if len(versions) > 1 else by_population[key]
        )
        for key in chosen
        if key in by_population
    ]
    return Ranking(metric, versions, MEASURES[measure], name, columns, groups)


def ranked_anew(rows: list[Row], measure: Measure) -> list[Row]:
    """The same rows, ranked among all of them by value alone."""
    ranks = competition_ranks(np.array([row.result.value for row in rows]), measure.direction or "higher")
    again = [
        Row(row.model, row.version, int(rank), None, None, row.result, row.cells)
        for row, rank in zip(rows, ranks, strict=True)
    ]
    return sorted(again, key=lambda row: (row.rank, row.model.name))


def current_versions(metric: Metric, provenances: Iterable[Provenance]) -> list[MetricVersion]:
    """The current versions of a metric that have entries, measured before published."""
    found = metric.versions.filter(
        status=MetricVersion.Status.CURRENT, provenance__in=list(provenances), scorings__state=Work.State.DONE
    ).distinct()
    return sorted(found, key=lambda version: version.provenance)
