"""An ensemble as the scorer of a metric: its members' files, its page, and what the end of a member means."""

import json
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from leaderboard import tasks
from leaderboard.models import Metric, RetiredScorer, Work
from leaderboard.operations.services.retirement import retire_scorer
from leaderboard.services import artefacts, checks, scorers
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.scorers import import_lexicon, problem_with, scorer_for, scorers_in_use
from scoring.artefacts import SCORE
from scoring.scorers import ScorerState
from tests.leaderboard import living

pytestmark = pytest.mark.django_db

NAME = "ensemble:majority~lexicon:one~lexicon:two"


def put_lexicon(folder: Path, name: str, terms: str, replace: bool = False) -> None:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "seaside.txt").write_text(terms, encoding="utf-8")
    import_lexicon(name, place, replace)


@pytest.fixture
def metric(tmp_path) -> Metric:
    put_lexicon(tmp_path, "one", "sea\nrain\n")
    put_lexicon(tmp_path, "two", "sea\nfoot\n")
    return living.small_metric(tmp_path, slug="by-ensemble", scorer=NAME)


@pytest.mark.slow
def test_it_scores_a_board_like_any_other_scorer(metric, tmp_path):
    scoring = living.submit(living.entrant(1, metric), metric)
    assert scoring.state == Work.State.DONE, scoring.reason
    texts = artefacts.load(scoring.run.artefact)["text"].to_pylist()
    values = artefacts.load(scoring.artefact)[SCORE + "seaside"].to_pylist()
    expected = [(max("sea" in text, "rain" in text) + max("sea" in text, "foot" in text)) / 2 for text in texts]
    assert values == expected
    assert set(values) > {0.5}
    check = checks.request_check(metric, "manual", send=False)
    living.deliver(check)
    check.refresh_from_db()
    assert check.verdict == "stable"
    assert {"lexicon:one", "lexicon:two", NAME} <= set(scorers_in_use())


def test_a_member_with_other_files_makes_it_another_scorer(metric, tmp_path):
    first = scorer_for(NAME, "1").fingerprint()
    assert scorer_for(NAME, "1").fingerprint() == first
    put_lexicon(tmp_path, "two", "boat\n", replace=True)
    assert scorer_for(NAME, "1").fingerprint() != first


@pytest.mark.slow
def test_its_pages_have_addresses_that_work(metric):
    living.submit(living.entrant(1, metric), metric)
    address = reverse("scorer", args=[NAME])
    assert address == f"/scorers/{NAME}/"
    html = Client().get(address).content.decode()
    assert f"<code>{NAME}</code>" in html
    assert address in Client().get("/scorers/").content.decode()
    assert Client().get("/metrics/by-ensemble/").status_code == 200
    assert json.loads(Client().get("/api/v1/metrics/by-ensemble").content)["scorer"] == NAME


@pytest.mark.slow
def test_a_retired_member_retires_it_and_is_named(metric):
    assert living.submit(living.entrant(1, metric), metric).state == Work.State.DONE
    waiting = request_evaluation(living.entrant(2, metric), metric, send=False)
    retire_scorer("lexicon:two", "its terms are outdated")
    problem = problem_with(NAME)
    assert problem.state is ScorerState.RETIRED
    assert "its member lexicon:two is retired" in str(problem)
    assert "its terms are outdated" in str(problem)
    tasks.watch()
    assert "lexicon:two" in RetiredScorer.objects.get(name=NAME).reason
    living.drain()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.fault) == (Work.State.FAILED, "ScorerRetired")
    with pytest.raises(CannotEvaluate, match="is retired"):
        request_evaluation(living.entrant(3, metric), metric)


def test_a_member_that_is_not_here_makes_it_unavailable(metric):
    scorers.look_again()
    problem = problem_with("ensemble:mean~lexicon:one~lexicon:absent")
    assert problem.state is ScorerState.UNAVAILABLE
    assert "its member lexicon:absent is unavailable" in str(problem)
