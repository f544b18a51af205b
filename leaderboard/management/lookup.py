"""Things by the names that people type."""

from django.core.management.base import CommandError

from leaderboard.models import LanguageModel, Metric


def metric_called(slug: str) -> Metric:
    """The metric of that slug. Raises CommandError, with those there are."""
    found = Metric.objects.filter(slug=slug).first()
    if found is None:
        known = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none: run `manage.py seed`"
        raise CommandError(f"there is no metric {slug!r}; known: {known}")
    return found


def model_called(slug: str) -> LanguageModel:
    """The language model of that slug. Raises CommandError, with what to do."""
    found = LanguageModel.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"there is no model {slug!r}: enter it with `manage.py add_model REF`")
    return found
