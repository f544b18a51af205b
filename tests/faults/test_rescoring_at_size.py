"""A rescoring of the size that boards have, while workers, broker and database connections are killed at random."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from django.conf import settings as board
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone

from leaderboard import tasks
from leaderboard.celery import app
from leaderboard.models import AuditEvent, LanguageModel, Metric, Rescoring, Run, Scoring, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.checks import perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import import_own_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.queue import FORGOTTEN_AFTER
from leaderboard.services.rescore import open_rescoring
from scoring.metrics.kinds import Collected
from scoring.metrics.measures import Measurement
from tests.environment import broker
from tests.faults.worker import NO_CAGES, wait_until, worker
from tests.leaderboard.continuations import written
from tests.leaderboard.living import deliver

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="boards of that size run on PostgreSQL: tested there"),
]

ENTRANTS, PROMPTS, K = 200, 160, 25
EVERYDAY = (
    "rain sea train noon left smile morning after boat bridge garden table letter coast village recipe cup gate museum "
    "water window street paper chair cloud river market apple door song"
)
WORDS = EVERYDAY.split()
BEFORE, AFTER = {"rain", "sea"}, {"rain", "train", "noon", "market"}
FAULTS = 4 * ["worker"] + 2 * ["all workers"] + 3 * ["broker"] + 4 * ["database"]
SEED = 5
LONGEST = 240.0  # seconds to wait for two hundred entries, on a busy machine


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
    write(folder, BEFORE)
    return folder


def write(folder: Path, terms: set[str]) -> None:
    (folder / "words.txt").write_text("\n".join(sorted(terms)) + "\n")
    scorers.look_again()


def declared(folder: Path) -> Metric:
    """The metric: a lexicon on continuations of prompts."""
    records = [
        {
            "filename": f"{number:04}.txt",
            "begin": 0,
            "end": 9,
            "challenging": False,
            "prompt": {"text": f"On page {number} of the book the", "toxicity": 0.1},
            "continuation": {"text": " story goes on.", "toxicity": 0.1},
        }
        for number in range(PROMPTS)
    ]
    path = written(folder / "prompts.jsonl", records)
    prompts = import_own_prompts("book-pages", "Book pages", "CC0", path)[0]
    return declare_metric(Declaration("words", "Words", "lexicon:own", "lexicon_frequency", "rtp", {"k": K}), prompts)


def entrant(number: int, metric: Metric, ids: list[str]) -> LanguageModel:
    """A model whose continuations are collected already: everyday words, some of which it prefers."""
    generator = np.random.default_rng(number)
    preferred = generator.dirichlet(np.ones(len(WORDS)))
    drawn = np.array(WORDS, dtype=object)[generator.choice(len(WORDS), (6, PROMPTS * K), p=preferred)]
    texts = (" " + drawn).sum(axis=0)
    rows = PROMPTS * K
    table = pa.table(
        {
            "prompt_id": np.repeat(ids, K),
            "index": pa.array(np.tile(np.arange(K), PROMPTS), pa.int32()),
            "text": pa.array(texts, pa.string()),
            "n_tokens": pa.array(np.full(rows, 6), pa.int32()),
            "finish": pa.repeat("length", rows),
            "error": pa.nulls(rows, pa.string()),
            "truncated": pa.repeat(False, rows),
            "log_perplexity": pa.nulls(rows, pa.float64()),
        }
    )
    model = LanguageModel.objects.create(
        slug=f"entrant-{number}",
        name=f"Entrant {number}",
        kind=LanguageModel.Kind.CAUSAL,
        source=LanguageModel.Source.LOCAL,
        location=f"/models/entrant-{number}",
        revision=f"sha256:{number:064}",
    )
    artefact = artefacts.store(table, "continuations")
    Run.objects.create(model=model, protocol=metric.protocol, state=Work.State.DONE, artefact=artefact)
    return model


class Machines:
    """Two workers, the broker and the database's connections, each of which can be lost."""

    def __init__(self, stack: ExitStack, generator: np.random.Generator, **environment: str) -> None:
        self.stack, self.generator, self.environment = stack, generator, environment
        self.workers: list[tuple[ExitStack, subprocess.Popen[bytes]]] = []
        self.start()
        self.start()

    def start(self) -> None:
        one = self.stack.enter_context(ExitStack())
        self.workers.append((one, one.enter_context(worker(NO_CAGES, **self.environment))))

    def lose_worker(self) -> None:
        self._kill([self.workers.pop(int(self.generator.integers(len(self.workers))))])

    def lose_all_workers(self) -> None:
        lost, self.workers = self.workers, []
        self._kill(lost)

    def _kill(self, lost: list[tuple[ExitStack, subprocess.Popen[bytes]]]) -> None:
        for _, process in lost:
            process.send_signal(signal.SIGKILL)
        for one, _ in lost:
            one.close()  # and its beat with it
            self.start()

    def lose_broker(self) -> None:
        """Kill it for a second; what it had is lost."""
        broker.terminate()
        time.sleep(1)
        broker.start()
        # The sweeper takes messages for lost after a while: let it have passed.
        long_ago = timezone.now() - timedelta(seconds=FORGOTTEN_AFTER + 1)
        Scoring.objects.unfinished().update(enqueued_at=long_ago)

    def lose_database(self) -> None:
        """End all connections but this one."""
        wait_until(lambda: connections_ended() > 0)  # workers that just start may have none yet


def connections_ended() -> int:
    """How many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def measured(scoring: Scoring, texts: pa.Table) -> list[Measurement]:
    """What the formula makes of the entry's outputs, in this process and without a database."""
    outputs = artefacts.load(scoring.run.artefact)
    scorer = scorers.scorer_for("lexicon:own", "3")
    found = scorer.score(outputs["text"].to_pylist())
    scores = scorers.scores_table(outputs["prompt_id"].to_pylist(), found, scorer.attribute_names)
    return scoring.metric_version.metric.formula.measure(
        Collected(texts, outputs, scores, attributes=scorer.attributes)
    )


def left_in_shards() -> list[str]:
    """Checkpoints on the storage."""
    folders = default_storage.listdir("shards")[0] if default_storage.exists("shards") else []
    return [f"{folder}/{name}" for folder in folders for name in default_storage.listdir(f"shards/{folder}")[1]]


def published(metric: Metric, number: int) -> bool:
    version = metric.current_version()
    return version is not None and version.number == number


@pytest.mark.longest
def test_two_hundred_entries_are_rescored_once_each_whatever_is_killed_meanwhile(lexicon, tmp_path, capsys):
    began = time.monotonic()
    generator = np.random.default_rng(SEED)
    metric = declared(tmp_path)
    texts = artefacts.load(metric.protocol.evaluation_set.artefact)
    models = [entrant(number, metric, texts["id"].to_pylist()) for number in range(ENTRANTS)]
    deliver(request_evaluation(models[0], metric, send=False))
    open_rescoring(metric, "the others are entered together")  # and so are published once
    for model in models[1:]:
        request_evaluation(model, metric, send=False)
    made = time.monotonic()

    with ExitStack() as stack:
        environment = {"PLUMBLINE_SCORERS": str(board.SCORERS), "OMP_NUM_THREADS": "1"}
        machines = Machines(stack, generator, **environment)
        wait_until(lambda: published(metric, 2), LONGEST)
        before = metric.current_version()
        assert list(before.scorings.exclude(state=Work.State.DONE).values_list("model__slug", "reason")) == []
        assert before.standings.values("model").distinct().count() == ENTRANTS
        entered = time.monotonic()

        write(lexicon, AFTER)
        perform(request_check(metric, "manual", send=False))
        rescoring = Rescoring.objects.active().get()
        done = rescoring.to_version.scorings.filter(state=Work.State.DONE)
        moments = np.sort(generator.choice(np.arange(2, ENTRANTS - 10), len(FAULTS), replace=False))
        lost: list[tuple[str, int]] = []
        for least, fault in zip(moments, generator.permutation(FAULTS), strict=True):
            wait_until(lambda least=least: done.count() >= least, LONGEST)
            time.sleep(generator.uniform(0, 0.2))
            assert published(metric, 2)  # readers see the old version whole
            lost.append((str(fault), done.count()))
            getattr(machines, f"lose_{fault.replace(' ', '_')}")()
        wait_until(lambda: published(metric, 3), LONGEST)
        ended = time.monotonic()
    assert all(count < ENTRANTS for _, count in lost)  # all of it happened while there was something to lose

    rescoring.refresh_from_db()
    assert (rescoring.state, rescoring.done, rescoring.total) == (Rescoring.State.PUBLISHED, ENTRANTS, ENTRANTS)
    new = metric.current_version()
    assert new == rescoring.to_version
    assert not new.outdated.exists()
    scorings = list(new.scorings.select_related("model", "run__artefact", "metric_version__metric"))
    assert sorted(scoring.model.slug for scoring in scorings) == sorted(model.slug for model in models)
    assert {scoring.state for scoring in scorings} == {Work.State.DONE}
    for scoring in scorings:
        expected = {(m.measure, m.slice): (m.value, m.ci_low, m.ci_high, m.n) for m in measured(scoring, texts)}
        found = {(r.measure, r.slice): (r.value, r.ci_low, r.ci_high, r.n) for r in scoring.results.all()}
        assert found == expected
        assert scoring.results.count() == len(expected)
    assert set(new.standings.values_list("result__scoring__metric_version", flat=True)) == {new.pk}
    for of_slice in ("any", "words"):
        ranked = new.standings.filter(slice=of_slice, population="all").order_by("rank", "model__slug")
        assert ranked.count() == ENTRANTS
        values = [standing.value for standing in ranked]
        assert values == sorted(values)
    tasks.watch()  # what beat has done every minute: clears up after workers that died before they did
    assert left_in_shards() == []

    events = AuditEvent.objects.filter(subject="metric words").order_by("pk").values_list("verb", "detail")
    told = [(verb, detail.get("version") or detail.get("to")) for verb, detail in events if "control" not in verb]
    assert told[-2:] == [("open rescoring", 3), ("publish version", 3)]
    assert told.count(("publish version", 3)) == 1
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{ENTRANTS} x {PROMPTS * K:,} texts: made {made - began:.0f} s, entered {entered - made:.0f} s, "
            f"rescored {ended - entered:.0f} s, compared {time.monotonic() - ended:.0f} s; lost {lost}"
        )
