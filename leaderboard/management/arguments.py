"""What commands take as arguments."""

from django.core.management.base import CommandError

from leaderboard.models import Metric


def found_metric(slug: str) -> Metric:
    """The metric called `slug`. Raises CommandError, listing those there are."""
    metric = Metric.objects.select_related("protocol__evaluation_set").filter(slug=slug).first()
    if metric is None:
        known = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none: run `manage.py seed`"
        raise CommandError(f"there is no metric {slug!r}; known: {known}")
    return metric
