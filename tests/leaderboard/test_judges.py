"""A language model as the scorer of a metric: its own noise is no drift, and its disagreement is shown."""

import hashlib
import re
from collections.abc import Iterator

import httpx
import pytest
from django.test import Client

from leaderboard.models import Metric, Work
from leaderboard.services import artefacts, checks
from leaderboard.services.rescore import estimate
from leaderboard.services.seed import seed_metrics
from scoring.artefacts import SCORE
from scoring.scorers import service as service_client
from scoring.scorers.judge import JudgeScorer
from tests import standin_judge
from tests.leaderboard import living
from tests.standin_judge import StandInJudge

pytestmark = pytest.mark.django_db

NAME = "judge:toxicity@a-model"


def waver(text: str, name: str, vote: int) -> int:
    """The level of a text from 0 to 2, and one more in some votes on every third continuation."""
    digest = hashlib.sha256(f"{name} {text}".encode()).digest()
    is_wavering = (
        text.startswith(" ")
        and digest[1] % 3 == 0
        and hashlib.sha256(f"{vote} {name} {text}".encode()).digest()[0] % 4 == 0
    )
    return digest[0] % 3 + is_wavering


@pytest.fixture
def replicates() -> int:
    """How often it scores the control texts when a version opens."""
    return 1


@pytest.fixture
def judge(settings, monkeypatch, replicates) -> Iterator[StandInJudge]:
    """A judge that wavers, behind the board's settings."""
    monkeypatch.setattr(service_client, "BACKOFF", 0.001)
    monkeypatch.setattr(JudgeScorer, "timeout", httpx.Timeout(5.0))
    with standin_judge.serving() as stage:
        stage.level = waver
        settings.JUDGE_URL, settings.JUDGE_API_KEY = f"{stage.address}/v1", standin_judge.KEY
        settings.JUDGE_REQUESTS_PER_SECOND, settings.JUDGE_USD_PER_1000_TEXTS = 5000.0, 6.0
        settings.OPENING_REPLICATES, settings.OPENING_SPREAD_SECONDS = replicates, 0
        yield stage


@pytest.fixture
def metric(judge, tmp_path) -> Metric:
    metric = living.small_metric(tmp_path, slug="by-judge", scorer=NAME)
    scoring = living.submit(living.entrant(1, metric), metric)
    assert scoring.state == Work.State.DONE, scoring.reason
    return metric


@pytest.mark.slow
def test_its_disagreement_is_stored_and_shown_and_it_is_tagged_as_not_deterministic(metric, judge):
    scoring = metric.current_version().scorings.get()
    column = artefacts.load(scoring.artefact)[SCORE + "disagreement"].to_pylist()
    share = sum(value > 0 for value in column) / len(column)
    assert 0 < share < 1
    html = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", Client().get(f"/scorers/{NAME}/").content.decode()))
    assert f"Its votes differ on {100 * share:.1f}% of the texts of 1 entry of by-judge" in html
    assert f"on average, {100 * sum(column) / len(column):.1f}% of the votes" in html
    for address in ("/scorers/", "/drift/", f"/scorers/{NAME}/", "/metrics/by-judge/"):
        page = Client().get(address).content.decode()
        assert '<span class="tag">not deterministic</span>' in page, address
        assert '<span class="tag">unversioned</span>' in page, address
    assert "3 requests and 0.0006 s of quota a text" in re.sub(
        r"\s+", " ", Client().get("/metrics/by-judge/").content.decode()
    )
    cost = estimate(metric)
    assert cost.usd == pytest.approx(cost.texts * 0.006)


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [9])
def test_its_own_noise_opens_no_version(metric):
    assert metric.current_version().control_set.noise > 0
    check = checks.request_check(metric, "manual", send=False)
    living.deliver(check)
    check.refresh_from_db()
    assert check.verdict in ("stable", "changed"), check.statistics["decided_by"]
    assert metric.versions.count() == 1


def test_its_page_says_before_any_number_that_it_is_not_deterministic():
    seed_metrics()
    metric = Metric.objects.get(slug="toxicity-profanity")
    Metric.objects.filter(pk=metric.pk).update(scorer=NAME)
    address = f"/scorers/{NAME}/"
    page = Client().get(address).content.decode()
    assert '<span class="tag">not deterministic</span>' in page
    assert '<span class="tag">unversioned</span>' in page
    assert "Its votes differ" not in page
