"""What workers say of themselves, what waits for one, and how long ago the board did what it does for ever."""

import logging
import shutil
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.utils import timezone

from leaderboard.models import LanguageModel, Pulse, Run, Work, Worker
from leaderboard.models.clock import from_now
from leaderboard.services import signs_of_life, workers
from leaderboard.services.signs_of_life import (
    beat,
    count_waiting,
    leave,
    note_cage,
    pulse,
    queues_without_workers,
    seconds_since,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def here(monkeypatch, settings) -> None:
    settings.HOST = "alpha"
    monkeypatch.setattr(signs_of_life, "_last_refusal", "")
    monkeypatch.setattr(signs_of_life, "code_here", lambda: "1.0 abc")
    monkeypatch.setattr(signs_of_life, "refusal", lambda: "its code is older")
    monkeypatch.setattr(signs_of_life, "memory_of_workers", lambda: 8.5e9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=7 * 10**9))


def test_a_beat_says_all_of_a_worker_and_keeps_when_it_started(here):
    beat("gpu@alpha", ["gpu", "default"])
    worker = Worker.objects.get()
    described = (worker.name, worker.host, worker.code, worker.refusal, worker.memory, worker.disk_free, worker.queues)
    assert described == (
        *("gpu@alpha", "alpha", "1.0 abc", "its code is older", 8_500_000_000, 7_000_000_000),
        ["default", "gpu"],
    )
    assert abs(worker.started_at - timezone.now()) < timedelta(minutes=1)
    long_ago = timezone.now() - timedelta(hours=1)
    Worker.objects.update(started_at=long_ago, beat_at=long_ago)
    beat("gpu@alpha", ["gpu"])
    worker.refresh_from_db()
    assert (worker.started_at, worker.queues) == (long_ago, ["gpu"])
    assert worker.beat_at > long_ago


def test_a_worker_that_fell_silent_is_forgotten_after_a_day_and_one_that_leaves_at_once():
    for name, hours in (("gpu@old", 25), ("gpu@late", 23)):
        moment = timezone.now() - timedelta(hours=hours)
        Worker.objects.create(name=name, started_at=moment, beat_at=moment)
    beat("gpu@here", ["gpu"])
    assert set(Worker.objects.values_list("name", flat=True)) == {"gpu@here", "gpu@late"}
    leave("gpu@here")
    assert set(Worker.objects.values_list("name", flat=True)) == {"gpu@late"}


def test_a_refusal_is_logged_as_it_begins_and_as_it_ends(monkeypatch, caplog):
    monkeypatch.setattr(signs_of_life, "_last_refusal", "")
    caplog.set_level(logging.INFO, logger="leaderboard.services.signs_of_life")
    for refusal in ("", "its code is older", "its code is older", "", ""):
        monkeypatch.setattr(signs_of_life, "refusal", lambda refusal=refusal: refusal)
        beat("gpu@here", ["gpu"])
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "gpu@here takes no work: its code is older"),
        ("INFO", "gpu@here takes work again"),
    ]


def test_a_cage_is_noted_of_a_worker_before_and_after_its_first_beat():
    first, second = [{"title": "No network", "holds": True}], [{"title": "No network", "holds": False}]
    note_cage("gpu@here", first)
    worker = Worker.objects.get()
    assert (worker.name, worker.cage) == ("gpu@here", first)
    moment = timezone.now() - timedelta(minutes=5)
    Worker.objects.update(beat_at=moment, started_at=moment)
    Worker.objects.create(name="gpu@there", beat_at=moment, started_at=moment, cage=[])
    note_cage("gpu@here", second)
    worker.refresh_from_db()
    assert (worker.cage, worker.beat_at, worker.started_at) == (second, moment, moment)
    assert Worker.objects.get(name="gpu@there").cage == []


def test_the_time_since_a_task_ran_is_that_tasks_own():
    assert seconds_since("sweep") is None
    pulse("sweep")
    pulse("watch")
    Pulse.objects.filter(name="watch").update(at=timezone.now() - timedelta(hours=1))
    assert seconds_since("sweep") < 60
    assert seconds_since("watch") == pytest.approx(3600, abs=60)
    pulse("watch")
    assert Pulse.objects.count() == 2
    assert seconds_since("watch") < 60


@pytest.fixture
def runs(metric) -> list[Run]:
    """Six runs that were asked for ten minutes ago."""
    models = [
        LanguageModel.objects.create(
            slug=f"m{number}", name=f"M{number}", kind="causal", source="local", location=f"/m/{number}", revision="1"
        )
        for number in range(6)
    ]
    runs = [Run.objects.create(model=model, protocol=metric.protocol) for model in models]
    Run.objects.update(created_at=from_now(-600))
    return runs


def test_work_waits_since_it_was_asked_for_or_its_worker_or_its_pause_ended(runs, settings):
    change = {"state": Work.State.RUNNING, "lease": uuid4()}
    Run.objects.filter(pk=runs[0].pk).update(created_at=from_now(-10))
    Run.objects.filter(pk=runs[1].pk).update(**change, lease_expires_at=from_now(-5), heartbeat_at=from_now(-30))
    Run.objects.filter(pk=runs[2].pk).update(not_before=from_now(-10))
    Run.objects.filter(pk=runs[3].pk).update(held=True)
    assert count_waiting()["gpu"] == 5
    assert count_waiting(60)["gpu"] == 2
    assert count_waiting(3600)["gpu"] == 0
    settings.ALERT_WORKERS_SECONDS = 60
    assert queues_without_workers() == {"gpu": 2}
    now = timezone.now()
    Worker.objects.create(name="default@here", queues=["default"], started_at=now, beat_at=now)
    assert queues_without_workers() == {"gpu": 2}
    Worker.objects.create(name="gpu@here", queues=["gpu"], started_at=now, beat_at=now)
    assert queues_without_workers() == {}


def test_work_of_a_queue_is_counted_as_waiting_running_or_silent(runs):
    heard = timezone.now() - timedelta(seconds=20)
    change = {"state": Work.State.RUNNING, "lease": uuid4(), "heartbeat_at": heard}
    Run.objects.filter(pk=runs[0].pk).update(**change, lease_expires_at=from_now(60))
    Run.objects.filter(pk=runs[1].pk).update(**change, lease_expires_at=from_now(60))
    Run.objects.filter(pk=runs[2].pk).update(
        state=Work.State.RUNNING, lease=uuid4(), lease_expires_at=from_now(-1), heartbeat_at=heard - timedelta(hours=1)
    )
    Run.objects.filter(pk=runs[3].pk).update(held=True, heartbeat_at=timezone.now())
    Run.objects.filter(pk=runs[4].pk).update(state=Work.State.CANCELLED, heartbeat_at=timezone.now())
    assert workers.count_in_queue("gpu") == (1, 2, 1, heard)
    LanguageModel.objects.filter(pk=runs[5].model_id).update(source="hub")
    assert workers.count_in_queue("gpu") == (0, 2, 1, heard), "its files are not here yet"
    assert workers.count_in_queue("default") == (0, 0, 0, None)


def test_a_fleet_is_told_to_programs_whole(monkeypatch):
    now = timezone.now()
    row = Worker.objects.create(name="gpu@here", host="alpha", queues=["gpu"], started_at=now, beat_at=now)
    silent = Worker.objects.create(name="gpu@away", started_at=now, beat_at=now - timedelta(minutes=5))
    queue = workers.Queue("gpu", 3, 2, 1, 0, None)
    busy = workers.Queue("default", 0, 0, 0, 0, now, ["default@here"])
    live = workers.LiveWorker("default@here", ["default"], ["sweep"])
    fleet = workers.Fleet([queue, busy], [live], "", now, [row], [silent])
    answer = fleet.as_json()
    assert answer.pop("known") == {"gpu@here": {name: getattr(row, name) for name in workers.KNOWN}}
    assert answer == {
        "queues": [
            {"name": "gpu", "messages": 3, "waiting": 2, "running": 1, "silent": 0, "heard": None, "workers": []},
            {
                **{"name": "default", "messages": 0, "waiting": 0, "running": 0, "silent": 0, "heard": now},
                "workers": ["default@here"],
            },
        ],
        "workers": [{"name": "default@here", "queues": ["default"], "doing": ["sweep"]}],
        "problem": "",
        "at": now,
        "unattended": ["gpu"],
        "away": {"gpu@away": silent.beat_at.isoformat()},
    }
    assert workers.Fleet([queue], [], "it is away", now).unattended == []
