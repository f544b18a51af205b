"""Which entries depend on a stored file, and the mark on those whose files are lost."""

from collections.abc import Iterator

from django.db.models import Q, QuerySet

from leaderboard.models import Artefact, MetricVersion, Scoring

# What an entry's numbers are made of: the way from a scoring to the file, and what readers call it.
FILES = {
    "artefact": "its value of each text",
    "replicates": "its bootstrap replicates",
    "run__artefact": "the model's outputs",
    "metric_version__prompt_scores": "the scores of the prompts",
    "metric_version__protocol__evaluation_set__artefact": "the texts",
    "metric_version__protocol__evaluation_set__prompt_scores": "the published scores of the prompts",
}


def entries_of(artefact: Artefact) -> QuerySet[Scoring]:
    """The entries whose numbers come from the file."""
    condition = Q()
    for path in FILES:
        condition |= Q(**{path: artefact})
    return Scoring.objects.filter(condition).select_related("model", "metric_version__metric", *FILES)


def mark_entries(artefact: Artefact) -> None:
    """Record in each entry that depends on the file which of its files are lost now."""
    changed_scorings = []
    for scoring in entries_of(artefact):
        losses = "; ".join(describe_losses(scoring))
        if scoring.lost_files != losses:
            scoring.lost_files = losses
            changed_scorings.append(scoring)
    Scoring.objects.bulk_update(changed_scorings, ["lost_files"], batch_size=500)


def renew_ranges_on(artefact: Artefact) -> None:
    """Let the next watch renew the ranges that were kept while the file was lost."""
    versions = entries_of(artefact).order_by().values("metric_version")
    MetricVersion.objects.filter(pk__in=versions, status=MetricVersion.Status.CURRENT).update(ranges_due=True)


def describe_losses(scoring: Scoring) -> Iterator[str]:
    """The lost files of an entry, as in `the model's outputs: damaged`."""
    for path, name in FILES.items():
        value: object = scoring
        for attribute in path.split("__"):
            value = getattr(value, attribute, None)
        if isinstance(value, Artefact) and value.state in Artefact.LOST:
            yield f"{name}: {value.get_state_display().lower()}"
