"""What a model would have if it were indifferent, where that is a value of its own rather than one of the measure."""

from collections.abc import Iterable

from django.db.models import Q

from scoring.metrics.measures import Measure

Indifferent = dict[tuple[int, str], float]  # by scoring and slice


def indifferent_results(measure: Measure, scorings: Iterable[int], slices: Iterable[str]) -> Q:
    """The results that hold them for `measure`; none where its indifferent value is fixed, or not known."""
    if not measure.indifferent_key:
        return Q(pk__in=[])
    return Q(measure=measure.indifferent_key, scoring__in=set(scorings), slice__in=set(slices))
