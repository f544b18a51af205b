"""A worker that dies, and one that is asked to stop, in the middle of a run."""

import signal
from collections.abc import Iterator

import pytest
from django.core.files.storage import default_storage

from leaderboard.celery import app
from leaderboard.models import Run, Scoring, Standing, Work
from leaderboard.services import artefacts
from leaderboard.services.evaluate import request_evaluation
from tests.faults.worker import wait_until, worker
from tests.leaderboard.conftest import MASKED, metric, models  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

SMALL_SHARDS = {"SHARD_TEXTS": "8"}


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def evaluate_undisturbed(scoring: Scoring) -> tuple[str, list[tuple[str, str, float]]]:
    """Evaluate with one worker from start to end; returns the artefact's hash and the results."""
    with worker(**SMALL_SHARDS):
        wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
    return outcome(scoring)


def outcome(scoring: Scoring) -> tuple[str, list[tuple[str, str, float]]]:
    run = Run.objects.get(pk=scoring.run_id)
    results = scoring.results.order_by("measure", "slice").values_list("measure", "slice", "value")
    return run.artefact.sha256, list(results)


def start_over(scoring: Scoring) -> None:
    """Forget everything the evaluation led to."""
    Standing.objects.all().delete()
    scoring.results.all().delete()
    Scoring.objects.filter(pk=scoring.pk).update(
        state=Work.State.QUEUED, artefact=None, scored_at=None, finished_at=None, enqueued_at=None
    )
    Run.objects.filter(pk=scoring.run_id).update(
        state=Work.State.QUEUED, artefact=None, done=0, seconds=0, started_at=None, finished_at=None, enqueued_at=None
    )


def test_a_worker_killed_in_the_middle_of_a_run_costs_a_shard_and_changes_no_number(metric, models):  # noqa: F811
    scoring = request_evaluation(models[MASKED], metric)
    expected = evaluate_undisturbed(scoring)
    start_over(scoring)
    run = scoring.run

    with worker(**SMALL_SHARDS) as first:
        wait_until(lambda: Run.objects.get(pk=run.pk).done >= 24)
        first.send_signal(signal.SIGKILL)
        first.wait()
    half = Run.objects.get(pk=run.pk)
    assert half.state == Work.State.RUNNING  # nobody could say goodbye
    assert 0 < half.done < half.total
    kept = {
        name: artefacts.get(f"shards/run-{run.pk}/{name}", "likelihoods")
        for name in default_storage.listdir(f"shards/run-{run.pk}")[1]
    }
    assert len(kept) >= 3
    written = {name: default_storage.get_modified_time(f"shards/run-{run.pk}/{name}") for name in kept}

    with worker(**SMALL_SHARDS):
        wait_until(lambda: Run.objects.get(pk=run.pk).done > half.done)
        for name, time in written.items():  # what was finished is not done again
            path = f"shards/run-{run.pk}/{name}"
            assert not default_storage.exists(path) or default_storage.get_modified_time(path) == time
        wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
    assert outcome(scoring) == expected


def test_a_worker_that_is_asked_to_stop_gives_its_run_back_at_once(metric, models):  # noqa: F811
    scoring = request_evaluation(models[MASKED], metric)
    with worker(**SMALL_SHARDS, LEASE_SECONDS="600") as running:
        wait_until(lambda: Run.objects.get(pk=scoring.run_id).done >= 16)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    run = Run.objects.get(pk=scoring.run_id)
    assert (run.state, run.lease) == (Work.State.QUEUED, None)
    with worker(**SMALL_SHARDS):
        wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
