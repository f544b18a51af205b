"""The example of the page on extending, from the module to a drift: what an operator does, step by step."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError

from leaderboard.models import ControlCheck, Metric, Scoring
from leaderboard.services import artefacts, scorers
from leaderboard.services.checks import perform, request_check
from leaderboard.services.evaluation_sets import import_own_prompts
from leaderboard.views.docs import example_source
from scoring.scorers import (
    Cost,
    Progress,
    Scorer,
    ScorerDeclaration,
    ScorerUnavailable,
    Scores,
    example,
    fingerprint_of,
    get_scorer,
    registry,
)
from scoring.scorers.example import CapitalsScorer
from tests.leaderboard import living
from tests.leaderboard.continuations import records, written
from tests.leaderboard.living import drain, entrant, submit

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]
MODULE = "scoring.scorers.example"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test adds to the scorers is gone after it."""
    monkeypatch.setattr(registry, "SCORERS", list(registry.SCORERS))
    scorers.look_again()
    yield
    scorers.look_again()


def start(settings, *modules: str) -> None:
    """Start the site with these modules named in the environment."""
    settings.SCORER_MODULES = list(modules)
    apps.get_app_config("leaderboard").ready()


@pytest.fixture
def capitals(settings, tmp_path) -> Metric:
    """A metric of the example's scorer, made as the page says, on prompts of the board."""
    import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(tmp_path / "ten.jsonl", records()))
    start(settings, MODULE)
    call_command("add_metric", "capitals", evaluation_set="ten-prompts", scorer="capitals", k=2, verbosity=0)
    return Metric.objects.get(slug="capitals")


def check(metric: Metric) -> ControlCheck:
    found = request_check(metric, ControlCheck.Trigger.MANUAL, send=False)
    perform(found)
    found.refresh_from_db()
    return found


def test_the_example_is_thirty_lines_at_most():
    assert len(example_source().splitlines()) <= 30


@pytest.mark.parametrize(
    ("text", "share"), [("ABC", 1), ("abc", 0), ("Ab, 12!", 0.5), ("", 0), ("12 !", 0), ("ÄÖü", 2 / 3), ("東京", 0)]
)
def test_the_example_scores_the_share_of_letters_that_are_capitals(text, share):
    assert CapitalsScorer().score([text]).values[0, 0] == pytest.approx(share)


def test_a_scorer_is_unknown_until_its_module_is_named(settings, tmp_path):
    import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(tmp_path / "ten.jsonl", records()))
    with pytest.raises(CommandError, match="capitals"):
        call_command("add_metric", "capitals", evaluation_set="ten-prompts", scorer="capitals")
    start(settings, MODULE)
    start(settings, MODULE)
    assert [declared.name for declared in registry.SCORERS].count("capitals") == 1
    assert get_scorer("capitals").attribute_names == ("capitals",)


@pytest.fixture
def ranked(capitals, monkeypatch) -> list[Scoring]:
    """Two models that write some capitals, scored under the metric."""
    monkeypatch.setattr(living, "ENDINGS", ["AND left.", "by The Sea.", "in the rain.", "At noon.", "ON FOOT."])
    return [submit(entrant(number, capitals), capitals) for number in (1, 2)]


def edit(monkeypatch: pytest.MonkeyPatch, rule: Callable[[str], str] = str) -> None:
    """As after an edit of the file and a restart: another fingerprint, and a text is scored as `rule` makes it."""

    class Edited(CapitalsScorer):
        def fingerprint(self) -> str:
            return hashlib.sha256(rule("An edit").encode()).hexdigest()

        def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
            return super()._score_distinct([rule(text) for text in texts], progress)

    monkeypatch.setattr(example, "CapitalsScorer", Edited)
    scorers.look_again()


@pytest.mark.slow
def test_the_example_is_scored_and_ranked_and_its_page_says_what_it_does_not_tell(client, capitals, ranked):
    version = capitals.current_version()
    assert version.scorer_fingerprint == CapitalsScorer().fingerprint()
    for scoring in ranked:  # against counting letters by hand
        texts = artefacts.load(scoring.run.artefact)["text"].to_pylist()
        shares = [sum("A" <= c <= "Z" for c in text) / sum(c.isalpha() for c in text) for text in texts]
        assert max(shares) > 0.5 > min(shares)
        assert artefacts.load(scoring.artefact)["score:capitals"].to_pylist() == pytest.approx(shares)
        largest = np.reshape(shares, (-1, capitals.protocol.k)).max(axis=1).mean()
        result = scoring.results.get(measure="expected_max_toxicity", slice="capitals:all")
        assert result.value == pytest.approx(largest)
    standings = version.standings.filter(measure="expected_max_toxicity", slice="capitals:all", population="all")
    assert sorted(standings.values_list("rank", flat=True)) == [1, 2]
    html = client.get("/rankings/?metric=capitals").content.decode()
    assert all(scoring.model.name in html for scoring in ranked)
    assert example.LIMITS[0] in client.get("/metrics/capitals/").content.decode()


@pytest.mark.slow
def test_an_edit_that_changes_no_score_is_stable_and_the_version_goes_on(capitals, ranked, monkeypatch):
    assert check(capitals).verdict == "stable"
    edit(monkeypatch)
    assert check(capitals).verdict == "stable"
    assert submit(entrant(3, capitals), capitals).metric_version == ranked[0].metric_version


@pytest.mark.slow
def test_an_edit_that_changes_scores_drifts_and_opens_a_version(capitals, ranked, monkeypatch):
    edit(monkeypatch, lambda text: text.upper() if "sea" in text.casefold() or "the" in text else text)
    assert check(capitals).verdict == "drifted"
    drain()
    assert capitals.current_version().number == 2
    assert capitals.current_version().scorings.filter(state="done").count() == len(ranked)


def declaring(monkeypatch: pytest.MonkeyPatch, **content: object) -> str:
    module = ModuleType("somebodys_scorers")
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_a_module_that_is_not_there_stops_the_start_and_is_named(settings):
    with pytest.raises(
        ImproperlyConfigured, match=r"PLUMBLINE_SCORER_MODULES: 'not_there' cannot be imported .*PYTHONPATH"
    ):
        start(settings, "not_there")


def test_a_module_without_scorers_stops_the_start_and_is_told_what_to_declare(settings, monkeypatch):
    with pytest.raises(ImproperlyConfigured, match="declares no scorer: give it SCORERS"):
        start(settings, declaring(monkeypatch))


@pytest.mark.parametrize("name", ["profanity", "detoxify-original", "lexicon:starter"])
def test_the_name_of_another_scorer_cannot_be_taken(settings, monkeypatch, name):
    def build(_choice: str) -> Scorer:
        raise AssertionError("it is never built")

    module = declaring(monkeypatch, SCORERS=(ScorerDeclaration(name, "Mine", False, build),))
    before = list(registry.SCORERS)
    with pytest.raises(ImproperlyConfigured, match=f"there is a scorer '{name}' already"):
        start(settings, module)
    assert before == registry.SCORERS


class Service(CapitalsScorer):
    """A scorer behind a URL, as far as the board can tell."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch

    def fingerprint(self) -> str:
        return fingerprint_of(scorer="service", epoch=self.epoch)


def test_a_service_of_ones_own_declares_its_options_its_cost_and_what_it_lacks(settings, monkeypatch):
    declared = ScorerDeclaration(
        "service",
        "Service",
        True,
        lambda _choice, **options: Service(**options),
        options=lambda surroundings: {"epoch": surroundings.epoch},
        problem=lambda _choice, _surroundings: ScorerUnavailable("no key is set"),
        cost=lambda _choice, _surroundings: Cost(requests=1, seconds=2.0, usd=0.0),
    )
    start(settings, declaring(monkeypatch, SCORERS=(declared,)))
    assert scorers.cost_of("service").seconds == 2.0
    assert str(scorers.problem_with("service")) == "no key is set"
    first, second = (scorers.scorer_for("service", epoch).fingerprint() for epoch in "12")
    assert first != second
    assert scorers.fingerprint_under("service", 2, first) == second
