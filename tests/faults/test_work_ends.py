"""Work always ends, whatever it is given: real workers, hostile models and a hub that asks for patience."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from leaderboard.celery import app
from leaderboard.models import Download, Incident, LanguageModel, Run, Scoring, Work, Worker
from leaderboard.operations.alerts import look
from leaderboard.operations.services.work import cancel_work
from leaderboard.services import leases
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.failures import explain
from leaderboard.services.folders import name_of_model, store_folder
from leaderboard.services.language_models import add_model
from leaderboard.services.queue import sweep
from scoring.language_models import BUNDLED
from scoring.language_models.revisions import folder_revision
from tests.faults.hostile_models import copy_model, with_bomb, with_nothing_finite, with_panic
from tests.faults.worker import stretch, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, MASKED, metric, models  # noqa: F401 (fixtures)
from tests.standin_hub import StandInHub

ASKING_SECONDS = 1.0  # that a question to the workers takes

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def run_of(path: Path, metric) -> Run:  # noqa: F811
    """A run of the model in a folder, waiting."""
    return request_evaluation(add_model(str(path))[0], metric).run


def run_past_entry(make: Callable[[Path], Path], path: Path, metric) -> Run:  # noqa: F811
    """A run of a model that would be refused as it is entered."""
    run = run_of(copy_model(path), metric)
    shutil.rmtree(path)
    LanguageModel.objects.filter(pk=run.model_id).update(revision=folder_revision(make(path)))
    store_folder(name_of_model(run.model), path)
    return run


def again(work: Work) -> Work:
    work.refresh_from_db()
    return work


def test_hostile_models_fail_with_words_and_the_same_worker_ranks_the_next_honest_one(metric, models, tmp_path):  # noqa: F811
    bomb = run_past_entry(with_bomb, tmp_path / "bomb", metric)
    panic = run_past_entry(with_panic, tmp_path / "panic", metric)
    nothing = run_of(with_nothing_finite(tmp_path / "nothing"), metric)
    honest = request_evaluation(models[CAUSAL], metric)
    # A lease that outlasts the stalls of a busy machine: one that runs out is another attempt, and rightly counts.
    with worker(WORKER_MEMORY_GB="1.5", LEASE_SECONDS="60") as process:
        for run in (bomb, panic, nothing):
            wait_until(lambda run=run: again(run).state == Work.State.FAILED)
        wait_until(lambda: again(honest).state == Work.State.DONE)
        assert process.poll() is None  # the worker that all of them went through
        wait_until(lambda: Worker.objects.exclude(cage=[]).exists())
    assert "normalizer Replace" in bomb.reason
    assert "pre-tokenizer 'FixedLength'" in panic.reason
    assert (bomb.attempts, panic.attempts) == (1, 1)
    texts = nothing.protocol.evaluation_set.artefact.rows
    assert nothing.reason == f"nothing gives no finite likelihood for {texts} of {texts} texts"
    assert explain(nothing).what == f"{nothing.reason}."
    assert (nothing.attempts, Scoring.objects.get(run=nothing).attempts) == (1, 0)  # collected once, never scored


def cage_of(worker_process: int) -> int | None:
    """The process that a worker's cage runs a model in; None before there is one."""
    zygotes = children_of(worker_process, "scoring.cage.zygote")
    innermost = zygotes[0] if zygotes else None
    depth = 0
    while innermost and (children := children_of(innermost, "scoring.cage.zygote")):
        innermost, depth = children[0], depth + 1
    return innermost if depth > 1 else None


def test_a_cage_that_dies_costs_an_attempt_and_no_worker(metric, models):  # noqa: F811
    run = request_evaluation(models[MASKED], metric).run
    with worker(SHARD_TEXTS="8") as process:
        wait_until(lambda: again(run).done > 0)
        os.kill(cage_of(process.pid), signal.SIGABRT)
        wait_until(lambda: bool(again(run).fault) or run.state == Work.State.DONE)
        assert (run.state, run.fault, run.attempts) == (Work.State.QUEUED, "CageDied", 1)
        assert "signal 6, it aborted" in run.reason
        wait_until(lambda: again(run).state == Work.State.DONE)
        assert process.poll() is None


def test_work_whose_workers_die_without_a_word_is_given_up_after_the_allowed_attempts(metric, models, settings):  # noqa: F811
    settings.MOST_ATTEMPTS = 3
    run = request_evaluation(models[CAUSAL], metric, send=False).run
    for number in range(1, 4):
        lease = leases.Lease(run)
        assert run.claim(lease.id, "gpu@host")
        assert again(run).attempts == number  # counted as it begins: nobody says how this one ends
        Run.objects.filter(pk=run.pk).update(lease_expires_at=Now())
    with leases.claim(run) as lease:
        assert lease is None
    assert (again(run).state, run.fault) == (Work.State.FAILED, "WorkersDied")
    assert "3 attempts began and none came to an end" in run.reason
    assert "gpu@host" in run.reason
    assert explain(run).remedy


@pytest.fixture
def hub(settings, tmp_path, monkeypatch) -> Iterator[StandInHub]:
    """A hub with one model, and workers that ask it."""
    with StandInHub() as running:
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = running.endpoint, None
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
        running.add("someone/small", BUNDLED / CAUSAL)
        yield running


def test_a_hub_that_asks_for_patience_gets_it_and_the_worker_does_something_else(metric, models, hub):  # noqa: F811
    model = add_model("someone/small")[0]
    hub.status, hub.retry_after = 429, 600
    waiting = request_evaluation(model, metric).run
    with worker():
        wait_until(lambda: Download.objects.filter(model=model, not_before__isnull=False).exists())
        download = Download.objects.get(model=model)
        assert 500 < (download.not_before - timezone.now()).total_seconds() <= 600
        assert (download.state, download.attempts, "600 s" in download.reason) == (Work.State.QUEUED, 0, True)
        other = request_evaluation(models[CAUSAL], metric)
        wait_until(lambda: again(other).state == Work.State.DONE)  # nobody slept
        assert again(waiting).state == Work.State.QUEUED
        hub.status = None
        Download.objects.update(not_before=None)
        sweep()
        wait_until(lambda: again(waiting).state == Work.State.DONE)


def test_a_download_that_is_cancelled_or_whose_worker_is_stopped_ends_within_five_seconds(metric, hub):  # noqa: F811
    model = add_model("someone/small")[0]
    hub.delay = 20.0
    run = request_evaluation(model, metric).run
    with worker() as process:
        wait_until(lambda: Download.objects.filter(model=model, state=Work.State.RUNNING).exists())
        cancel_work(run)
        began = time.monotonic()
        wait_until(lambda: not children_of(process.pid, "scoring.language_models.fetching"), 10)
        assert time.monotonic() - began < stretch(5)
        assert Download.objects.get(model=model).state == Work.State.CANCELLED
        run.queue_again()
        request_evaluation(model, metric)
        wait_until(lambda: Download.objects.filter(model=model, state=Work.State.RUNNING).exists())
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: Download.objects.get(model=model).state == Work.State.QUEUED, 5)
        assert process.wait(timeout=stretch(30)) == 0


def test_a_worker_that_is_stopped_as_it_starts_ends_in_order():
    with worker() as process:
        wait_until(Worker.objects.exists)
        process.send_signal(signal.SIGTERM)  # while it measures how fast its host is
        assert process.wait(timeout=stretch(60)) == 0


def children_of(process: int, words: str) -> list[int]:
    """Processes that this one started and whose command line has these words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if parent == process and words in command:
            found.append(int(folder.name))
    return found


def test_a_run_that_is_cancelled_ends_within_five_seconds(metric, tmp_path):  # noqa: F811
    run = run_of(copy_model(tmp_path / "slow"), metric)
    with worker(SHARD_TEXTS="100000") as process:
        wait_until(lambda: again(run).state == Work.State.RUNNING)
        cancel_work(run)
        began = time.monotonic()
        wait_until(lambda: not is_collecting(), 10)
        assert time.monotonic() - began < stretch(5) + ASKING_SECONDS
        assert process.poll() is None
    assert again(run).state == Work.State.CANCELLED


def is_collecting() -> bool:
    """Whether a worker is at a run; one that does not answer may be."""
    answers = app.control.inspect(timeout=ASKING_SECONDS).active()
    if not answers:
        return True
    return any(task["name"] == "leaderboard.tasks.collect_run" for tasks in answers.values() for task in tasks)


def test_a_stuck_worker_is_an_incident_until_it_is_restarted(metric, models, settings, monkeypatch):  # noqa: F811
    monkeypatch.setattr(leases, "STUCK_SECONDS", 0.2)
    monkeypatch.setattr(leases, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(leases, "worker_name", lambda: "gpu@host")
    settings.NO_PROGRESS_SECONDS = 0.2
    Worker.objects.create(name="gpu@host", queues=["gpu"], started_at=timezone.now(), beat_at=timezone.now())
    run = request_evaluation(models[CAUSAL], metric, send=False).run
    with leases.claim(run) as lease:
        assert lease
        wait_until(lambda: bool(Worker.objects.get().stuck_at), 10)  # no progress: its claim is not kept for it
        look()
        incident = Incident.objects.get(kind=Incident.Kind.STUCK)
        assert "gpu@host is stuck at" in incident.summary
        assert incident.path.endswith("/operate/workers/")
        with pytest.raises(leases.LeaseLost):
            lease.check()
    assert not Worker.objects.get().stuck_at
    look()
    incident.refresh_from_db()
    assert incident.resolved_at


def test_a_worker_that_is_told_to_end_gives_its_work_back_and_ends(metric, models):  # noqa: F811
    with worker() as process:
        wait_until(lambda: Worker.objects.exclude(cage=[]).exists())
        name = Worker.objects.get().name
        app.control.broadcast("end_worker", destination=[name])
        process.wait(timeout=stretch(20))
    assert not Worker.objects.filter(name=name).exists()
