"""Hosts whose clocks are ten minutes off, before and after: nothing that a board decides goes by them. For real."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from leaderboard.celery import app
from leaderboard.models import Incident, LanguageModel, Metric, Result, Scoring, Work, Worker
from leaderboard.models.clock import database_now, from_now
from leaderboard.operations.alerts import look
from leaderboard.services import workers
from leaderboard.services.evaluate import request_evaluation
from tests.faults.test_second_host import own_lexicon  # noqa: F401 (a fixture)
from tests.faults.worker import ROOT, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, models  # noqa: F401 (a fixture)

TEN_MINUTES = 600.0  # seconds
PAUSE = 20.0  # seconds
QUEUES = "default,gpu"

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def test_hosts_ten_minutes_fast_and_slow_do_the_same_work_once_and_at_the_same_time(
    own_lexicon: Metric,  # noqa: F811
    models: dict[str, LanguageModel],  # noqa: F811
    tmp_path: Path,
):
    if connection.vendor == "sqlite":
        pytest.skip("a board on SQLite has one host, whose clock is the database's")
    early = request_evaluation(models[CAUSAL], own_lexicon)
    late = request_evaluation(models[OTHER_CAUSAL], own_lexicon)
    type(late.run).objects.filter(pk=late.run_id).update(not_before=from_now(PAUSE), enqueued_at=None)
    late.run.refresh_from_db()
    storage = {"PLUMBLINE_VAR": str(settings.VAR), "CHECK_SECONDS": "86400"}
    with (
        worker(QUEUES, "fast", TEN_MINUTES, **storage, PLUMBLINE_HOST="fast"),
        worker(QUEUES, "slow", -TEN_MINUTES, **storage, PLUMBLINE_HOST="slow"),
    ):
        wait_until(lambda: Scoring.objects.get(pk=early.pk).state == Work.State.DONE)
        wait_until(lambda: Worker.objects.alive().count() == 2)
        wait_until(lambda: {row.name.partition("@")[0] for row in workers.look(5.0).workers} == {"fast", "slow"})
        wait_until(lambda: Scoring.objects.get(pk=late.pk).state == Work.State.DONE)
        look()
    began = type(late.run).objects.get(pk=late.run_id).started_at
    late_by = (began - late.run.not_before).total_seconds()
    assert 0 <= late_by < 300, f"begun {late_by:.1f} s after its time: the clock of a host, ten minutes off, decided"
    for scoring in Scoring.objects.select_related("run"):
        assert (scoring.attempts, scoring.run.attempts) == (0, 0)
        moments = [scoring.run.started_at, scoring.run.finished_at, scoring.started_at, scoring.finished_at]
        assert moments == sorted(moments)
        assert scoring.created_at <= moments[0]
        assert moments[-1] <= database_now()
    assert Result.objects.filter(scoring=early).count() == Result.objects.filter(scoring=late).count() > 0
    assert not Incident.objects.exists()


def test_a_program_of_these_tests_has_a_clock_that_is_off_and_a_stopwatch_that_is_right(tmp_path: Path):
    (tmp_path / "tell.py").write_text(
        "import datetime, time\nbegan = time.monotonic()\ntime.sleep(0.01)\n"
        "print(time.time(), datetime.datetime.now().timestamp(), time.monotonic() - began)"
    )
    for offset in (TEN_MINUTES, -TEN_MINUTES):
        command = [sys.executable, "-m", "tests.faults.shifted_clock", str(offset), "tell"]
        output = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=True, stdout=subprocess.PIPE
        ).stdout
        *moments, seconds = map(float, output.split())
        assert moments == pytest.approx([time.time() + offset] * 2, abs=60)
        assert 0.01 <= seconds < 60
