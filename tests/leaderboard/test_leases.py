"""A lease outlives a lost connection to the database, and dead workers leave nothing behind."""

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError, connection

from leaderboard import tasks
from leaderboard.models import MetricVersion, Run, Scoring, Work
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.leases import claim
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.living import retry


@pytest.fixture
def run(metric, models):
    return request_evaluation(models[CAUSAL], metric, send=False).run


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections to lose")
def test_work_whose_connection_was_lost_is_given_back_over_a_new_one(run):
    with claim(run) as lease, connection.cursor() as cursor:
        assert lease
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    run.refresh_from_db()
    assert (run.state, run.lease, run.attempts) == (Work.State.QUEUED, None, 0)


@pytest.mark.django_db
def test_a_database_that_is_away_is_no_fault_of_the_work(run, settings):
    settings.MOST_ATTEMPTS = 2
    for _ in range(3):
        with claim(run):
            raise OperationalError("the database says: the connection is lost")
        run.refresh_from_db()
        assert (run.state, run.attempts) == (Work.State.QUEUED, 0)
        retry()


@pytest.mark.django_db
def test_work_whose_slice_is_over_has_one_turn_and_then_gives_way(run, settings):
    settings.SLICE_SECONDS = 0.0
    turns = 0
    with claim(run) as lease:
        assert lease
        for _ in range(2):
            lease.take_turn()
            turns += 1
    run.refresh_from_db()
    assert (turns, run.state, run.attempts) == (1, Work.State.QUEUED, 0)


@pytest.mark.slow
@pytest.mark.django_db
def test_checkpoints_that_nobody_will_go_on_from_are_cleared_up_and_others_stay(board):
    done, waiting = Run.objects.filter(state=Work.State.DONE)[:2]
    Run.objects.filter(pk=waiting.pk).update(state=Work.State.QUEUED)
    scoring = Scoring.objects.last()
    Scoring.objects.filter(pk=scoring.pk).update(state=Work.State.CANCELLED)
    gone = Run.objects.last().pk + 1
    folders = [
        f"shards/run-{done.pk}",
        f"shards/run-{gone}",
        f"shards/run-{waiting.pk}",
        f"shards/scoring-{scoring.pk}",
    ]
    for folder in folders:
        default_storage.save(f"{folder}/0-256-00000.parquet", ContentFile(b"a shard"))

    tasks.watch()
    assert [default_storage.exists(folder) for folder in folders] == [False, False, True, True]
    MetricVersion.objects.filter(pk=scoring.metric_version_id).update(status=MetricVersion.Status.SUPERSEDED)
    Run.objects.filter(pk=waiting.pk).update(state=Work.State.DONE)
    tasks.watch()
    assert default_storage.listdir("shards")[0] == []
