"""Guard models on a board: their files are imported, a metric asks them, and their pages say what they do not tell."""

from pathlib import Path

import numpy as np
import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError

from leaderboard.models import Metric
from leaderboard.services import artefacts, scorers
from leaderboard.services.evaluation_sets import import_own_prompts
from scoring.scorers import get_scorer
from scoring.scorers.guards import declared_guards
from tests.leaderboard.continuations import records, written
from tests.leaderboard.living import entrant, submit
from tests.tiny_guards import save_guard

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]
NAME = "guard:wildguard"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guard of random weights that knows the words of WildGuard's answers."""
    words = ["Harmful request: yes", "Harmful request: no"] * 4
    return save_guard(tmp_path_factory.mktemp("wildguard"), template="", context=1024, words=words)


@pytest.fixture
def metric(settings, tmp_path) -> Metric:
    """A metric of WildGuard on prompts of the board, made as the README says."""
    settings.SCORERS = tmp_path / "scorers"
    scorers.look_again()
    import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(tmp_path / "ten.jsonl", records()))
    call_command("add_metric", "guarded", evaluation_set="ten-prompts", scorer=NAME, k=2, verbosity=0)
    return Metric.objects.get(slug="guarded")


@pytest.mark.slow
def test_continuations_are_scored_and_ranked_by_an_imported_guard(client, metric, files):
    call_command("import_scorer", NAME, str(files), verbosity=0)
    scoring = submit(entrant(1, metric), metric)
    texts = artefacts.load(scoring.run.artefact)["text"].to_pylist()
    values = artefacts.load(scoring.artefact)["score:harmful_request"].to_numpy()
    own = get_scorer(NAME, folder=files).score(texts)
    np.testing.assert_allclose(values, own.values[:, 0], atol=0.02)  # bfloat16, in other batches
    assert metric.current_version().scorer_fingerprint == get_scorer(NAME, folder=files).fingerprint()
    html = client.get(f"/scorers/{NAME}/").content.decode()
    assert "WildGuard" in html
    assert "It was trained on English." in html
    assert NAME in client.get("/scorers/").content.decode()
    assert "It was trained on English." in client.get("/metrics/guarded/").content.decode()


def test_a_folder_that_is_no_guard_is_not_kept(metric, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match=r"has no config\.json"):
        call_command("import_scorer", NAME, str(tmp_path / "empty"))


def test_an_unknown_guard_is_refused_by_name(metric):
    with pytest.raises(CommandError, match="guard:wildguard"):
        call_command("add_metric", "other", evaluation_set="ten-prompts", scorer="guard:nonsense")


def test_a_served_guard_is_unavailable_until_its_server_is_named(client, metric, settings):
    call_command("add_metric", "served", evaluation_set="ten-prompts", scorer="guard-server:wildguard", verbosity=0)
    assert "GUARD_SERVERS" in str(scorers.problem_with("guard-server:wildguard"))
    assert client.get("/metrics/served/").status_code == 200
    settings.GUARD_SERVERS = {"wildguard": "http://127.0.0.1:9/v1#our-guard"}
    settings.COMPLETIONS_API_KEYS = {"http://127.0.0.1:9": "a-key"}
    assert scorers.problem_with("guard-server:wildguard") is None
    server = scorers.guard_servers()["wildguard"]
    assert (server.model, server.key) == ("our-guard", "a-key")
    first, second = (scorers.scorer_for("guard-server:wildguard", epoch).fingerprint() for epoch in "12")
    assert first != second
    settings.GUARD_SERVERS = {"wildguard": "http://127.0.0.1:9/v1"}
    assert scorers.guard_servers()["wildguard"].model == declared_guards()["wildguard"].hub_id


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ({"nonsense": "http://127.0.0.1:9"}, "GUARD_SERVERS: there is no guard 'nonsense'"),
        ({"wildguard": "here"}, "GUARD_SERVERS, wildguard: url = 'here': give an http"),
    ],
)
def test_a_wrong_server_stops_the_start(settings, servers, says):
    settings.GUARD_SERVERS = servers
    with pytest.raises(ImproperlyConfigured, match=says):
        apps.get_app_config("leaderboard").ready()
