"""Celery tasks: load the row, call the service, done. `collect_run` goes to the queue `gpu`, the rest to `default`."""

from celery import shared_task

from leaderboard.models import Run, Scoring
from leaderboard.services import collect, queue, score


@shared_task
def collect_run(run_id: int) -> None:
    """One slice of collecting a model's outputs."""
    collect.collect(Run.objects.select_related("model", "protocol__evaluation_set__artefact").get(pk=run_id))


@shared_task
def score_run(scoring_id: int) -> None:
    """Score what a run collected, and publish."""
    score.score(
        Scoring.objects.select_related(
            "model", "metric_version__metric", "run__artefact", "run__protocol__evaluation_set__artefact"
        ).get(pk=scoring_id)
    )


@shared_task
def sweep() -> None:
    """Put back on the queue what should be under way and is not."""
    queue.sweep()
