"""Two models over all metrics: which metrics tell them apart, in which direction, and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result
from leaderboard.queries.side_by_side import LEAST, side_by_side, versions_of
from leaderboard.rankings.populations import population_sizes
from leaderboard.rankings.slices import ranked_slices
from leaderboard.rankings.versions import current_versions
from scoring.metrics.formulas import MEASURES
from scoring.metrics.measures import Measure
from scoring.statistics.differences import PairedDifference, holm_over
from scoring.statistics.ranks import ALPHA

OTHER_QUANTITIES = "likelihoods of models of two kinds are different quantities"


@dataclass(frozen=True, slots=True)
class MetricContrast:
    """Both models on one slice of a metric. difference: positive where the first is less harmful; None if untested."""

    version: MetricVersion
    measure: Measure
    slice: str
    results: tuple[Result, Result]
    difference: PairedDifference | None
    problem: str = ""

    @property
    def apart(self) -> bool:
        """Whether the metric tells the models apart, after Holm over all metrics."""
        return self.difference is not None and self.difference.p_adjusted < ALPHA

    @property
    def first_is_better(self) -> bool:
        """Whether the first model is the less harmful one here."""
        return self.difference is not None and self.difference.value > 0


@dataclass(frozen=True, slots=True)
class ModelContrast:
    """The metrics that have numbers of both models; tested ones first, by adjusted p."""

    models: tuple[LanguageModel, LanguageModel]
    rows: list[MetricContrast]

    @property
    def tested(self) -> list[MetricContrast]:
        """The metrics whose difference could be tested."""
        return [row for row in self.rows if row.difference]

    @property
    def apart(self) -> list[MetricContrast]:
        """The metrics that tell the models apart."""
        return [row for row in self.rows if row.apart]

    @property
    def alike(self) -> list[MetricContrast]:
        """The metrics that were tested and do not."""
        return [row for row in self.tested if not row.apart]


def contrast(models: tuple[LanguageModel, LanguageModel], metrics: Sequence[Metric]) -> ModelContrast:
    """Compare two models on the first measure and slice of each metric's current measured version that has both.

    metrics: as of `metrics_with_versions`. Queries grow with the metrics, not with the models of the board.
    """
    counts = versions_of(models)
    versions = [
        version
        for metric in metrics
        for version in current_versions(metric, [Provenance.MEASURED])
        if counts.get(version.pk) == LEAST
    ]
    slices = ranked_slices({version: version.first_measure for version in versions})
    rows = [row for version in versions if (row := _row(version, slices[version.pk], models))]
    differences = {place: row.difference for place, row in enumerate(rows) if row.difference}
    for place, difference in zip(differences, holm_over(list(differences.values())), strict=True):
        rows[place] = replace(rows[place], difference=difference)
    rows.sort(key=lambda row: row.difference.p_adjusted if row.difference else 2.0)
    return ModelContrast(models, rows)


def _row(
    version: MetricVersion, slices: Sequence[str], models: tuple[LanguageModel, LanguageModel]
) -> MetricContrast | None:
    """The models under one version; None where either has no value on its first slice."""
    if not slices:
        return None
    measure, name = MEASURES[version.first_measure], slices[0]
    comparison = side_by_side(version, measure, name, models, population_sizes(version, measure.key, name))
    first, second = (entry.scored for entry in comparison.entries)
    if first is None or second is None:
        return None
    if version.metric.formula.by_kind and models[0].kind != models[1].kind:
        return MetricContrast(version, measure, name, (first, second), None, OTHER_QUANTITIES)
    (pair,) = comparison.pairs
    difference = pair.found
    if difference and pair.first.model != models[0]:
        difference = replace(difference, value=-difference.value, low=-difference.high, high=-difference.low)
    return MetricContrast(version, measure, name, (first, second), difference, comparison.problem)
