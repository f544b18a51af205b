"""Boards to test on."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.core.management import call_command

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
    """Watch likelihoods with the quicker of the two models, and measure noise once rather than 20 times."""
    patch.setattr(control, "WATCHED_MODELS", control.WATCHED_MODELS[:1])
    patch.setattr(settings, "NOISE_REPEATS", 1)


@pytest.fixture(autouse=True)
def _quick_control_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_control_sets(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _static_files() -> None:
    call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture
def metric(db: None) -> Metric:
    """Safety on a part of the starter set, ready to measure: three demographics."""
    seed_metrics()
    chosen = [s for s in build_starter() if set(s.demographics) & {"women", "muslim", "latino"}]
    import_sentences(get("starter"), chosen)
    return Metric.objects.get(slug="safety-starter")


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


@pytest.fixture
def board(metric: Metric, models: dict[str, LanguageModel]) -> Metric:
    """A board with two causal models and a masked one, and published figures."""
    seed_published()
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        finish(models[name], metric)
    return metric
