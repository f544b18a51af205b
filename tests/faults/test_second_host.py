"""A second host that shares the database, the broker and the storage, and nothing else: for real, in processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from leaderboard.celery import app
from leaderboard.models import ControlCheck, Incident, LanguageModel, Metric, Rescoring, Scoring, Work
from leaderboard.operations.alerts import look
from leaderboard.services import scorers
from leaderboard.services.checks import request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import declare, import_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from scoring.evaluation_sets import build_regard, get
from tests.faults.worker import wait_until, worker
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish, models  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.faults, pytest.mark.either_database, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _empty_queues() -> Iterator[None]:
    app.control.purge()
    yield
    app.control.purge()


@pytest.fixture
def own_lexicon(tmp_path: Path) -> Metric:
    """A metric of a lexicon that was imported on this host."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "words.txt").write_text("woman\nshe\nthe\n")
    scorers.import_lexicon("of-two-hosts", given)
    prompts = [prompt for prompt in build_regard() if prompt.group == "women"][:10]
    openings = import_prompts(declare(get("regard-openings")), prompts)[0]
    declared = Declaration("own-words", "Own words", "lexicon:of-two-hosts", "lexicon_frequency", "rtp", {"k": 4})
    return declare_metric(declared, openings)


@pytest.fixture
def second_host(tmp_path: Path) -> dict[str, str]:
    """Variables of a host of its own, which has an older lexicon of the same name."""
    var = tmp_path / "beta"
    older = var / "scorers" / "lexicon" / "of-two-hosts"
    older.mkdir(parents=True)
    (older / "words.txt").write_text("rain\n")
    (var / "artefacts").symlink_to(settings.MEDIA_ROOT)
    return {"PLUMBLINE_VAR": str(var), "PLUMBLINE_HOST": "beta"}


def state_of(work: Work) -> str:
    return type(work).objects.values_list("state", flat=True).get(pk=work.pk)


def test_a_host_with_an_older_lexicon_and_no_file_of_its_own_does_the_same_work_and_finds_no_drift(
    own_lexicon: Metric,
    models: dict[str, LanguageModel],  # noqa: F811
    second_host: dict[str, str],
):
    here = finish(models[CAUSAL], own_lexicon)
    assert here.state == Work.State.DONE
    there = request_evaluation(models[OTHER_CAUSAL], own_lexicon)
    with worker(**second_host):
        wait_until(lambda: state_of(there) == Work.State.DONE)
        check = request_check(own_lexicon, ControlCheck.Trigger.MANUAL)
        wait_until(lambda: state_of(check) == Work.State.DONE)
    check.refresh_from_db()
    assert (check.verdict, check.host) == (ControlCheck.Verdict.STABLE, "beta")
    version = own_lexicon.current_version()
    assert version.number == 1
    assert set(version.standings.values_list("model", flat=True)) == {here.model_id, there.model_id}
    assert not Rescoring.objects.exists()
    assert not Scoring.objects.filter(state=Work.State.FAILED).exists()
    look()
    assert not Incident.objects.filter(
        kind__in=[Incident.Kind.DRIFT, Incident.Kind.HOSTS, Incident.Kind.FAILED]
    ).exists()
