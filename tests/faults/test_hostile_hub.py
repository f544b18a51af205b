"""A hostile hub against a real board with a real worker: every attack ends in words, and honest models are ranked."""

import html
import time

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from huggingface_hub import constants

from leaderboard.celery import app
from leaderboard.models import EntryCheck, Metric, Standing, Submission
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.seed import seed_metrics
from leaderboard.submissions import intake
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.evaluation_sets import build_starter, get
from scoring.language_models import BUNDLED
from tests.faults.worker import stretch, wait_until, worker
from tests.hostile_hub import CASES, LOOK_UP, Case
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.test_accounts import person
from tests.standin_hub import StandInHub

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.either_database,
    pytest.mark.django_db(transaction=True),
]

METRIC = "safety-starter"
TEXTS = 24
RANKED_WITHIN = 60.0  # seconds from sending to its rank, after attacks that reached the worker
ATTACKS_AT_ONCE = 4  # before the next honest model
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
    return intake.submit(user, "hub", {"hub_id": ref, "metrics": [METRIC]})[0]


def read_page(submission: Submission) -> str:
    """The page of a submission, as its submitter reads it."""
    client = Client()
    client.force_login(submission.submitter, backend="allauth.account.auth_backends.AuthenticationBackend")
    return html.unescape(client.get(submission.get_absolute_url()).content.decode())


def refuse_at_once(user: User, ref: str, case: Case) -> None:
    """Submit a model that a look-up refuses, in the case's words."""
    with pytest.raises(SubmissionRefused) as refused:
        send(user, ref)
    assert case.words in str(refused.value.problems), ref


def fail_with_words(submission: Submission, case: Case) -> None:
    """Wait until the worker refuses a model: the run, and the page of the submission, say why in the case's words."""
    wait_until(lambda: Submission.objects.get(pk=submission.pk).state == "failed")
    run = submission.model.runs.get()
    assert (run.state, run.attempts <= 1) == ("failed", True), case
    assert case.words in run.reason, case
    assert case.words in read_page(Submission.objects.get(pk=submission.pk)), case


def rank_honest(user: User, hub: StandInHub, ref: str) -> float:
    """Submit an honest model; returns the seconds until it is ranked."""
    hub.add(ref, GOOD)
    began = time.monotonic()
    model = send(user, ref).model
    wait_until(lambda: Standing.objects.filter(model=model).exists(), RANKED_WITHIN)
    return time.monotonic() - began


@pytest.mark.timeout(3600)
def test_every_attack_ends_in_words_and_the_honest_models_between_are_ranked(metric, settings, tmp_path, monkeypatch):
    settings.HUB_PATIENCE_SECONDS, settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY = 1.0, 1000, 1000
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(intake, "LOOK_UPS_A_MINUTE", 1000)
    user, seconds = person(), []
    refs = {f"someone/model-{number}": case for number, case in enumerate(CASES.values())}
    reaching = [ref for ref, case in refs.items() if case.stage != LOOK_UP]
    app.control.purge()
    call_command("collectstatic", interactive=False, verbosity=0)
    with StandInHub() as hub:
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = hub.endpoint, None
        for ref, case in refs.items():
            case.upload(hub, ref, GOOD, tmp_path)
            if case.stage == LOOK_UP:
                refuse_at_once(user, ref, case)
        with worker(HF_ENDPOINT=hub.endpoint, HF_HUB_CACHE=str(tmp_path / "cache"), MOST_ATTEMPTS="1") as process:
            for first in range(0, len(reaching), ATTACKS_AT_ONCE):
                attacks = [(send(user, ref), refs[ref]) for ref in reaching[first : first + ATTACKS_AT_ONCE]]
                for submission, case in attacks:
                    fail_with_words(submission, case)
                seconds.append(rank_honest(user, hub, f"honest/model-{first}"))
            assert process.poll() is None  # one worker went through all of them
    assert max(seconds) < stretch(RANKED_WITHIN)
    assert not Standing.objects.filter(model__location__startswith="someone/").exists()
    assert not EntryCheck.objects.exists()  # what is honest has no flag
