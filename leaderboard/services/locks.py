"""Row locks, taken in one order, so that no two transactions wait for each other.

The order: submissions, models, metrics by slug, rescorings, versions, and then work. Whoever needs several takes the
earlier ones first. Locks leave keys alone (FOR NO KEY UPDATE), so that rows which refer to a locked one can be added,
and hold the named row only, never what a query joins to it.
"""

from collections.abc import Iterable

from leaderboard.models import LanguageModel, Metric, MetricVersion, Rescoring, Submission


def lock_submission(pk: int) -> Submission:
    """The submission with its submitter, until the transaction ends."""
    submissions = Submission.objects.select_for_update(of=("self",), no_key=True)
    return submissions.select_related("submitter").get(pk=pk)


def lock_model(pk: int) -> LanguageModel:
    """The model, until the transaction ends."""
    return LanguageModel.objects.select_for_update(no_key=True).get(pk=pk)


def lock_metric(pk: int) -> Metric:
    """The metric, until the transaction ends: no version of it is opened, closed or entered meanwhile."""
    return lock_metrics([pk])[0]


def lock_metrics(pks: Iterable[int]) -> list[Metric]:
    """Several metrics, in the order that everybody takes them in."""
    return list(Metric.objects.select_for_update(no_key=True).filter(pk__in=list(pks)).order_by("slug"))


def lock_rescoring(pk: int) -> Rescoring:
    """The rescoring with its versions, until the transaction ends."""
    rescorings = Rescoring.objects.select_for_update(of=("self",), no_key=True)
    return rescorings.select_related("to_version__metric", "from_version").get(pk=pk)


def lock_version(pk: int) -> MetricVersion:
    """The version with its metric, until the transaction ends: nothing else of it is published meanwhile."""
    return MetricVersion.objects.select_for_update(of=("self",), no_key=True).select_related("metric").get(pk=pk)
