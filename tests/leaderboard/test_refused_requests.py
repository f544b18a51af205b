"""What services refuse: each says what is wrong with what was asked for, and what to do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard.models import Artefact, EvaluationSet, LanguageModel, Metric, Scoring
from leaderboard.operations.services import restore
from leaderboard.operations.services.work import retry
from leaderboard.people.services.roles import set_role
from leaderboard.services import artefacts, calibrations, folders, hosts, scorers, service_checks
from leaderboard.services.metrics import Declaration, declare_metric
from scoring.refusals import Refused
from scoring.scorers import UnknownScorer
from tests.leaderboard.living import NAME, drift, lost, standing_in
from tests.leaderboard.test_accounts import person

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

DECLARATION = Declaration("another", "Another", NAME, "toxicity", "rtp", {"k": 2})


@pytest.fixture(autouse=True)
def stage():
    with standing_in() as stage:
        yield stage


@pytest.fixture
def ready_metric(load_living) -> Metric:
    """A board with one entry."""
    return load_living(1)


@pytest.fixture
def scoring(ready_metric) -> Scoring:
    return Scoring.objects.select_related("run", "artefact", "metric_version").get(metric_version__metric=ready_metric)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formula": "beauty"}, "formula = 'beauty': use one of safety, toxicity, "),
        ({"method": "likelihood"}, "formula = 'toxicity' does not go with method = 'likelihood'"),
        ({"slug": "An Other"}, "slug = 'An Other': use up to 80 small letters, digits and -"),
        ({"scorer": "nobody"}, "scorer = 'nobody': use one of "),
        ({"labels": {"LABEL_1": "awful"}}, "labels: 'awful' is not a meaning of a label; use harm, neutral, good"),
        ({"labels": {"LABEL_1": "harm"}}, f"labels of {NAME} cannot be declared: it declares its attributes itself"),
        ({"parameters": {"k": 0}}, "the protocol rtp: k = 0"),
        ({"chat": "letters"}, "chat = 'letters': use one of rtp-chat"),
    ],
)
def test_a_metric_is_declared_of_what_there_is(ready_metric, changes: dict[str, Any], message: str):
    prompts = EvaluationSet.objects.get(slug="ten-prompts")
    with pytest.raises(Refused) as refusal:
        declare_metric(replace(DECLARATION, **changes), prompts)
    assert str(refusal.value).startswith(message)


def test_only_a_service_is_asked_again_and_only_as_long_as_it_serves_what_it_did(scoring):
    with pytest.raises(Refused, match="entrant-1 is not served: only models behind a server are asked again"):
        service_checks.request_service_check(scoring.model, "manual")


def test_a_scorer_is_calibrated_on_labelled_texts(scoring):
    prompts = EvaluationSet.objects.get(slug="ten-prompts")
    with pytest.raises(Refused, match="set = 'ten-prompts': it holds no labelled texts; use one that does"):
        calibrations.request_calibration(scoring.metric_version, prompts)


def test_work_that_is_done_is_not_done_again(scoring):
    with pytest.raises(Refused, match=f"scoring {scoring.pk} is done: only failed or cancelled work is tried again"):
        retry(scoring)


def test_a_role_is_one_of_four(db):
    with pytest.raises(Refused, match="role = 'queen': use one of viewer, submitter, moderator, operator"):
        set_role(person("ada"), "queen")


def test_a_file_is_made_again_by_what_made_it_and_by_no_other_scorer(scoring, stage):
    texts = scoring.metric_version.protocol.evaluation_set.artefact
    with pytest.raises(Refused, match="is made of nothing that is stored here: restore it from a backup"):
        restore.request_restoration(texts)
    with pytest.raises(Refused, match="holds outputs: a run collects them"):
        restore.restore(scoring.run.artefact)
    LanguageModel.objects.filter(pk=scoring.model_id).update(source=LanguageModel.Source.UPLOADED)
    with pytest.raises(Refused, match="the outputs of entrant-1 cannot be collected again: its weights are not at"):
        restore.request_restoration(scoring.run.artefact)
    drift(stage)
    with lost(scoring.artefact), pytest.raises(Refused, match=f"was scored with another {NAME}: rescore the metric"):
        restore.restore(scoring.artefact)


def test_what_is_stored_as_a_folder_holds_files(db, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty holds no files: give a folder with the files of scorer own"):
        folders.store_folder("scorer own", tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "it is not a scorer with files; write it as in detoxify-original"),
        ("lexicon:own", "import it with `manage.py import_lexicon`"),
    ],
)
def test_files_are_imported_of_scorers_that_have_some(name: str, message: str):
    with pytest.raises(UnknownScorer) as refusal:
        scorers.import_scorer(name, Path("/none"))
    assert str(refusal.value) == f"name = {name!r}: {message}"


def test_a_host_looks_at_scorers_that_it_knows(db):
    with pytest.raises(UnknownScorer, match="there is no scorer 'nobody' on this host: install it, or set PLUMBLINE_"):
        hosts.look_at_scorer("nobody")


def test_where_no_text_was_made_nothing_is_scored(scoring):
    scorer = scorers.scorer_of(scoring.metric_version)
    with pytest.raises(scorers.NothingToScore, match="there is no text to score"):
        scorers.score_at_once(scorer, [None, None])


def test_what_was_never_stored_is_not_read(db):
    assert not Artefact.objects.exists()
    with pytest.raises(FileNotFoundError, match="nothing is stored yet: there is no artefact to read"):
        artefacts.load(None)
