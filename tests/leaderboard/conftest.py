"""Boards to test on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import transaction

from leaderboard.models import LanguageModel, Metric
from leaderboard.services import collect, control, evaluate, leases, score
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.language_models import add_bundled
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from scoring.evaluation_sets import build_starter, get

CAUSAL, OTHER_CAUSAL, MASKED = "plumb-gpt2-l2-h128", "plumb-gpt2-l6-h128", "plumb-bert-l2-h128"


@pytest.fixture(autouse=True)
def _nobody_asked_to_stop() -> Iterator[None]:
    leases.stop_requested.clear()
    yield
    leases.stop_requested.clear()


def quick_control_sets(patch: pytest.MonkeyPatch) -> None:
    """Watch likelihoods with the quicker of the two models, and take one scoring of a control set for all it needs."""
    patch.setattr(control, "WATCHED_MODELS", control.WATCHED_MODELS[:1])
    patch.setattr(settings, "OPENING_REPLICATES", 1)


@pytest.fixture(autouse=True)
def _quick_control_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_control_sets(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _static_files() -> None:
    call_command("collectstatic", interactive=False, verbosity=0)


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


@pytest.fixture
def models(db: None) -> dict[str, LanguageModel]:
    """The bundled models by name."""
    return {model.name: model for model in add_bundled()}


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
        finish(models[name], metric)
    return models


def keep_rows(path: Path, build: Callable[[], object]) -> Path:
    """Write the rows of the board that `build` makes to `path`, and take them back: computed once, loaded by many."""
    with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        quick_control_sets(patch)
        build()
        call_command("dumpdata", "leaderboard", output=str(path), verbosity=0)
        transaction.set_rollback(True)
    return path


@pytest.fixture(scope="session")
def small_board(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of `board`."""
    with django_db_blocker.unblock():
        return keep_rows(tmp_path_factory.mktemp("board") / "rows.json", build_board)


@pytest.fixture(scope="module")
def lasting_board(small_board: Path, _static_files: None, django_db_blocker: Any) -> Iterator[None]:
    """The rows of `board` for all tests of a module, each of which gives back what it changes."""
    with django_db_blocker.unblock(), transaction.atomic():
        call_command("loaddata", str(small_board), verbosity=0)
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture
def board(request: pytest.FixtureRequest, small_board: Path, db: None) -> Metric:
    """A board with two causal models and a masked one, and published figures: the one of a module that has one."""
    if "lasting_board" not in request.fixturenames:
        call_command("loaddata", str(small_board), verbosity=0)
    return Metric.objects.get(slug="safety-starter")


@pytest.fixture(scope="session")
def measured_rows(small_board: Path) -> Path:
    """Of the rows of `board` those that were measured: a tenth of them, and loaded as much faster."""
    rows = json.loads(small_board.read_text())
    published = {
        row["pk"]
        for row in rows
        if row["model"] == "leaderboard.metricversion" and row["fields"]["provenance"] == "published"
    }
    scorings = {
        row["pk"]
        for row in rows
        if row["model"] == "leaderboard.scoring" and row["fields"]["metric_version"] in published
    }

    def measured(row: dict[str, Any]) -> bool:
        fields = row["fields"]
        return not (
            (row["model"] == "leaderboard.metricversion" and row["pk"] in published)
            or fields.get("metric_version") in published
            or fields.get("scoring") in scorings
            or (row["model"] == "leaderboard.languagemodel" and fields["source"] == "published")
        )

    path = small_board.with_name("measured.json")
    path.write_text(json.dumps([row for row in rows if measured(row)]))
    return path


@pytest.fixture
def measured_board(measured_rows: Path, db: None) -> Metric:
    """`board` without the published figures."""
    call_command("loaddata", str(measured_rows), verbosity=0)
    return Metric.objects.get(slug="safety-starter")
