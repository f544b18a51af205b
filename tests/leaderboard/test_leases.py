"""A lease outlives a lost connection to the database, and dead workers leave nothing behind."""

import threading
from itertools import chain, repeat
from unittest.mock import MagicMock, Mock

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError, connection

from leaderboard import tasks
from leaderboard.models import MetricVersion, Run, Scoring, Work
from leaderboard.services import leases
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


@pytest.fixture
def beating(settings, monkeypatch):
    """A lease of work that no database holds, whose heartbeat looks every hundredth of a second; and what is noted."""
    settings.LEASE_SECONDS, settings.NO_PROGRESS_SECONDS = 0.03, 1000.0
    noted: list[tuple[str, str]] = []
    free = threading.Event()

    def note(worker: str, task: str) -> None:
        noted.append((worker, task))
        free.set()

    for name, value in {
        "LOOK_EVERY": 0.01,
        "STUCK_SECONDS": 0.01,
        "connection": Mock(),
        "close_old_connections": Mock(),
        "note_stuck": note,
        "worker_name": lambda: "w@alpha",
    }.items():
        monkeypatch.setattr(leases, name, value)
    work = MagicMock()
    work.__str__.return_value = "a run"
    return leases.Lease(work), noted, free


def test_a_worker_that_goes_on_with_lost_work_is_noted_as_stuck_until_it_stops(beating):
    lease, noted, free = beating
    lease.work.renew.return_value = False
    with lease.keep_alive():
        assert free.wait(10)
        assert noted == [("w@alpha", "a run")]
        with pytest.raises(leases.LeaseLost):
            lease.check()
    assert noted == [("w@alpha", "a run"), ("w@alpha", "")]
    assert leases.connection.close.called


def test_work_without_progress_is_lost_to_its_worker(beating, settings):
    lease, noted, free = beating
    settings.NO_PROGRESS_SECONDS = 0.01
    with lease.keep_alive():
        assert free.wait(10)
        with pytest.raises(leases.LeaseLost):
            lease.check()
    assert noted[-1] == ("w@alpha", "")


def test_what_is_held_with_the_work_is_renewed_with_it_though_the_database_missed_a_beat(beating):
    lease, noted, _ = beating
    renewed = threading.Event()
    lease.work.renew.side_effect = chain([OperationalError("away")], repeat(True))
    with lease.keep_alive():
        with lease.renewing(renewed.set):
            assert renewed.wait(10)
        assert lease.work.renew.call_count > 1
        lease.check()
    assert noted == []


def test_work_is_looked_at_more_often_than_its_lease_is_renewed(beating, settings):
    lease, _, free = beating
    settings.LEASE_SECONDS = 3000.0
    looks = iter(3 * [True] + 99 * [False])
    lease.work.is_held.side_effect = lambda _: next(looks)
    with lease.keep_alive():
        assert free.wait(10)
    assert lease.work.is_held.call_count == 4
    assert not lease.work.renew.called
