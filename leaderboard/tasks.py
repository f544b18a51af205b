"""Celery tasks: load the row, call the service, done. `collect_run` goes to the queue `gpu`, the rest to `default`."""

from celery import shared_task

from leaderboard.models import ControlCheck, Run, Scoring
from leaderboard.services import alerts, checks, collect, queue, rescore, score, shards
from leaderboard.services.exchange import downloads


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
def check_control(check_id: int) -> None:
    """Score a metric's control set again, and act on the verdict."""
    checks.perform(ControlCheck.objects.select_related("metric").get(pk=check_id))


@shared_task
def sweep() -> None:
    """Put back on the queue what should be under way and is not."""
    queue.sweep()


@shared_task
def watch() -> None:
    """Request the checks that are due, publish what is complete, clear up after dead workers, tell of incidents."""
    alerts.look()
    checks.request_due_checks()
    rescore.advance_all()
    shards.remove_left()
    alerts.deliver()
    if downloads.is_due():
        export_board.delay()


@shared_task
def export_board() -> None:
    """Write the download of the whole board, if the board changed since the last one."""
    downloads.renew()
