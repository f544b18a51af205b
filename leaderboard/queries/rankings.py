"""Rankings as pages show them: the standings of a version, joined with the numbers of every slice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from django.db.models import Exists, OuterRef, Prefetch

from leaderboard.models import LanguageModel, Metric, MetricVersion, OutdatedEntry, Result, Scoring, Standing, Work
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure
from scoring.metrics.safety import AVERAGE
from scoring.statistics.ranks import competition_ranks

ROUND_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of a measure's scale
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
    outdated: list[OutdatedEntry] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    @property
    def mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1

    @property
    def has_history(self) -> bool:
        """Whether its metric has versions to compare."""
        return has_history(self.metric)

    @property
    def carries_ranks(self) -> bool:
        """Whether its ranks are those that its source gives."""
        return not self.mixed and any(row.result.published_rank for group in self.groups for row in group.rows)

    @property
    def sized(self) -> bool:
        """Whether the number of parameters of any model is known: papers rarely print it."""
        return any(row.model.parameters for group in self.groups for row in group.rows)

    @property
    def k(self) -> int | None:
        """Continuations of each prompt that the values are of; None where they are not of continuations."""
        return self.versions[0].protocol.k

    @property
    def scale(self) -> float:
        """The end of the scale of whiskers: of the measure's own, or a round part of it that holds them all."""
        results = [row.result for group in self.groups for row in group.rows]
        most = max((max(r.value, r.ci_high or r.value) for r in results), default=self.measure.largest)
        return next(
            (end for share in ROUND_SHARES if (end := share * self.measure.largest) >= most), self.measure.largest
        )

    @property
    def models(self) -> int:
        """How many models it ranks."""
        return sum(len(group.rows) for group in self.groups)


def columns_beside(name: str, slices: Iterable[str]) -> list[str]:
    """The slices whose values stand beside those of slice `name`, in order.

    Of a scorer's attributes on parts of the prompts: the other parts of this attribute, and this part of the others.
    """
    attribute, part = slice_parts(name)
    others = [other for other in slices_in_order(slices) if other != name]
    return [other for other in others if not attribute or attribute in slice_parts(other) or part in slice_parts(other)]


def ranking(
    metric: Metric, versions: list[MetricVersion], measure: str, name: str | None, population: str = WITHIN_KIND
) -> Ranking:
    """The ranking of `measure` on slice `name` under `versions`, in a constant number of queries.

    name: None for the first slice that there is.
    `population`: WITHIN_KIND, one kind, or all kinds together; a metric whose numbers do not differ by kind has one.
    With two versions (measured and published) the ranks are taken anew over both, without rank intervals: nothing pairs
    their texts.
    """
    chosen = [population] if population else LanguageModel.Kind.values
    if not metric.formula.by_kind:
        chosen = [Standing.Population.ALL.value]
    results = list(Result.objects.filter(scoring__metric_version__in=versions, measure=measure))
    name = name or next(iter(slices_in_order(result.slice for result in results)), AVERAGE)
    standings = list(
        Standing.objects.filter(metric_version__in=versions, measure=measure, slice=name, population__in=chosen)
        .select_related("model", "result__scoring", "metric_version__protocol", "metric_version__metric")
        .order_by("rank", "model__name")
    )
    cells = {(result.scoring_id, result.slice): result for result in results}
    columns = columns_beside(name, {result.slice for result in results})
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
    left = []
    measured = any(version.measured for version in versions)  # figures of a paper do not become outdated
    if measured and metric.outdated_policy == Metric.OutdatedPolicy.FLAG:
        left = list(
            OutdatedEntry.objects.filter(metric_version__in=versions).select_related(
                "model", "last_scoring__metric_version"
            )
        )
    return Ranking(metric, versions, MEASURES[measure], name, columns, left, groups)


def ranked_anew(rows: list[Row], measure: Measure) -> list[Row]:
    """The same rows, ranked among all of them by value alone."""
    ranks = competition_ranks(np.array([row.result.value for row in rows]), measure.direction or "higher")
    again = [
        Row(row.model, row.version, int(rank), None, None, row.result, row.cells)
        for row, rank in zip(rows, ranks, strict=True)
    ]
    return sorted(again, key=lambda row: (row.rank, row.model.name))


def metrics_with_versions() -> list[Metric]:
    """All metrics, each with those of its versions that have entries, in two queries."""
    entries = Exists(Scoring.objects.filter(metric_version=OuterRef("pk"), state=Work.State.DONE))
    versions = MetricVersion.objects.select_related("protocol").filter(entries).order_by("number")
    return list(
        Metric.objects.select_related("protocol__evaluation_set").prefetch_related(Prefetch("versions", versions))
    )


def has_history(metric: Metric) -> bool:
    """Whether two published versions of one provenance can be compared; of a metric of `metrics_with_versions`."""
    provenances = [version.provenance for version in metric.versions.all() if version.published_at]
    return len(provenances) > len(set(provenances))


def current_versions(metric: Metric, provenances: Sequence[str]) -> list[MetricVersion]:
    """The current versions of a metric of `metrics_with_versions`, measured before published."""
    found = [
        version
        for version in metric.versions.all()
        if version.status == MetricVersion.Status.CURRENT and version.provenance in provenances
    ]
    return sorted(found, key=lambda version: version.provenance)
