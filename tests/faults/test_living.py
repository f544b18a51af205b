"""Workers that are killed in the middle of a check and of a rescoring, and a broker that forgets."""

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from leaderboard.celery import app
from leaderboard.models import ControlCheck, LanguageModel, Metric, Rescoring, Scoring, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.checks import perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.queue import FORGOTTEN_AFTER
from leaderboard.services.rescore import open_rescoring
from scoring.artefacts import SCORE
from tests import standin_perspective
from tests.faults.worker import NO_CAGES, wait_until, worker
from tests.leaderboard.living import drain, entrant, names_of, numbers_of, small_metric

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]

ENTRANTS = 6
ENDINGS_BEFORE, ENDINGS_AFTER = "rain\nsea\n", "rain\ntrain\nmorning\nafter\nnoon\n"


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


@pytest.fixture
def lexicon(settings: Any, tmp_path: Path) -> Path:
    """A lexicon of the board's own, in the folder where workers in other processes look for it."""
    settings.SCORERS = tmp_path / "scorers"
    folder: Path = settings.SCORERS / "lexicon" / "own"
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text(ENDINGS_BEFORE)
    scorers.look_again()
    return folder


def workers_see(folder: Path) -> dict[str, str]:
    return {"PLUMBLINE_SCORERS": str(folder.parent.parent)}


def board_of(metric: Metric) -> Metric:
    for number in range(ENTRANTS):
        model = LanguageModel.objects.filter(slug=f"entrant-{number}").first() or entrant(number, metric)
        request_evaluation(model, metric, send=False)
    drain()
    return metric


def undisturbed(folder: Path, tmp_path: Path) -> list[Any]:
    """The numbers of a fresh board of the scorer as it is now."""
    (folder.parent / "same").symlink_to(folder)
    fresh = board_of(small_metric(tmp_path, "fresh", "lexicon:same", "lexicon_frequency"))
    return numbers_of(fresh.current_version())


def killed_when(condition: Callable[[], bool], **environment: str) -> None:
    with worker(NO_CAGES, **environment) as process:
        wait_until(condition)
        process.send_signal(signal.SIGKILL)
        process.wait()


def published(metric: Metric, number: int) -> bool:
    version = metric.current_version()
    return version is not None and version.number == number


def test_a_rescoring_outlives_workers_that_are_killed_and_a_broker_that_forgets(lexicon, tmp_path):
    metric = board_of(small_metric(tmp_path, "of-a-lexicon", "lexicon:own", "lexicon_frequency"))
    before = numbers_of(metric.current_version())
    (lexicon / "words.txt").write_text(ENDINGS_AFTER)
    check = request_check(metric, "manual", send=False)
    perform(check)
    rescoring = Rescoring.objects.get()
    done = rescoring.to_version.scorings.filter(state=Work.State.DONE)
    for least in (1, 3):
        killed_when(lambda least=least: done.count() >= least, **workers_see(lexicon), LEASE_SECONDS="2")
        app.control.purge()  # and the broker has lost whatever it had, some time ago
        Scoring.objects.update(enqueued_at=timezone.now() - timedelta(seconds=FORGOTTEN_AFTER + 1))
        rescoring.refresh_from_db()
        if rescoring.state == Rescoring.State.RUNNING:
            assert numbers_of(metric.current_version()) == before
    with worker(NO_CAGES, **workers_see(lexicon), LEASE_SECONDS="2"):
        wait_until(lambda: published(metric, 2))
    new = metric.current_version()
    assert names_of(new) == {f"entrant-{number}" for number in range(ENTRANTS)}
    assert Scoring.objects.filter(metric_version=new).count() == ENTRANTS
    assert numbers_of(new) == undisturbed(lexicon, tmp_path) != before
    assert numbers_of(metric.versions.get(number=1)) == before


def test_a_worker_killed_in_the_middle_of_a_check_and_of_a_scoring_changes_no_number(settings, tmp_path):
    with standin_perspective.serving() as service:
        slow = {
            "PERSPECTIVE_API_KEY": standin_perspective.KEY,
            "PERSPECTIVE_URL": service.address,
            "PERSPECTIVE_REQUESTS_PER_SECOND": "30",
            "SHARD_SCORES": "8",
            "LEASE_SECONDS": "2",
        }
        faster = slow | {"PERSPECTIVE_REQUESTS_PER_SECOND": "500"}
        quick = {"PERSPECTIVE_REQUESTS_PER_SECOND": 2000.0, "SHARD_SCORES": 8, "LEASE_SECONDS": 60.0}
        for name, value in (slow | quick).items():
            setattr(settings, name, value)
        metric = small_metric(tmp_path, "of-perspective", "perspective")
        for number in range(2):
            request_evaluation(entrant(number, metric), metric, send=False)
        drain()
        before = numbers_of(metric.current_version())

        check = request_check(metric, "manual", send=False)
        service.requests.clear()
        killed_when(lambda: len(service.requests) >= 10, **slow)
        assert ControlCheck.objects.get(pk=check.pk).state == Work.State.RUNNING
        with worker(NO_CAGES, **faster):
            wait_until(lambda: ControlCheck.objects.get(pk=check.pk).state == Work.State.DONE)
        check.refresh_from_db()
        scores, reference = (artefacts.load(of) for of in (check.artefact, check.control_set.reference))
        assert check.verdict == "stable"
        columns = ["id", *(name for name in scores.column_names if name.startswith(SCORE))]
        assert scores.select(columns).equals(reference.select(columns))
        texts = len(set(service.texts))
        assert texts <= len(service.requests) <= texts + 8  # what was answered is not asked again

        open_rescoring(metric, "to be sure")
        service.requests.clear()
        killed_when(lambda: len(service.requests) >= 12, **slow)
        assert published(metric, 1)
        assert numbers_of(metric.current_version()) == before
        with worker(NO_CAGES, **faster):
            wait_until(lambda: published(metric, 2))
        assert numbers_of(metric.current_version()) == before
