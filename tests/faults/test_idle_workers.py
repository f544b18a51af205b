"""Work does not wait beside idle workers: measured by the events of the database, over a whole run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leaderboard.celery import app
from leaderboard.models import LanguageModel, Metric, Run, Scoring
from leaderboard.services import scorers
from leaderboard.services.checks import request_check
from leaderboard.services.evaluate import request_evaluation
from tests.faults.worker import wait_until, worker
from tests.idle import Idleness, log_work, measure_idleness, stop_logging
from tests.leaderboard.living import entrant, small_metric

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

ENTRANTS, WORKERS = 8, 2  # threads of the one worker process
GOAL = 2.0  # seconds
ENDINGS_BEFORE, ENDINGS_AFTER = "rain\nsea\n", "rain\ntrain\nmorning\nafter\nnoon\n"


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def published(metric: Metric, number: int) -> bool:
    version = metric.current_version()
    return version is not None and version.number == number


def run_undisturbed(metric: Metric, lexicon: Path, models: list[LanguageModel]) -> Idleness:
    """All models are evaluated, the lexicon changes, and all are rescored; nothing goes wrong."""
    environment = {"PLUMBLINE_SCORERS": str(lexicon.parent.parent), "SWEEP_SECONDS": "2", "OPENING_REPLICATES": "3"}
    with worker(**environment):
        first = request_evaluation(models[0], metric)
        wait_until(lambda: Scoring.objects.get(pk=first.pk).state == "done")
        log_work()
        for model in models[1:]:
            request_evaluation(model, metric)
        wait_until(lambda: Scoring.objects.filter(state="done").count() == len(models))
        (lexicon / "words.txt").write_text(ENDINGS_AFTER)
        request_check(metric, "manual")
        wait_until(lambda: published(metric, 2))
    return measure_idleness(WORKERS)


def test_in_an_undisturbed_run_no_work_waits_beside_an_idle_worker(settings: Any, tmp_path):
    settings.SCORERS = tmp_path / "scorers"
    folder: Path = settings.SCORERS / "lexicon" / "own"
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text(ENDINGS_BEFORE)
    scorers.look_again()
    metric = small_metric(tmp_path, "of-a-lexicon", "lexicon:own", "lexicon_frequency")
    models = [entrant(number, metric) for number in range(ENTRANTS)]
    try:
        idleness = run_undisturbed(metric, folder, models)
    finally:
        stop_logging()
    assert Run.objects.count() == ENTRANTS
    assert idleness.span > 0
    assert idleness.longest <= GOAL, idleness
