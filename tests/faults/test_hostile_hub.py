"""A hostile hub against a real board with a real worker: every attack ends in words, and the next one is ranked."""

import time
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from huggingface_hub import constants

from leaderboard.celery import app
from leaderboard.models import Metric, Run, Standing, Submission
from leaderboard.services import submissions
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.seed import seed_metrics
from leaderboard.services.submissions import SubmissionRefused
from scoring.evaluation_sets import build_starter, get
from scoring.language_models import BUNDLED
from tests.faults.worker import wait_until, worker
from tests.hostile_hub import CASES, LOADING, Case
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.test_accounts import person
from tests.standin_hub import StandInHub

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]

METRIC = "safety-starter"
TEXTS = 24
RANKED_WITHIN = 60.0  # seconds from sending to its rank, after an attack that reached the worker
GOOD = BUNDLED / CAUSAL


@pytest.fixture
def metric(db: None) -> Metric:
    """Safety on a few sentences of one demographic."""
    seed_metrics()
    chosen = [sentence for sentence in build_starter() if "women" in sentence.demographics]
    harmful = [sentence for sentence in chosen if sentence.harmful][: TEXTS // 2]
    import_sentences(get("starter"), harmful + [s for s in chosen if not s.harmful][: TEXTS // 2])
    return Metric.objects.get(slug=METRIC)


def send(user: User, ref: str) -> Submission:
    return submissions.submit(user, "hub", {"hub_id": ref, "metrics": [METRIC]})


def attack(user: User, ref: str, case: Case) -> Submission | None:
    """Submit a hostile model; None where it is refused at once, in the case's words."""
    if case.stage == LOADING:
        return send(user, ref)
    with pytest.raises(SubmissionRefused) as refused:
        send(user, ref)
    assert case.words in str(refused.value.problems)
    return None


@pytest.mark.timeout(1800)
def test_every_attack_ends_in_words_and_the_next_honest_model_is_ranked(metric, settings, tmp_path: Path, monkeypatch):
    settings.HUB_PATIENCE_SECONDS, settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY = 1.0, 1000, 1000
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    user = person()
    app.control.purge()
    with StandInHub() as hub:
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = hub.endpoint, None
        with worker(HF_ENDPOINT=hub.endpoint, HF_HUB_CACHE=str(tmp_path / "cache"), MOST_ATTEMPTS="1"):
            for number, (name, case) in enumerate(CASES.items()):
                ref = f"someone/model-{number}"
                case.upload(hub, ref, GOOD, tmp_path)
                submission = attack(user, ref, case)
                if submission is None:
                    continue
                run = submission.model.runs.get()
                wait_until(lambda run=run: Run.objects.get(pk=run.pk).state == "failed")
                assert case.words in Run.objects.get(pk=run.pk).reason, name
                wait_until(lambda pk=submission.pk: Submission.objects.get(pk=pk).state == "failed")
                assert "refused" in Submission.objects.get(pk=submission.pk).reason
                honest = f"honest/model-{number}"
                hub.add(honest, GOOD)
                began = time.monotonic()
                ranked = send(user, honest).model
                wait_until(lambda model=ranked: Standing.objects.filter(model=model).exists(), RANKED_WITHIN)
                assert time.monotonic() - began < RANKED_WITHIN
    assert not Standing.objects.filter(model__location__startswith="someone/").exists()
