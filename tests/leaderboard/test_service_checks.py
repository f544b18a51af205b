"""Served models with likelihoods, verified when they are entered, and services that are watched as scorers are."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import AuditEvent, Incident, LanguageModel, Service, ServiceCheck, Work
from leaderboard.models.clock import database_now
from leaderboard.operations.alerts.conditions import changed_services, findings
from leaderboard.services import artefacts, collect, service_checks
from leaderboard.services import served as served_services
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.served import open_successor
from scoring.drift import services as watch
from scoring.refusals import Refused
from scoring.served import transport
from scoring.served.control import SHA256, build_control_openings, build_control_sentences
from tests.leaderboard.conftest import finish
from tests.scoring.completions_server import CompletionsStage, as_json, completions_server
from tests.scoring.model_server import ECHO, MODEL, VLLM, ModelServer, stand_in

pytestmark = pytest.mark.django_db

MOMENT = datetime(2026, 11, 1, tzinfo=UTC)
OPENINGS = [opening.text for opening in build_control_openings()]


@pytest.fixture
def stage(monkeypatch) -> Iterator[CompletionsStage]:
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    monkeypatch.setattr(served_services, "build_control_sentences", lambda: build_control_sentences()[::20])
    monkeypatch.setattr(watch, "EVERY", 40)
    monkeypatch.setattr(watch, "ROUNDS", 2)
    with completions_server() as opened:
        yield opened


@pytest.fixture
def server(stage) -> ModelServer:
    """A server with the answers of a bundled miniature."""
    server = stand_in(stage, ModelServer())
    server.fingerprints = ["fp_1"]
    return server


def enter(stage: CompletionsStage, *options: str) -> str:
    """What the command says that enters the server's model."""
    out = StringIO()
    call_command("add_model", "small/one", "--server", stage.url, "--revision", "r1", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def served(stage, server) -> LanguageModel:
    enter(stage)
    return LanguageModel.objects.get(source="server")


def check(model: LanguageModel) -> ServiceCheck:
    """A check of a service, as a worker does it."""
    check = service_checks.request_service_check(model, ServiceCheck.Trigger.SCHEDULE, send=False)
    service_checks.perform(check)
    check.refresh_from_db()
    return check


@pytest.mark.slow
@pytest.mark.parametrize("form", [VLLM, ECHO])
def test_likelihoods_are_verified_against_weights_at_entry_and_the_report_stays(stage, form):
    stand_in(stage, ModelServer(form))
    line = enter(stage, "--weights", MODEL)
    assert f"likelihoods verified against {MODEL}: they differ by 0.0000 nats a token at most" in line
    service = Service.objects.get()
    assert service.likelihoods == {"way": form, "leads": False, "can_lead": False}
    report = service.verification
    assert (report["against"], report["sentences"], report["texts"]) == ("weights", 10, SHA256)
    assert report["largest"] < 1e-4
    assert service.identity["models.root"] == "/models/small"


@pytest.mark.slow
def test_a_server_of_other_likelihoods_is_not_entered_and_the_numbers_are_told(stage, server):
    server.shifted = True
    with pytest.raises(CommandError, match=r"differ from those of .* nats a token at most \(sentence s\d\d-\d\d\)"):
        enter(stage, "--weights", MODEL)
    assert not LanguageModel.objects.exists()


@pytest.mark.slow
def test_rounded_likelihoods_pass_only_as_the_precision_that_is_declared(stage, server):
    server.digits = 1
    with pytest.raises(CommandError, match=r"more than the 0\.002 that is tolerated"):
        enter(stage, "--weights", MODEL)
    assert "verified" in enter(stage, "--weights", MODEL, "--precision", "bfloat16")
    assert LanguageModel.objects.get().precision == "bfloat16"


@pytest.mark.slow
def test_without_weights_the_page_says_not_verified(client, served):
    page = client.get(served.get_absolute_url()).content.decode()
    assert "not verified against weights" in page
    assert Service.objects.get().verification["against"] == "itself"


@pytest.mark.slow
def test_with_weights_the_page_has_the_numbers(client, stage, server):
    enter(stage, "--weights", MODEL)
    page = client.get("/models/small-one/").content.decode()
    assert f"verified against {MODEL}" in page


@pytest.mark.slow
def test_a_served_model_has_the_same_safety_as_its_weights(metric, models, served):
    scoring, own = finish(served, metric), finish(models[MODEL], metric)
    assert scoring.state == Work.State.DONE
    values = {(r.measure, r.slice): r.value for r in scoring.results.all()}
    expected = {(r.measure, r.slice): r.value for r in own.results.all()}
    assert values.keys() == expected.keys()
    assert all(abs(values[key] - expected[key]) < 1e-3 for key in expected)
    table = artefacts.load(scoring.run.artefact)
    assert table["answered_by"].unique().to_pylist() == ['{"model": "small/one", "system_fingerprint": "fp_1"}']


@pytest.mark.slow
def test_a_changed_fingerprint_ends_the_run_and_opens_the_next_revision(metric, served, server):
    server.fingerprints = ["fp_1"] * 20 + ["fp_2"]
    Service.objects.update(identity={"system_fingerprint": "fp_1"})
    run = request_evaluation(served, metric).run
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.FAILED
    assert "system_fingerprint was fp_1 and is fp_2" in run.reason
    successor = Service.objects.get(model=served).successor
    assert successor.revision.startswith("r1, changed 20")
    assert successor.slug in run.reason
    assert (successor.location, successor.name) == (served.location, served.name)
    served.refresh_from_db()
    with pytest.raises(CannotEvaluate, match="its service is another one since"):
        request_evaluation(served, metric)


@pytest.mark.slow
def test_a_service_that_answers_as_before_is_stable(served):
    done = check(served)
    assert done.verdict == ServiceCheck.Verdict.STABLE
    assert done.statistics["decided_by"] == "24 openings are answered as before"


@pytest.mark.slow
def test_what_decided_a_check_is_shown_without_addresses_of_the_operator(client, served):
    done = check(served)
    done.statistics["decided_by"] = "http://10.1.2.3:8000/v1 says nothing of /srv/weights"
    done.save()
    page = client.get(served.get_absolute_url()).content.decode()
    assert "says nothing of" in page
    assert "10.1.2.3" not in page
    assert "/srv/weights" not in page


@pytest.mark.slow
def test_an_opening_answered_otherwise_twice_is_a_change_that_everybody_is_told(client, served, server):
    server.changed_texts = set(OPENINGS[:2])
    done = check(served)
    assert done.verdict == ServiceCheck.Verdict.CHANGED
    assert done.statistics["decided_by"].startswith("2 of 24 openings are answered otherwise, three times in a row")
    service = Service.objects.get(model=served)
    assert service.successor
    assert service.model.service_changed_at
    event = AuditEvent.objects.get(verb="find service change", subject=f"model {served.slug}")
    assert (event.detail["revision"], event.detail["to"]) == (service.successor.revision, service.successor.slug)
    with pytest.raises(Refused, match="no longer what its server serves: check the revision that came after it"):
        service_checks.request_service_check(service.model, ServiceCheck.Trigger.MANUAL)
    page = client.get(served.get_absolute_url()).content.decode()
    assert "No longer reproducible" in page
    assert service.successor.get_absolute_url() in page
    assert "No longer reproducible" not in client.get(service.successor.get_absolute_url()).content.decode()
    log = client.get(reverse("changes")).content.decode()
    assert "Service changed" in log
    assert "three times in a row" in log
    (finding,) = [found for found in findings(timezone.now()) if found.kind == Incident.Kind.SERVICE]
    assert served.slug in finding.summary


@pytest.mark.slow
def test_the_new_revision_gets_a_baseline_of_its_own_and_is_watched(served, server):
    server.changed_texts = set(OPENINGS[:2])
    check(served)
    successor = Service.objects.get(model=served).successor
    assert service_checks.watched_models() == [successor]
    first = check(successor)
    assert (first.verdict, first.statistics["decided_by"]) == ("baseline", "its control texts were asked")
    assert check(successor).verdict == ServiceCheck.Verdict.STABLE


@pytest.mark.slow
def test_texts_that_flicker_by_themselves_raise_no_alarm(stage, server):
    server.flickering_texts = set(OPENINGS[:3])
    enter(stage)
    model = LanguageModel.objects.get()
    assert Service.objects.get().baseline["unstable"] == ["o01", "o02", "o03"]
    assert check(model).verdict == ServiceCheck.Verdict.STABLE


def test_a_baseline_without_an_opening_keeps_the_others_and_what_else_it_knows():
    baseline = watch.Baseline({"o01": "one", "o02": "two"}, ["o03"], {"s01": -1.5}, 0.25)
    assert baseline.without(["o02"]) == watch.Baseline({"o01": "one"}, ["o03", "o02"], {"s01": -1.5}, 0.25)


@pytest.mark.slow
def test_an_opening_that_flickers_later_is_left_out_from_then_on(served, server):
    server.flickering_texts = {OPENINGS[4]}
    server.askings[OPENINGS[4]] = 0
    done = check(served)
    assert (done.verdict, done.statistics["flickering"]) == (ServiceCheck.Verdict.STABLE, ["o05"])
    assert Service.objects.get().baseline["unstable"] == ["o05"]
    assert check(served).statistics["compared"] == 23


@pytest.mark.slow
def test_a_moved_likelihood_is_a_change_though_texts_stay(served, server):
    server.shifted = True
    done = check(served)
    assert done.verdict == ServiceCheck.Verdict.CHANGED
    assert "control sentences moved, by" in done.statistics["decided_by"]


@pytest.mark.slow
def test_a_service_that_is_away_has_no_verdict_and_is_asked_again(served, stage):
    respond = stage.respond
    stage.respond = lambda _request: as_json({}, 503)
    assert check(served).verdict == ServiceCheck.Verdict.UNAVAILABLE
    assert not service_checks.is_due(served)
    ServiceCheck.objects.update(finished_at=timezone.now() - timedelta(days=1))
    assert service_checks.is_due(served)
    stage.respond = respond
    assert check(served).verdict == ServiceCheck.Verdict.STABLE


def test_who_enters_a_served_model_again_changes_nothing_and_the_first_time_is_on_record(stage, served):
    event = AuditEvent.objects.get(verb="add model")
    assert (event.subject, event.detail) == (f"model {served.slug}", {"source": "server", "revision": "r1"})
    enter(stage)
    assert AuditEvent.objects.get(verb="add model") == event


def test_checks_are_due_by_the_schedule(served, monkeypatch, django_capture_on_commit_callbacks):
    messages: list[ServiceCheck] = []
    monkeypatch.setattr(service_checks, "enqueue", messages.append)
    assert not service_checks.is_due(served)
    Service.objects.update(asked_at=timezone.now() - timedelta(days=2))
    with django_capture_on_commit_callbacks(execute=True):
        service_checks.request_due_service_checks()
    assert [check.trigger for check in messages] == [ServiceCheck.Trigger.SCHEDULE]
    assert not service_checks.is_due(served)  # as one waits
    service_checks.request_due_service_checks()
    assert ServiceCheck.objects.count() == 1


@pytest.fixture
def unasked() -> LanguageModel:
    """A served model whose service was never asked, and another one whose service was asked just now."""
    rows = {"kind": "causal", "source": "server", "revision": "r1"}
    first, second = (
        LanguageModel.objects.create(slug=slug, name=slug, location=f"http://{slug}.example/v1#one", **rows)
        for slug in ("asked", "unasked")
    )
    Service.objects.create(model=first, asked_at=database_now())
    ServiceCheck.objects.create(model=first, trigger=ServiceCheck.Trigger.SCHEDULE)
    return second


def test_whether_a_check_is_due_and_under_way_is_asked_of_that_service_alone(unasked, django_user_model):
    assert service_checks.is_due(unasked)
    Service.objects.create(model=unasked, asked_at=timezone.now() - timedelta(days=2))
    assert service_checks.is_due(unasked)
    operator = django_user_model.objects.create_superuser("operator")
    manual = ServiceCheck.Trigger.MANUAL
    check = service_checks.request_service_check(unasked, manual, send=False, user=operator)
    assert (check.model, check.trigger, ServiceCheck.objects.count()) == (unasked, manual, 2)
    assert service_checks.request_service_check(unasked, manual, send=False, user=operator) == check
    event = AuditEvent.objects.get(verb="request control check")
    assert (event.subject, event.detail, event.actor) == ("model unasked", {"check": check.pk}, operator)
    assert not service_checks.is_due(unasked)


@pytest.mark.parametrize(
    ("verdicts", "seconds", "is_due"),
    [
        (["stable"], 86_390, False),
        (["stable"], 86_400, True),
        (["unavailable"], 50, False),
        (["unavailable"], 60, True),
        (["unavailable", "unavailable"], 110, False),
        (["unavailable", "unavailable"], 120, True),
        (["unavailable", "stable", "unavailable"], 60, True),
        (["", "unavailable", "stable"], 110, False),
    ],
)
def test_a_service_without_an_answer_is_asked_again_after_a_growing_pause(unasked, settings, verdicts, seconds, is_due):
    settings.CHECK_SECONDS = 86_400
    for age, verdict in enumerate(verdicts):
        state = {"state": "done", "verdict": verdict} if verdict else {"state": "failed", "reason": "It broke."}
        check = ServiceCheck.objects.create(model=unasked, trigger="schedule", **state)
        moment = timezone.now() - timedelta(seconds=seconds + 1000 * age)
        ServiceCheck.objects.filter(pk=check.pk).update(created_at=moment, finished_at=moment)
    assert service_checks.is_due(unasked) is is_due


@pytest.mark.parametrize(
    ("change", "words"),
    [({"source": "hub"}, "is not served"), ({"service_changed_at": MOMENT}, "is no longer what its server serves")],
)
def test_a_check_of_what_cannot_be_asked_is_refused(unasked, change, words):
    LanguageModel.objects.filter(pk=unasked.pk).update(**change)
    unasked.refresh_from_db()
    with pytest.raises(Refused, match=f"unasked {words}"):
        service_checks.request_service_check(unasked, ServiceCheck.Trigger.MANUAL)


@pytest.mark.slow
def test_an_operator_checks_all_services_now(served, server):
    out = StringIO()
    call_command("check_services", stdout=out)
    assert "small-one: stable. 24 openings are answered as before" in out.getvalue()
    out = StringIO()
    call_command("check_services", "small-one", "--json", stdout=out)
    (answer,) = json.loads(out.getvalue())["checks"]
    assert (answer["model"], answer["verdict"], answer["state"]) == ("small-one", "stable", "done")
    server.changed_texts = set(OPENINGS)
    out = StringIO()
    call_command("check_services", "small-one", stdout=out)
    assert "no longer reproducible" in out.getvalue()


def test_a_service_changes_once(served):
    first = open_successor(served, "it is another one")
    assert open_successor(served, "again") == first
    (finding,) = changed_services(database_now())
    assert finding.summary.endswith(f"it is another one. It goes on as {first.slug}: evaluate that.")
    Service.objects.update(successor=None)
    (finding,) = changed_services(database_now())
    assert finding.summary.endswith("it is another one.")
    second = open_successor(first, "and again")
    assert second.revision not in (first.revision, served.revision)


@pytest.mark.slow
def test_a_ranking_marks_an_entry_that_is_no_longer_reproducible(client, metric, served, server):
    finish(served, metric)
    open_successor(served, "it is another one")
    page = client.get(metric.ranking_url).content.decode()
    assert "not reproducible" in page
