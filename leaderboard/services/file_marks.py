"""Which entries rest on a stored file, and the mark on those whose files are lost."""

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
    resting = Q()
    for path in FILES:
        resting |= Q(**{path: artefact})
    return Scoring.objects.filter(resting).select_related("model", "metric_version__metric", *FILES)


def mark_entries(artefact: Artefact) -> None:
    """Write into each entry that rests on the file which of its files are lost now."""
    changed = []
    for scoring in entries_of(artefact):
        found = "; ".join(describe_losses(scoring))
        if scoring.lost_files != found:
            scoring.lost_files = found
            changed.append(scoring)
    Scoring.objects.bulk_update(changed, ["lost_files"], batch_size=500)


def renew_ranges_on(artefact: Artefact) -> None:
    """Have the ranges that were kept while the file was lost made anew by the next watch."""
    versions = entries_of(artefact).order_by().values("metric_version")
    MetricVersion.objects.filter(pk__in=versions, status=MetricVersion.Status.CURRENT).update(ranges_due=True)


def describe_losses(scoring: Scoring) -> Iterator[str]:
    """The lost files of an entry, as in `the model's outputs: damaged`."""
    for path, name in FILES.items():
        found: object = scoring
        for attribute in path.split("__"):
            found = getattr(found, attribute, None)
        if isinstance(found, Artefact) and found.state in Artefact.LOST:
            yield f"{name}: {found.get_state_display().lower()}"
