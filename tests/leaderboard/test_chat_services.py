"""Chat models behind a service: pinned, within a spending limit, and with keys that nobody sees."""

import io
import json
import logging
from io import StringIO

import pytest
from django.core import serializers
from django.core.management import call_command
from django.db.models.functions import Now

from leaderboard import models as tables
from leaderboard.models import LanguageModel, Metric, Run, Work
from leaderboard.services import collect, spending
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.manifest import manifest
from scoring.metrics import outputs
from scoring.served import transport
from tests.leaderboard.conftest import finish
from tests.leaderboard.continuations import TEXTS, K, import_sample, of_few, texts_of
from tests.scoring.completions_server import as_json, chat_completion, completions_server

pytestmark = pytest.mark.django_db

KEY = "sk-one-of-several"


@pytest.fixture
def stage(monkeypatch, settings):
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    with completions_server() as stage:
        settings.COMPLETIONS_API_KEY = "sk-of-nobody"
        settings.COMPLETIONS_API_KEYS = {f"{stage.url}/v1": KEY, "https://other.example/v1": "sk-of-another"}
        yield stage


@pytest.fixture
def toxicity(db, tmp_path) -> Metric:
    import_sample(tmp_path)
    return of_few("toxicity-profanity")


@pytest.fixture
def service(stage) -> LanguageModel:
    """A chat service, as an operator enters it."""
    call_command(
        *("add_model", "small/one", "--server", f"{stage.url}/v1"),
        *("--revision", "small-2026-11-01", "--interface", "chat"),
        stdout=StringIO(),
    )
    stage.requests.clear()
    stage.keys.clear()
    return LanguageModel.objects.get(source="server")


def collected(run: Run) -> Run:
    Run.objects.filter(pk=run.pk).update(not_before=None)
    collect.collect(run)
    run.refresh_from_db()
    return run


@pytest.mark.slow
def test_a_service_is_entered_by_chat_and_asked_by_the_chat_protocol(toxicity, service, stage):
    assert (service.interface, service.slug, service.revision) == ("chat", "small-one-chat", "small-2026-11-01")
    scoring = finish(service, toxicity)
    assert scoring.state == Work.State.DONE, scoring.reason
    assert len(stage.requests) == len(TEXTS)
    assert {request["max_completion_tokens"] for request in stage.requests} == {64}
    assert len(texts_of(scoring.run.artefact)) == K * len(TEXTS)
    assert scoring.run.chat["served_models"] == ["small/one"]
    assert scoring.run.chat["answers"] == K * len(TEXTS)
    assert (scoring.run.requests_made, scoring.run.tokens_used) == (10, 10 * (50 + 4 * K))


def test_a_service_enters_by_chat_alone(metric, service):
    with pytest.raises(CannotEvaluate, match="no likelihoods"):
        request_evaluation(service, metric)


@pytest.mark.slow
def test_another_snapshot_ends_the_run_with_both_names(toxicity, service, stage):
    stage.respond = lambda request: chat_completion(request | {"model": "small-2026-12-24"})
    run = collected(request_evaluation(service, toxicity).run)
    assert run.state == Work.State.FAILED
    assert "answers as 'small-2026-12-24', and pinned is small-2026-11-01 or small/one" in run.reason


@pytest.mark.slow
def test_a_run_stops_before_its_limit_and_goes_on_where_it_was(toxicity, service, stage, settings, monkeypatch):
    monkeypatch.setattr(outputs, "SHARD_CONTINUATIONS", 4 * K)  # parts of four, four and two prompts
    settings.SERVED_MOST_REQUESTS = 9
    run = collected(request_evaluation(service, toxicity).run)
    assert (run.state, run.done, run.requests_made) == (Work.State.FAILED, 8, 8)
    assert len(stage.requests) == 8
    assert "8 of 9 requests" in run.reason
    assert "the next part may take 2 requests" in run.reason
    assert "Raise SERVED_MOST_REQUESTS or SERVED_MOST_TOKENS" in run.reason
    run = collected(request_evaluation(service, toxicity).run)  # the same count goes on
    assert (run.state, len(stage.requests)) == (Work.State.FAILED, 8)
    settings.SERVED_MOST_REQUESTS = 10
    stage.respond = lambda request: chat_completion(request | {"model": "small-2026-11-01"})
    run = collected(request_evaluation(service, toxicity).run)
    assert (run.state, run.requests_made, len(stage.requests)) == (Work.State.DONE, 10, 10)
    assert run.chat["served_models"] == ["small-2026-11-01", "small/one"], "also who answered before it stopped"


@pytest.mark.slow
def test_tokens_have_a_limit_of_their_own(toxicity, service, stage, settings):
    settings.SERVED_MOST_TOKENS = 1000
    run = collected(request_evaluation(service, toxicity).run)
    assert (run.state, run.tokens_used, stage.requests) == (Work.State.FAILED, 0, [])
    assert "0 of 1,000 tokens are spent" in run.reason


def test_what_a_killed_worker_had_set_aside_stays_counted(toxicity, service, settings):
    run = request_evaluation(service, toxicity).run
    aside = spending.set_aside(run, 10, 1000)
    allowance = aside.__enter__()  # and it never comes back
    allowance.take(100)
    run.refresh_from_db()
    assert (run.requests_made, run.tokens_used) == (20, 2000)
    settings.SERVED_MOST_REQUESTS = 25
    with pytest.raises(spending.SpendingLimitReached, match="20 of 25 requests"), spending.set_aside(run, 10, 1000):
        pass


@pytest.mark.slow
def test_requests_that_are_tried_again_count_too(toxicity, service, stage):
    stage.answers = [as_json({}, 500), as_json({}, 429)]
    run = collected(request_evaluation(service, toxicity).run)
    assert (run.state, run.requests_made) == (Work.State.DONE, 12)


def test_each_address_gets_its_own_key(stage, settings):
    assert spending.key_for(f"{stage.url}/v1") == KEY
    assert spending.key_for(f"{stage.url}/v1/chat/completions") == KEY
    assert spending.key_for("https://other.example/v1") == "sk-of-another"
    assert spending.key_for("https://other.example/v12") == "sk-of-nobody"
    assert spending.key_for("https://other.example.evil.org/v1") == "sk-of-nobody"
    assert spending.key_for("http://other.example/v1") == "sk-of-nobody"


@pytest.mark.slow
def test_no_key_is_stored_or_shown(toxicity, service, stage, caplog):
    caplog.set_level(logging.DEBUG)
    first = finish(service, toxicity)
    assert first.state == Work.State.DONE
    assert set(stage.keys) == {f"Bearer {KEY}"}
    LanguageModel.objects.filter(pk=service.pk).update(revision="another")
    Run.objects.filter(pk=first.run.pk).update(epoch=7, not_before=Now())
    stage.respond = lambda _request: as_json({"error": f"{KEY} is wrong"}, 401)
    failed = collected(Run.objects.create(model=service, protocol=first.run.protocol))
    assert failed.state == Work.State.FAILED
    database = io.StringIO()
    for table in (tables.LanguageModel, tables.Run, tables.Scoring, tables.AuditEvent, tables.Metric, tables.Protocol):
        database.write(serializers.serialize("json", table.objects.all()))
    seen = database.getvalue() + caplog.text + json.dumps(manifest(first.metric_version), default=str)
    assert "small-one-chat" in seen
    assert KEY not in seen
    assert "sk-of" not in seen
