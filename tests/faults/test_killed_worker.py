"""A worker that dies, and one that is asked to stop, in the middle of a run."""

import signal
from collections.abc import Callable, Iterator

import pytest
from django.core.files.storage import default_storage

from leaderboard.celery import app
from leaderboard.models import EvaluationSet, Metric, MetricVersion, Run, Scoring, Standing, Work
from leaderboard.services import artefacts
from leaderboard.services.evaluation_sets import declare, import_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.seed import seed_metrics
from scoring.evaluation_sets import build_regard, get
from tests import standin_perspective
from tests.faults.worker import ALL_QUEUES, NO_CAGES, stretch, wait_until, worker
from tests.leaderboard.conftest import CAUSAL, MASKED, finish, metric, models  # noqa: F401 (fixtures)
from tests.leaderboard.continuations import texts_of

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]

SMALL_SHARDS = {"SHARD_TEXTS": "8"}


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


def outcome(scoring: Scoring) -> tuple[str, str, list[tuple[str, str, float]]]:
    run = Run.objects.get(pk=scoring.run_id)
    results = scoring.results.order_by("measure", "slice").values_list("measure", "slice", "value")
    return run.artefact.sha256, Scoring.objects.get(pk=scoring.pk).artefact.sha256, list(results)


def forget_scores(scoring: Scoring) -> None:
    """Forget what was made of the run."""
    Standing.objects.all().delete()
    scoring.results.all().delete()
    Scoring.objects.filter(pk=scoring.pk).update(
        state=Work.State.QUEUED, artefact=None, replicates=None, scored_at=None, finished_at=None, enqueued_at=None
    )
    MetricVersion.objects.filter(pk=scoring.metric_version_id).update(
        prompt_scores=None, status=MetricVersion.Status.CANDIDATE, published_at=None
    )


def start_over(scoring: Scoring) -> None:
    """Forget everything the evaluation led to."""
    forget_scores(scoring)
    Run.objects.filter(pk=scoring.run_id).update(
        state=Work.State.QUEUED, artefact=None, done=0, seconds=0, started_at=None, finished_at=None, enqueued_at=None
    )


def test_workers_that_are_killed_and_stopped_in_the_middle_of_a_run_change_no_number(metric, models, settings):  # noqa: F811
    settings.SHARD_TEXTS = int(SMALL_SHARDS["SHARD_TEXTS"])
    scoring = finish(models[MASKED], metric)  # undisturbed, from start to end
    expected = outcome(scoring)
    start_over(scoring)
    run = scoring.run

    with worker(**SMALL_SHARDS) as killed:
        wait_until(lambda: Run.objects.get(pk=run.pk).done >= 24)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    half = Run.objects.get(pk=run.pk)
    assert half.state == Work.State.RUNNING  # nobody could say goodbye
    assert 0 < half.done < half.total
    kept = [name for name in default_storage.listdir(f"shards/run-{run.pk}")[1] if name.endswith(".parquet")]
    assert len(kept) >= 3
    written = {name: default_storage.get_modified_time(f"shards/run-{run.pk}/{name}") for name in kept}

    with worker(**SMALL_SHARDS, LEASE_SECONDS="600") as stopped:
        wait_until(lambda: Run.objects.get(pk=run.pk).done > half.done)
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(timeout=stretch(30)) == 0
    given_back = Run.objects.get(pk=run.pk)
    assert (given_back.state, given_back.lease) == (Work.State.QUEUED, None)  # at once, and not as its lease ends
    for name, time in written.items():  # what was finished is not done again
        assert default_storage.get_modified_time(f"shards/run-{run.pk}/{name}") == time

    with worker(**SMALL_SHARDS):
        wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
    assert outcome(scoring) == expected


@pytest.fixture
def openings() -> EvaluationSet:
    """Ten openings of sentences, and the metrics that there are."""
    seed_metrics()
    prompts = [prompt for prompt in build_regard() if prompt.group == "women"]
    return import_prompts(declare(get("regard-openings")), prompts[:10])[0]


def of_openings(openings: EvaluationSet, scorer: str, k: int) -> Metric:
    declared = Declaration(f"{scorer}-openings", "Openings", scorer, "toxicity", "rtp", {"k": k})
    return declare_metric(declared, openings)


def killed_when(condition: Callable[[], bool], queues: str = ALL_QUEUES, **environment: str) -> None:
    """Start a worker, and kill it as soon as `condition` holds."""
    with worker(queues, **environment) as process:
        wait_until(condition)
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_worker_killed_twice_while_it_generates_changes_no_byte(openings, models):  # noqa: F811
    # Five shards, of two prompts each.
    scoring = finish(models[CAUSAL], of_openings(openings, "profanity", k=250))
    expected = outcome(scoring)
    start_over(scoring)
    run, folder = scoring.run, f"shards/run-{scoring.run_id}"
    written: list[int] = [0]

    def shards() -> int:
        return len(default_storage.listdir(folder)[1]) if default_storage.exists(folder) else 0

    for _ in range(2):
        killed_when(lambda: shards() > written[-1])
        half = Run.objects.get(pk=run.pk)
        assert (half.state, half.artefact) == (Work.State.RUNNING, None)  # nobody could say goodbye
        written.append(shards())
        assert written[-2] < written[-1] < 5
    with worker():
        wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
    assert outcome(scoring) == expected
    assert shards() == 0


def test_a_worker_killed_while_it_scores_asks_for_little_again_and_changes_no_byte(openings, models, settings):  # noqa: F811
    with standin_perspective.serving() as service:
        slow = {
            "PERSPECTIVE_API_KEY": standin_perspective.KEY,
            "PERSPECTIVE_URL": service.address,
            "PERSPECTIVE_REQUESTS_PER_SECOND": "40",
            "SHARD_SCORES": "20",
        }
        for name, value in (slow | {"PERSPECTIVE_REQUESTS_PER_SECOND": 1000.0, "SHARD_SCORES": 20}).items():
            setattr(settings, name, value)
        scoring = finish(models[CAUSAL], of_openings(openings, "perspective", k=10))
        expected = outcome(scoring)
        distinct = len({*texts_of(scoring.run.artefact), *artefacts.load(openings.artefact)["text"].to_pylist()})
        forget_scores(scoring)
        service.requests.clear()

        # In the middle of the third shard: of the first two nothing is asked again, of this one what was not kept.
        killed_when(lambda: len(service.requests) >= 50, NO_CAGES, **slow)
        half = Scoring.objects.get(pk=scoring.pk)
        assert (half.state, half.artefact, half.results.count()) == (Work.State.RUNNING, None, 0)
        with worker(NO_CAGES, **slow):
            wait_until(lambda: Scoring.objects.get(pk=scoring.pk).state == Work.State.DONE)
            wait_until(lambda: not (settings.VAR / "replies" / f"scoring-{scoring.pk}").exists())
        assert outcome(scoring) == expected
        assert distinct > 100
        assert distinct <= len(service.requests) <= distinct + 8  # those under way as it was killed
