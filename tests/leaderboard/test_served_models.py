"""Models behind a completions server: asked by URL, evaluated as any other, refused where a server cannot answer."""

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, Run, Service, Standing, Work
from leaderboard.services import artefacts, collect
from leaderboard.services.evaluate import CannotEvaluate, check_served_likelihoods, request_evaluation
from scoring.metrics import outputs
from scoring.served import transport
from scoring.served.control import build_control_openings
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.continuations import TEXTS, K, import_sample, of_few, texts_of
from tests.scoring.completions_server import CompletionsStage, as_json, completion, completions_server

pytestmark = pytest.mark.django_db

KEY = "sk-not-a-real-one"


def said(*words: str) -> str:
    """What a command says."""
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.fixture
def stage(monkeypatch, settings) -> Iterator[CompletionsStage]:
    """The server, and a client that is impatient."""
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    settings.COMPLETIONS_API_KEY = KEY
    with completions_server() as found:
        yield found


@pytest.fixture
def toxicity(db: None, tmp_path) -> Metric:
    """Profanity of four continuations of each of ten prompts."""
    import_sample(tmp_path)
    return of_few("toxicity-profanity")


@pytest.fixture
def served(stage) -> LanguageModel:
    """A model of the server, as an operator enters it."""
    said("add_model", "small/one", "--server", stage.url, "--revision", "2026-11-01")
    stage.requests.clear()
    stage.keys.clear()
    return LanguageModel.objects.get(source="server")


@pytest.mark.slow
def test_a_served_model_is_entered_once_a_revision_with_its_address(stage, db):
    words = ("add_model", "small/one", "--server", stage.url + "/", "--revision")
    line = said(*words, "2026-11-01")
    assert line.startswith(f"small-one entered: served at {stage.url}/; the server gives no likelihoods")
    assert line.endswith(", revision 2026-11-01\n")
    assert "is already here" in said(*words, "2026-11-01")
    assert "entered" in said(*words, "2026-12-01")
    first, second = LanguageModel.objects.order_by("pk")
    assert (first.name, first.kind, first.source, first.location) == (
        "small/one",
        "causal",
        "server",
        f"{stage.url}#small/one",
    )
    assert (first.revision, second.revision) == ("2026-11-01", "2026-12-01")
    assert first.slug != second.slug
    assert {request["prompt"] for request in stage.requests} >= {text.text for text in build_control_openings()}


@pytest.mark.slow
def test_a_served_model_may_have_a_name_of_its_own_on_the_board(stage, db):
    said("add_model", "small/one", "--server", stage.url, "--revision", "r1", "--name", "Small One")
    model = LanguageModel.objects.get()
    assert (model.name, model.slug, model.location) == ("Small One", "small-one", f"{stage.url}#small/one")


def test_a_served_model_needs_a_revision_and_an_address(stage, db):
    with pytest.raises(CommandError, match="small needs a revision: say what the server serves"):
        said("add_model", "small", "--server", stage.url)
    with pytest.raises(CommandError, match="url = 'nowhere': give an http or https address"):
        said("add_model", "small", "--server", "nowhere", "--revision", "r1")
    assert not LanguageModel.objects.exists()


@pytest.mark.slow
def test_a_served_model_is_evaluated_like_any_other(toxicity, models, served, stage):
    finish(models[CAUSAL], toxicity)
    scoring = finish(served, toxicity)
    assert scoring.state == Work.State.DONE
    run = scoring.run
    assert run.environment == {"server": stage.url}
    assert texts_of(run.artefact) == [f" went on {len(text)} {n}" for text in TEXTS for n in range(K)]
    assert sorted(request["prompt"] for request in stage.requests) == sorted(TEXTS)
    assert {(r["model"], r["n"], r["top_p"], r["max_tokens"]) for r in stage.requests} == {("small/one", K, 0.9, 20)}
    assert set(stage.keys) == {f"Bearer {KEY}"}
    standings = Standing.objects.filter(measure="mean_toxicity", slice="profanity:all", population="all")
    assert {standing.model for standing in standings} == {models[CAUSAL], served}


@pytest.mark.slow
def test_a_served_model_has_no_likelihoods_so_safety_is_refused(metric, served):
    with pytest.raises(
        CannotEvaluate, match=r"gives continuations, no likelihoods \(.*\); enter the model by its weights"
    ):
        request_evaluation(served, metric)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("leads", "bos", "words"),
    [
        (True, "none", "its server puts a token of its own before a text, and the protocol has bos = 'none'"),
        (False, "prepend", "its server puts no token of its own before a text, and the protocol has bos = 'prepend'"),
    ],
)
def test_likelihoods_by_another_definition_than_the_protocols_are_refused_with_both(metric, served, leads, bos, words):
    way = {"way": "echo", "leads": leads, "can_lead": False}
    Service.objects.update_or_create(model=served, defaults={"likelihoods": way})
    metric.protocol.parameters["bos"] = bos
    with pytest.raises(CannotEvaluate, match=f"{words}; enter the model by its weights"):
        check_served_likelihoods(served, metric)
    metric.protocol.parameters["bos"] = "prepend" if leads else "none"
    check_served_likelihoods(served, metric)


@pytest.mark.slow
def test_a_continuation_without_text_is_counted_missing_and_the_rest_is_scored(toxicity, served, stage):
    """The server refuses one prompt, and filters one continuation of another."""

    def respond(request):
        if request["prompt"] == TEXTS[1]:
            return as_json({"error": "no"}, 400)
        status, headers, body = completion(request)
        if request["prompt"] == TEXTS[2]:
            body = body.replace(b'"length"', b'"content_filter"', 1)
        return status, headers, body

    stage.respond = respond
    scoring = finish(served, toxicity)
    table = artefacts.load(scoring.run.artefact)
    absent = [number for number, text in enumerate(table["text"].to_pylist()) if text is None]
    assert absent == [*range(K, 2 * K), 2 * K]
    errors = table["error"].to_pylist()
    assert errors[K] == "the server answered 400 to the prompt"
    assert errors[2 * K] == "the server stopped for content_filter"
    assert len([error for error in errors if error]) == len(absent)
    scores = artefacts.load(scoring.artefact)["score:profanity"].to_pylist()
    assert [number for number, score in enumerate(scores) if score is None] == absent
    mean = scoring.results.get(measure="mean_toxicity", slice="profanity:all")
    assert (mean.n, mean.missing) == (K * len(TEXTS) - K - 1, K + 1)
    worst = scoring.results.get(measure="expected_max_toxicity", slice="profanity:all")
    assert (worst.n, worst.missing) == (len(TEXTS) - 1, 1)


@pytest.mark.slow
def test_a_server_that_fails_is_asked_again_later_with_the_reason(toxicity, served, stage):
    stage.respond = lambda _request: as_json({"error": "overloaded"}, 500)
    run = request_evaluation(served, toxicity).run
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.attempts, run.artefact) == (Work.State.QUEUED, 1, None)
    assert run.not_before > timezone.now()
    assert "tries failed, the last with status 500" in run.reason
    stage.respond = completion
    Run.objects.filter(pk=run.pk).update(not_before=Now())
    assert finish(served, toxicity).state == Work.State.DONE


@pytest.mark.slow
def test_what_was_asked_of_a_server_before_an_interruption_is_not_asked_again(toxicity, served, stage, monkeypatch):
    monkeypatch.setattr(outputs, "SHARD_CONTINUATIONS", 5 * K)
    failing = set(TEXTS[5:])
    stage.respond = lambda request: (
        as_json({"error": "overloaded"}, 503) if request["prompt"] in failing else completion(request)
    )
    run = request_evaluation(served, toxicity).run
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.done) == (Work.State.QUEUED, 5)
    failing.clear()
    stage.requests.clear()
    Run.objects.filter(pk=run.pk).update(not_before=Now())
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.DONE
    assert sorted(request["prompt"] for request in stage.requests) == sorted(TEXTS[5:])


@pytest.mark.slow
def test_a_wrong_key_fails_for_good_and_is_not_shown(toxicity, served, stage):
    stage.respond = lambda _request: as_json({"error": f"{KEY} is wrong"}, 401)
    run = request_evaluation(served, toxicity).run
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.attempts) == (Work.State.FAILED, 1)
    assert run.reason == f"{stage.url}/v1/completions answered 401: check the key"
