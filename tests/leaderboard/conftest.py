"""Boards to test on."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from whitenoise.base import WhiteNoise

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Scoring, Work
from leaderboard.services import cages, collect, evaluate, language_models, leases, score
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.language_models import add_bundled
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from scoring.evaluation_sets import build_starter, get
from scoring.language_models import ResolvedModel
from scoring.metrics import instruments
from tests.leaderboard.living import SLUG, entrant, small_metric, standing_in, submit
from tests.leaderboard.storages import bucket_address, object_store, storage, use_host, use_storage  # noqa: F401
from tests.pages import read_page
from tests.rows import Board, Rows, keep_board, load_board, read_board, recall_boards

CAUSAL, OTHER_CAUSAL, MASKED = "plumb-gpt2-l2-h128", "plumb-gpt2-l6-h128", "plumb-bert-l2-h128"


@pytest.fixture(autouse=True)
def _nobody_asked_to_stop() -> Iterator[None]:
    leases.stop_requested.clear()
    yield
    leases.stop_requested.clear()


def quick_control_sets(patch: pytest.MonkeyPatch) -> None:
    """Watch likelihoods with the quicker of the two models."""
    patch.setattr(instruments, "WATCHED_MODELS", instruments.WATCHED_MODELS[:1])


def without_looks(patch: pytest.MonkeyPatch) -> None:
    """Keep heartbeats from looking whether work was cancelled: their connection sees nothing of a test's rows."""
    patch.setattr(leases, "LOOK_EVERY", 3600.0)


@pytest.fixture(autouse=True)
def _without_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    without_looks(monkeypatch)


@pytest.fixture(autouse=True)
def _quick_control_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_control_sets(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _pages_as_they_are_read() -> Iterator[None]:
    """Where a template breaks its lines is nothing to a reader."""
    request = Client.request

    def read(client: Client, **values: Any) -> HttpResponse:
        response = request(client, **values)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming and "Content-Encoding" not in response.headers:
            response.content = read_page(response.content.decode()).encode()
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", read)
        yield


@pytest.fixture(scope="session", autouse=True)
def _static_files() -> Iterator[None]:
    """The static files, collected; they are listed once, where each new client would look at every one of them."""
    call_command("collectstatic", interactive=False, verbosity=0)
    list_files, listed = WhiteNoise.update_files_dictionary, {}

    def list_once(server: WhiteNoise, root: str, prefix: str) -> None:
        if (root, prefix) not in listed:
            list_files(server, root, prefix)
            listed[root, prefix] = dict(server.files)
        server.files.update(listed[root, prefix])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoise, "update_files_dictionary", list_once)
        yield


def starter_metric() -> Metric:
    """Safety on a part of the starter set, ready to measure: three demographics."""
    seed_metrics()
    chosen = [s for s in build_starter() if set(s.demographics) & {"women", "muslim", "latino"}]
    import_sentences(get("starter"), chosen)
    return Metric.objects.get(slug="safety-starter")


@pytest.fixture
def metric(db: None) -> Metric:
    """Safety on a part of the starter set, ready to measure."""
    return starter_metric()


@cache
def resolve_once(*folders: Path) -> list[ResolvedModel]:
    """What the folders of bundled models hold, read by each process once: opening a cage takes a second."""
    return cages.resolve_folders(list(folders))


@pytest.fixture
def models(db: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, LanguageModel]:
    """The bundled models by name."""
    monkeypatch.setattr(language_models, "resolve_folders", lambda folders: resolve_once(*folders))
    return {model.name: model for model in add_bundled()}


@cache
def figures() -> Board:
    """The rows of an empty board with its metrics and the published figures, read once by each process."""

    def build() -> None:
        seed_metrics()
        seed_published()

    return keep_board(build)


def seed_figures() -> None:
    """Declare the metrics and enter all published figures; quickly on a board that is empty."""
    if Metric.objects.exists():
        seed_metrics()
        seed_published()
    else:
        load_board(figures())


@pytest.fixture(scope="session")
def published_rows(django_db_setup: None, django_db_blocker: Any, kept_boards: Path) -> Board:
    """The rows of `published`."""

    def build() -> None:
        starter_metric()
        seed_published()

    with django_db_blocker.unblock():
        return recall_boards(kept_boards, "published", lambda: [keep_board(build)])[0]


@pytest.fixture
def published(published_rows: Board, db: None) -> None:
    """A board with the starter set's metric, and the published figures, and nothing measured."""
    load_board(published_rows)


def finish(model: LanguageModel, metric: Metric):
    """Do, in this process, what the workers would."""
    scoring = evaluate.request_evaluation(model, metric)
    collect.collect(scoring.run)
    scoring.refresh_from_db()
    score.score(scoring)
    scoring.refresh_from_db()
    return scoring


def build_board() -> dict[str, LanguageModel]:
    """Two causal models and a masked one measured on the starter set, and published figures; the models by name."""
    metric = starter_metric()
    models = {model.name: model for model in add_bundled()}
    seed_published()
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        assert finish(models[name], metric).state == Work.State.DONE
    return models


def keep_quickly(build: Callable[[], object]) -> Board:
    """The rows of the board that `build` makes with quick control sets: computed once, loaded by many tests."""
    with pytest.MonkeyPatch.context() as patch:
        quick_control_sets(patch)
        without_looks(patch)
        return keep_board(build)


@pytest.fixture(scope="session")
def kept_boards(pytestconfig: pytest.Config) -> Path:
    """The folder of the boards that processes and runs share."""
    return pytestconfig.cache.mkdir("boards")


@pytest.fixture(scope="session")
def recall(
    django_db_setup: None, django_db_blocker: Any, kept_boards: Path
) -> Callable[[str, Callable[[], object]], Board]:
    """Gives the rows of the board that a function makes, by a name: made once, for every process and run."""

    def recall_board(name: str, build: Callable[[], object]) -> Board:
        with django_db_blocker.unblock():
            return recall_boards(kept_boards, name, lambda: [keep_quickly(build)])[0]

    return recall_board


@pytest.fixture(scope="session")
def small_board(recall: Callable[[str, Callable[[], object]], Board]) -> Board:
    """The rows of `board`."""
    return recall("small", build_board)


@pytest.fixture(scope="session")
def living_rows(
    django_db_setup: None, django_db_blocker: Any, kept_boards: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Board]:
    """The rows of boards with none to three entries under the first version of the stand-in's metric."""
    folder = tmp_path_factory.mktemp("living")

    def build() -> list[Board]:
        boards = []

        def add_entries() -> None:
            metric = small_metric(folder)
            boards.append(read_board())
            for number in (1, 2, 3):
                assert submit(entrant(number, metric), metric).state == Work.State.DONE
                boards.append(read_board())

        with standing_in():
            keep_quickly(add_entries)
        return boards

    with django_db_blocker.unblock():
        return recall_boards(kept_boards, "living", build)


@pytest.fixture
def load_living(living_rows: list[Board], db: None) -> Callable[[int], Metric]:
    """Put so many entries of the stand-in's metric on the empty board; returns the metric."""

    def load(entries: int) -> Metric:
        load_board(living_rows[entries])
        return Metric.objects.get(slug=SLUG)

    return load


@pytest.fixture(scope="module")
def lasting_board(small_board: Board, _static_files: None, django_db_blocker: Any) -> Iterator[None]:
    """The rows of `board` for all tests of a module, each of which gives back what it changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        load_board(small_board)
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture
def board(request: pytest.FixtureRequest, small_board: Board, db: None) -> Metric:
    """A board with two causal models and a masked one, and published figures: the one of a module that has one."""
    if "lasting_board" not in request.fixturenames:
        load_board(small_board)
    return Metric.objects.get(slug="safety-starter")


@pytest.fixture(scope="session")
def measured_rows(small_board: Board) -> Board:
    """Of the rows of `board` those that were measured: a tenth of them."""

    def published(model: type[Model], column: str, values: Collection[object], key: str = "id") -> set[object]:
        """Keys of the rows of `model` that have one of `values` in `column`."""
        rows = next(rows for rows in small_board if rows.model is model)
        places = rows.columns.index(key), rows.columns.index(column)
        return {row[places[0]] for row in rows.values if row[places[1]] in values}

    versions = published(MetricVersion, "provenance", {Provenance.PUBLISHED})
    scorings = published(Scoring, "metric_version_id", versions)
    left_out = {"metric_version_id": versions, "scoring_id": scorings}
    own = {MetricVersion: {"id": versions}, LanguageModel: {"source": {LanguageModel.Source.PUBLISHED}}}

    def measured(rows: Rows) -> Rows:
        columns = left_out | own.get(rows.model, {})
        tests = [(rows.columns.index(name), keys) for name, keys in columns.items() if name in rows.columns]
        return replace(rows, values=[row for row in rows.values if all(row[at] not in keys for at, keys in tests)])

    return [rows for rows in map(measured, small_board) if rows.values]


@pytest.fixture
def measured_board(measured_rows: Board, db: None) -> Metric:
    """`board` without the published figures."""
    load_board(measured_rows)
    return Metric.objects.get(slug="safety-starter")
