"""Which slices a version ranks a measure on, and which of them a name means."""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Q, QuerySet

from leaderboard.models import Metric, MetricVersion, Result, Standing, Work, is_unranked
from leaderboard.state_memo import once_a_state
from scoring.metrics.agreement import matching_attributes
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure, slice_of


def ranked_measures(metric: Metric) -> list[Measure]:
    """The measures that any version of a metric ranks models by, in order; in one query."""
    keys = set(Standing.objects.filter(metric_version__metric=metric).order_by().values_list("measure", flat=True))
    return [measure for measure in metric.formula.ranked if measure.key in keys]


@once_a_state(lambda measures: frozenset((version.pk, measure) for version, measure in measures.items()))
def rankings_of(measures: Mapping[MetricVersion, str]) -> dict[int, set[tuple[str, str]]]:
    """The slices and populations in which each version ranks its measure of `measures`, by version, in one query."""
    rankings: dict[int, set[tuple[str, str]]] = {version.pk: set() for version in measures}
    rows = first_standings(measures).values_list("metric_version_id", "slice", "population")
    for pk, name, population in rows.distinct():
        rankings[pk].add((name, population))
    return rankings


def first_standings(measures: Mapping[MetricVersion, str]) -> QuerySet[Standing]:
    """Standings of every ranking of each version by its measure of `measures`, as few as will do."""
    versions: dict[tuple[bool, str], list[int]] = {}
    for version, measure in measures.items():
        versions.setdefault((version.measured, measure), []).append(version.pk)
    ranking = Q(pk__in=[])
    for (is_measured, measure), pks in versions.items():
        # Every ranking has a first; but where a source gave the ranks, that model may have been withdrawn.
        first = Q(rank=1) if is_measured else Q()
        ranking |= first & Q(metric_version__in=pks, measure=measure)
    return Standing.objects.filter(ranking).order_by()


def ranked_slices(measures: Mapping[MetricVersion, str]) -> dict[int, list[str]]:
    """The slices on which each version ranks its measure of `measures`, the overall one first, in one query."""
    return {pk: slices_in_order(name for name, _ in rankings) for pk, rankings in rankings_of(measures).items()}


@once_a_state(lambda measures: frozenset((version.pk, measure) for version, measure in measures.items()))
def slices_of(measures: Mapping[MetricVersion, str]) -> dict[int, list[str]]:
    """The same with slices that only entries have which lack too many scores to be ranked; in one query.

    Versions without any slice are left out.
    """
    condition = Q(pk__in=[])
    for version, measure in measures.items():
        condition |= Q(measure=measure, scoring__metric_version=version)
    incomplete = Result.objects.filter(condition, is_unranked("scoring__"), scoring__state=Work.State.DONE).order_by()
    rows = first_standings(measures).values_list("metric_version_id", "slice")
    names: dict[int, set[str]] = {}
    for pk, name in rows.union(incomplete.values_list("scoring__metric_version_id", "slice")):
        names.setdefault(pk, set()).add(name)
    slices = {
        version.pk: slices_in_order(
            name for name in names.get(version.pk, ()) if version.ranks(MEASURES[measure], name)
        )
        for version, measure in measures.items()
    }
    return {pk: slice_names for pk, slice_names in slices.items() if slice_names}


def find_slice(names: Iterable[str], target: str | None) -> str | None:
    """The slice called `target`, whole or by its part alone: "toxic" finds "TOXICITY:toxic"; None where there is none.

    The first one where `target` is None.
    """
    candidates = list(names)
    parts = (name for name in candidates if target in (None, slice_parts(name)[1]))
    return target if target in candidates else next(parts, None)


def pair_slices(first: Sequence[str], second: Sequence[str], target: str | None) -> tuple[str | None, str | None]:
    """The slice that `target` means in each of two lists in order; None where there is none.

    Scorers may spell an attribute differently: then its counterpart is found. The first of the first list where None.
    """
    target = first[0] if target is None else target
    match = find_slice(first, target)
    counterpart = find_counterpart(match or target, second) or find_slice(second, target)
    return match or find_counterpart(counterpart or target, first), counterpart


def find_counterpart(name: str, names: Iterable[str]) -> str | None:
    """The slice of the same part and of the attribute by any of its spellings; None where there is none."""
    attribute, part = slice_parts(name)
    attributes = [other for other, other_part in map(slice_parts, names) if other_part == part]
    pairs = [(attribute, attribute)] if attribute in attributes else matching_attributes([attribute], attributes)
    return (slice_of(pairs[0][1], part) if attribute else part) if pairs else None
