"""Work does not wait beside idle workers: measured by the events of the database, over a whole run."""

from collections.abc import Iterator
from typing import Any

import pytest

from leaderboard.celery import app
from leaderboard.models import Run
from tests.idle import ENTRANTS, GOAL, run_undisturbed

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def test_in_an_undisturbed_run_no_work_waits_beside_an_idle_worker(settings: Any, tmp_path):
    settings.SCORERS = tmp_path / "scorers"
    idleness = run_undisturbed(tmp_path)
    assert Run.objects.count() == ENTRANTS
    assert idleness.span > 0
    assert idleness.longest <= GOAL, idleness
