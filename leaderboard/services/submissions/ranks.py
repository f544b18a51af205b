"""Where a model stands, in the ranking that a metric's page opens with."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q

from leaderboard.models import LanguageModel, MetricVersion, Standing
from scoring.metrics.formulas import slices_in_order


@dataclass(frozen=True)
class Place:
    """A rank among so many, on the first measure and slice of a metric."""

    standing: Standing
    among: int

    @property
    def said(self) -> str:
        """As in: rank 3 of 12 among causal models."""
        population = self.standing.population
        of_kind = (
            "" if population == Standing.Population.ALL else f" among {self.standing.get_population_display().lower()}"
        )
        return f"rank {self.standing.rank} of {self.among}{of_kind}"


def places_of(model: LanguageModel, versions: Iterable[MetricVersion]) -> dict[int, Place]:
    """By version, those of the model that are ranked under it; in two queries."""
    by_pk = {version.pk: version for version in versions}
    wanted = Q(pk=None)
    for version in by_pk.values():
        formula = version.metric.formula
        population = model.kind if formula.by_kind else Standing.Population.ALL
        wanted |= Q(metric_version=version, measure=formula.ranked[0].key, population=population)
    rows: dict[int, dict[str, Standing]] = {}
    for standing in Standing.objects.filter(wanted, model=model).select_related("result"):
        rows.setdefault(standing.metric_version_id, {})[standing.slice] = standing
    chosen = {pk: slices[slices_in_order(slices)[0]] for pk, slices in rows.items()}
    counts = _counts(chosen.values())
    return {pk: Place(one, counts[pk]) for pk, one in chosen.items()}


def _counts(chosen: Iterable[Standing]) -> dict[int, int]:
    same = Q(pk=None)
    for one in chosen:
        same |= Q(metric_version=one.metric_version_id, measure=one.measure, slice=one.slice, population=one.population)
    counted = Standing.objects.filter(same).order_by().values("metric_version").annotate(entries=Count("pk"))
    return dict(counted.values_list("metric_version", "entries"))
