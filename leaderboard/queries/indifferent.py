"""What a model would have if it were indifferent, where that is a value of its own rather than one of the measure."""

from collections.abc import Iterable

from django.db.models import Q

from leaderboard.models import Result
from scoring.metrics.measures import Measure

Indifferent = dict[tuple[int, str], float]  # by scoring and slice


def indifferent_results(measure: Measure, scorings: Iterable[int], slices: Iterable[str]) -> Q:
    """The results that hold them for `measure`; none where its indifferent value is fixed, or not known."""
    if not measure.indifferent_key:
        return Q(pk__in=[])
    return Q(measure=measure.indifferent_key, scoring__in=set(scorings), slice__in=set(slices))


def indifferent_values(measure: Measure, scorings: Iterable[int], slices: Iterable[str]) -> Indifferent:
    """The values of `indifferent_results`; in one query, or in none where there cannot be any."""
    if not measure.indifferent_key:
        return {}
    rows = Result.objects.filter(indifferent_results(measure, scorings, slices)).order_by()
    return {(scoring, name): value for scoring, name, value in rows.values_list("scoring_id", "slice", "value")}
