"""The broker is a hint: whatever is lost there, the sweeper finds in the database."""

from datetime import timedelta
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from leaderboard import tasks
from leaderboard.celery import app
from leaderboard.models import Download, LanguageModel, Run, Scoring, ServiceCheck, Succession, Work
from leaderboard.models.clock import from_now
from leaderboard.services import downloads, queue
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.signs_of_life import count_waiting
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL

pytestmark = pytest.mark.django_db


def lose_messages() -> None:
    """Empty both queues of the broker."""
    with app.connection_for_write() as connection:
        for name in ("default", "gpu"):
            connection.default_channel.queue_purge(name)


@pytest.fixture
def sent(monkeypatch):
    messages = []
    lose_messages()
    monkeypatch.setattr(app, "send_task", lambda name, args=(): messages.append((name, *args)))
    return messages


def enqueue_run(model, metric) -> None:
    queue.enqueue(request_evaluation(model, metric, send=False).run)


@pytest.fixture
def run(metric, models):
    return request_evaluation(models[CAUSAL], metric).run


def test_the_effective_celery_configuration_is_what_the_design_asks_for():
    assert app.conf.task_serializer == "json"
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_acks_late is True
    assert app.conf.task_reject_on_worker_lost is True
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.amqp.router.route({}, "leaderboard.tasks.collect_run")["queue"].name == "gpu"
    assert app.amqp.router.route({}, "leaderboard.tasks.score_run")["queue"].name == "default"
    assert app.conf.beat_schedule["watch"]["task"] == "leaderboard.tasks.watch"
    slice_seconds = django_settings.SLICE_SECONDS
    assert slice_seconds < app.conf.broker_transport_options["visibility_timeout"]


@pytest.mark.parametrize(
    ("seconds", "messages"),
    [(0, [{}]), (-1, [{}]), (0.5, [{"countdown": 0.5}]), (300, [{"countdown": 300}]), (301, [])],
)
def test_work_that_pauses_is_sent_for_its_time_unless_that_is_far_away(run, monkeypatch, seconds, messages):
    calls = []
    monkeypatch.setattr(app, "send_task", lambda _name, args=(), **options: calls.append(options))
    queue.wake(run, seconds)
    assert calls == messages


def test_only_files_of_hub_models_that_a_run_waits_for_are_fetched(run, metric, models, sent):
    waiting_run = request_evaluation(models[OTHER_CAUSAL], metric).run
    LanguageModel.objects.filter(pk=waiting_run.model_id).update(source=LanguageModel.Source.HUB)
    queue.sweep()
    assert Download.objects.get().model == waiting_run.model
    Download.objects.all().delete()
    Run.objects.filter(pk=waiting_run.pk).update(state=Work.State.FAILED, reason="it broke")
    queue.sweep()
    assert not Download.objects.exists()


def test_a_run_of_a_hubs_model_is_given_to_a_worker_once_its_files_are_here(run):
    LanguageModel.objects.filter(pk=run.model_id).update(source=LanguageModel.Source.HUB)
    assert not queue.own_work(Run).exists()
    Download.objects.create(model=run.model, state=Work.State.DONE)
    assert queue.own_work(Run).get() == run


@pytest.mark.parametrize("state", [Work.State.FAILED, Work.State.CANCELLED])
def test_a_download_that_a_run_waits_for_and_nobody_queued_is_queued(run, sent, state):
    LanguageModel.objects.filter(pk=run.model_id).update(source=LanguageModel.Source.HUB)
    download = Download.objects.create(model=run.model, state=state, reason="no run waits for it", attempts=3)
    assert queue.sweep() == 1
    download.refresh_from_db()
    assert (download.state, download.attempts) == (Work.State.QUEUED, 0)
    assert sent == [("leaderboard.tasks.fetch_model", download.pk)]


def test_a_download_whose_every_attempt_killed_its_worker_fails_the_runs_that_wait_for_it(run, settings):
    LanguageModel.objects.filter(pk=run.model_id).update(source=LanguageModel.Source.HUB)
    Run.objects.update(held=True, not_before=from_now(3600))
    download = Download.objects.create(model=run.model, attempts=settings.MOST_ATTEMPTS)
    downloads.fetch(download)
    run.refresh_from_db()
    assert run.state == Work.State.FAILED
    assert f"{settings.MOST_ATTEMPTS} attempts began and none came to an end" in run.reason


def test_of_work_that_was_sent_only_what_the_broker_lacks_is_read(metric, models, sent, monkeypatch):
    for model in (models[CAUSAL], models[OTHER_CAUSAL], models[MASKED]):
        request_evaluation(model, metric, send=False)
    Run.objects.update(enqueued_at=from_now(-60))
    monkeypatch.setattr(queue, "count_messages", lambda *names: dict.fromkeys(names, 2))
    from_db = Mock(side_effect=Run.from_db)
    monkeypatch.setattr(Run, "from_db", from_db)
    assert queue.sweep() == 1
    assert sent == [("leaderboard.tasks.collect_run",)]
    assert from_db.call_count == 1


@pytest.mark.parametrize(("task", "kind"), [(tasks.collect_run, Run), (tasks.score_run, Scoring)])
def test_a_worker_that_has_become_free_calls_for_more_of_the_same_work(task, kind, db, monkeypatch):
    kinds: list[type[Work]] = []
    monkeypatch.setattr(queue, "call_for_more", kinds.append)
    task()
    assert kinds == [kind]


def test_work_that_was_never_sent_is_sent_once(run, sent):
    Run.objects.update(enqueued_at=None)
    assert queue.sweep() == 1
    assert sent == [("leaderboard.tasks.collect_run",)]
    assert queue.sweep() == 0


def test_work_whose_worker_fell_silent_is_sent_again(run, sent):
    now = timezone.now()
    Run.objects.update(
        state=Work.State.RUNNING,
        lease=uuid4(),
        enqueued_at=now - timedelta(seconds=30),
        lease_expires_at=now - timedelta(seconds=1),
    )
    assert queue.sweep() == 1
    assert queue.sweep() == 0


def test_work_whose_worker_fell_silent_a_moment_ago_is_sent_at_once(run, sent):
    change = {"state": Work.State.RUNNING, "lease": uuid4()}
    Run.objects.update(**change, enqueued_at=from_now(-1), lease_expires_at=from_now(-0.5))
    assert queue.sweep() == 1


def test_work_that_was_given_back_a_moment_ago_is_sent_at_once(run, sent):
    Run.objects.update(enqueued_at=from_now(-1), heartbeat_at=from_now(-0.5))
    assert queue.sweep() == 1


def test_what_is_sent_is_noted_of_that_work_alone(run, metric, models, sent):
    other = request_evaluation(models[OTHER_CAUSAL], metric, send=False).run
    Run.objects.update(enqueued_at=None)
    assert queue.enqueue(run)
    run.refresh_from_db()
    other.refresh_from_db()
    assert abs(run.enqueued_at - timezone.now()) < timedelta(minutes=1)
    assert other.enqueued_at is None


def test_the_messages_that_a_queue_lacks_are_sent_once_for_all_kinds_of_its_work(metric, models, sent, monkeypatch):
    check = ServiceCheck.objects.create(model=models[CAUSAL], trigger="schedule")
    succession = Succession.objects.create(metric=metric, scorer="profanity", successor="lexicon:starter")
    for work, age in ((check, 60), (succession, 90)):
        type(work).objects.update(enqueued_at=from_now(-age))
    monkeypatch.setattr(queue, "count_messages", lambda *names: dict.fromkeys(names, 1))
    assert queue.sweep() == 1
    assert sent == [("leaderboard.tasks.compare_successor", succession.pk)]


@pytest.mark.slow
def test_work_that_a_living_worker_holds_is_left_alone(run, sent):
    now = timezone.now()
    Run.objects.update(
        state=Work.State.RUNNING,
        lease=uuid4(),
        enqueued_at=now - timedelta(hours=1),
        lease_expires_at=now + timedelta(seconds=30),
    )
    assert queue.sweep() == 0


def test_work_whose_message_led_to_nothing_is_sent_again_after_a_while(run, sent):
    Run.objects.update(enqueued_at=timezone.now() - timedelta(seconds=queue.FORGOTTEN_AFTER + 1))
    assert queue.sweep() == 1


def test_work_that_waits_long_keeps_its_message_and_gets_no_other(metric, models):
    lose_messages()
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        enqueue_run(models[name], metric)
    long_ago = timezone.now() - timedelta(seconds=queue.FORGOTTEN_AFTER + 1)
    Run.objects.update(enqueued_at=long_ago)
    assert queue.sweep() == 0, "three messages for three runs"
    lose_messages()
    assert queue.sweep() == 3, "the broker lost them"
    Run.objects.update(enqueued_at=long_ago)
    assert queue.sweep() == 0
    lose_messages()


def test_work_that_waits_for_its_next_attempt_is_left_alone_until_then(run, sent):
    now = timezone.now()
    Run.objects.update(enqueued_at=now - timedelta(hours=1), not_before=now + timedelta(seconds=60))
    assert queue.sweep() == 0
    Run.objects.update(not_before=now - timedelta(seconds=1))
    assert queue.sweep() == 1


def test_a_scoring_is_sent_only_once_its_run_is_done(run, sent):
    run.scorings.update(enqueued_at=None)
    Run.objects.update(enqueued_at=timezone.now())
    assert queue.sweep() == 0


def test_a_broker_that_is_down_loses_nothing(run, monkeypatch):
    from kombu.exceptions import OperationalError

    def down(*_args, **_kwargs):
        raise OperationalError("nobody listens")

    monkeypatch.setattr(app, "send_task", down)
    Run.objects.update(enqueued_at=None)
    assert queue.sweep() == 0
    assert Run.objects.get().enqueued_at is None


def test_work_waits_from_the_moment_that_it_is_ready(run, sent):
    assert (count_waiting()["gpu"], count_waiting(60.0)["gpu"]) == (1, 0)


class Ended(Exception):
    """Nothing more is to be swept."""


def test_a_sweep_is_noted_when_it_was_done_and_one_that_fails_is_followed_by_the_next(monkeypatch):
    events: list[str] = []
    failures = iter([OSError("the broker is away"), None])

    def sweep() -> None:
        if failure := next(failures):
            raise failure
        events.append("sweep")

    def pause(_seconds: float) -> None:
        events.append("pause")
        if events.count("pause") == 3:
            raise Ended

    monkeypatch.setattr(queue, "sweep", sweep)
    monkeypatch.setattr(queue, "time", Mock(sleep=pause))
    monkeypatch.setattr(queue, "connection", Mock())
    with pytest.raises(Ended):
        queue.keep_sweeping(lambda: events.append("note"))
    assert events == ["pause", "pause", "sweep", "note", "pause"]
