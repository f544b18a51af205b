"""What an operator's instruments see: log lines, readiness, metrics, errors; and what they must never see."""

import json
import logging
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import sentry_sdk
import structlog
import torch
from celery.signals import beat_init, heartbeat_sent, worker_shutdown
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import default_storage
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from leaderboard import logs, sentry, worker
from leaderboard.models import WORK_TABLES, ControlCheck, Scoring, Worker
from leaderboard.operations.monitoring import readiness
from leaderboard.services import checks, evaluate, leases, signs_of_life
from leaderboard.services.failures import FailureKind, failure_called
from scoring.artefacts import ArtefactError
from scoring.language_models import ModelRefused
from scoring.scorers import ScorerUnavailable
from scoring.served import ServerRefused
from tests.leaderboard import living

pytestmark = pytest.mark.django_db

TEXT = "an offensive text that nobody should read in a log"
VISITOR = "192.0.2.7"
TOKEN = "plumb_" + "abcdefghij" * 4


class Lines:
    """What a handler with the board's formatter wrote."""

    def __init__(self) -> None:
        self.stream = StringIO()

    def text(self) -> str:
        return self.stream.getvalue()

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


@pytest.fixture
def written(request, settings):
    """The lines that loggers of the board and of requests write, in the style that the test asks for."""
    style, lines = getattr(request, "param", "json"), Lines()
    handler = logging.StreamHandler(lines.stream)
    handler.setFormatter(logs.formatter(style))
    names = ("leaderboard", "leaderboard.middleware", "django_structlog", "django.request")
    before = [logging.getLogger(name).level for name in names]
    logging.getLogger().addHandler(handler)
    for name in names:
        logging.getLogger(name).setLevel("INFO" if name != "django.request" else "CRITICAL")
    yield lines
    logging.getLogger().removeHandler(handler)
    for name, level in zip(names, before, strict=True):
        logging.getLogger(name).setLevel(level)


# Requests


@pytest.mark.parametrize("given", ["3f2a9c10-77aa-4c1e", "build.7_of-2026", "A" * 64])
def test_a_well_formed_request_id_is_taken_and_returned(client, written, given):
    response = client.get(reverse("healthz"), headers={"x-request-id": given})
    assert response["X-Request-ID"] == given
    line = next(line for line in written.json() if line["event"] == "request_finished")
    assert (line["request_id"], line["request"], line["code"]) == (given, "GET /healthz", 200)
    assert line["level"] == "info"
    assert line["duration_ms"] >= 0


@pytest.mark.parametrize(
    "given", ["short", "x" * 65, "a b c d e f g h", "<script>alert(1)</script>", "ada@board.example"]
)
def test_any_other_is_replaced(client, given):
    response = client.get(reverse("healthz"), headers={"x-request-id": given})
    assert len(response["X-Request-ID"]) == 32
    assert response["X-Request-ID"] != client.get(reverse("healthz"))["X-Request-ID"]


def test_the_address_of_a_request_is_logged_without_its_query_and_its_keys(client, written):
    client.get(f"/rankings/?q={TOKEN}&search=some+words")
    client.get("/accounts/confirm-email/MQ:1abcdef:sEcReTsEcReT/")
    client.get("/accounts/password/reset/key/3-sEcReT/")
    client.get("/accounts/signup/?invitation=sEcReT")
    assert "sEcReT" not in written.text()
    assert "some" not in written.text()
    assert TOKEN not in written.text()
    assert next(line["request"] for line in written.json() if line["event"] == "request_finished") == "GET /rankings/"


def test_an_error_is_logged_with_its_place_and_the_id_and_without_what_it_quotes(client, written, monkeypatch):
    def fails(*_: object) -> None:
        raise ValueError(f"cannot read {TEXT!r} of ada@board.example")

    monkeypatch.setattr("leaderboard.queries.changes.changes_page", fails)
    client.raise_request_exception = False
    response = client.get(reverse("about"), headers={"x-request-id": "the-failing-one"})
    assert response.status_code == 500
    line = next(line for line in written.json() if line["event"] == "request_failed")
    assert line["request_id"] == "the-failing-one"
    assert "in fails" in line["exception"]
    assert f"ValueError: {logs.WITHHELD}" in line["exception"]
    for private in (TEXT, "ada@"):
        assert private not in written.text()


@pytest.mark.parametrize("written", ["lines"], indirect=True)
def test_lines_for_people_are_short_and_end_with_the_ids(written):
    structlog.contextvars.clear_contextvars()
    with structlog.contextvars.bound_contextvars(run=12, task_id="3f2a9c10-77aa-4c1e-9a2b-1f0f0f0f0f0f"):
        logging.getLogger("leaderboard.services.collect").info("%s: collected in %.0f s", "gpt2 on starter v1", 5)
    assert written.text().rstrip().partition(" ")[2] == (
        "INFO    leaderboard.services.collect: gpt2 on starter v1: collected in 5 s  run=12 task=3f2a9c10"
    )


@pytest.mark.parametrize("written", ["lines"], indirect=True)
def test_a_quoted_text_neither_begins_a_line_nor_reaches_the_terminal(written):
    logging.getLogger("leaderboard.test").warning("refused: %s", "a\nb \x1b[2J c\u202e é")
    (line,) = written.text().splitlines()
    assert r"refused: a\nb \x1b[2J c\u202e é" in line


def test_requests_and_tasks_are_not_told_at_the_terminal(settings):
    for name in ("django_structlog", "leaderboard.middleware"):
        assert settings.LOGGING["loggers"][name]["level"] == "CRITICAL"


# Work


@pytest.mark.slow
def test_lines_about_work_name_it(tmp_path, written):
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        scoring = evaluate.request_evaluation(living.entrant(1, metric), metric, send=False)
        living.drain()
    line = next(line for line in written.json() if line["event"].endswith(": scored"))
    assert line["scoring"] == scoring.pk
    texts = [ending for ending in living.ENDINGS if ending in written.text()]
    assert not texts


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ScorerUnavailable("it is down"), "scorer"),
        (ModelRefused("it has pickled weights"), "model"),
        (ServerRefused("wrong key"), "server"),
        (leases.ScorerChanged("closed"), "version"),
        (ArtefactError("damaged"), "files"),
        (FileNotFoundError("gone"), "files"),
        (MemoryError(), "memory"),
        (torch.OutOfMemoryError("CUDA"), "memory"),
        (DatabaseError("locked"), "database"),
        (ConnectionResetError("by peer"), "system"),
        (ValueError(TEXT), "other"),
    ],
)
def test_a_failure_has_a_reason_of_a_closed_set(tmp_path, settings, error, failure):
    settings.MOST_ATTEMPTS = 1
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        scoring = evaluate.request_evaluation(living.entrant(1, metric), metric, send=False)
    with leases.claim(scoring):
        raise error
    scoring.refresh_from_db()
    assert failure_called(scoring.fault).kind == failure
    assert failure in FailureKind.values


def test_a_line_is_dated_by_its_record_or_else_now():
    record = logging.LogRecord("one", logging.INFO, __file__, 1, "said", (), None)
    record.created = 86400.5
    assert logs.add_time(None, "", {"_record": record})["timestamp"] == "1970-01-02T00:00:00.500+00:00"
    assert logs.add_time(None, "", {})["timestamp"][:10] == f"{timezone.now():%Y-%m-%d}"


# What stands in no line


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("mail to Ada.Lovelace+x@mail.board.example failed", "mail to [e-mail] failed"),
        (f"the token {TOKEN} is revoked", "the token [hidden] is revoked"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [hidden]"),
        ("postgresql://plumbline:pass:word@db/name", "postgresql://[hidden]@db/name"),
        ("GET https://api.example/v1?key=AIzaSyD&x=1", "GET https://api.example/v1?key=[hidden]&x=1"),
        ("/accounts/password/reset/key/3-abc-def/", "/accounts/password/reset/key/[hidden]/"),
        ("/accounts/password/reset/key/done/", "/accounts/password/reset/key/done/"),
        ("shard 3 of 12, 4.5 s, sha256:abc", "shard 3 of 12, 4.5 s, sha256:abc"),
    ],
)
def test_secrets_and_addresses_of_people_are_taken_out(said, left):
    assert logs.scrub_text(said) == left


@pytest.mark.parametrize("name", logs.SECRET_SETTINGS)
def test_the_keys_among_the_settings_are_known(settings, name):
    setattr(settings, name, "quite/a+secret")
    assert logs.scrub_text("it was quite/a+secret, no?") == "it was [hidden], no?"


@pytest.mark.parametrize("error", [ValueError, KeyError, UnicodeError, TypeError, AssertionError])
def test_errors_that_may_quote_are_told_by_kind_and_place_only(error):
    try:
        try:
            raise error(TEXT)
        except error as inner:
            raise OSError("the disk of ada@board.example is full") from inner
    except OSError as outer:
        trace = logs.format_exception(outer)
    assert TEXT not in trace
    assert f"{error.__name__}: {logs.WITHHELD}" in trace
    assert "OSError: the disk of [e-mail] is full" in trace
    assert trace.count("test_insight.py") == 2


# Ready or not


def ready(client: Client) -> tuple[int, dict[str, str]]:
    response = client.get(reverse("readyz"))
    assert response["Cache-Control"].startswith("max-age=0")
    found = response.json()
    assert found["ready"] is (response.status_code == 200)
    return response.status_code, found["checks"]


def test_a_board_with_all_it_needs_is_ready_and_leaves_nothing_behind(client, settings):
    settings.ALERT_SWEEP_SECONDS = 1e9  # no worker sweeps for the tests
    assert ready(client) == (200, dict.fromkeys(("database", "migrations", "broker", "storage", "sweep"), "ok"))
    assert not default_storage.exists("readyz") or default_storage.listdir("readyz")[1] == []


def test_what_is_missing_is_named_without_addresses(client, settings, monkeypatch):
    settings.CELERY_BROKER_URL = "redis://:geheim@127.0.0.1:1/0"
    monkeypatch.setattr(default_storage._wrapped, "save", lambda *_: (_ for _ in ()).throw(PermissionError("/srv/x")))
    status, found = ready(client)
    assert (status, found["database"], found["migrations"]) == (503, "ok", "ok")
    assert found["broker"] == "does not answer (OperationalError)"
    assert found["storage"] == "does not answer (PermissionError)"


def test_a_database_of_an_older_version_is_not_ready():
    newest = MigrationLoader(connection).graph.leaf_nodes("leaderboard")[0]
    MigrationRecorder(connection).record_unapplied(*newest)
    assert readiness.migrations() == "not applied: 1; run `manage.py migrate`"


def test_what_does_not_answer_in_time_is_not_waited_for(client, monkeypatch):
    from threading import Event

    over = Event()
    monkeypatch.setattr(readiness, "PATIENCE", 0.01)
    monkeypatch.setattr(readiness, "CHECKS", {"broker": lambda: str(over.wait(30)) and ""})
    assert ready(client) == (503, {"broker": "no answer in 0.01 seconds"})
    over.set()


# Metrics


def metrics(client: Client, **headers: str) -> dict[str, float]:
    """Every sample by its name and labels, as Prometheus reads them."""
    response = client.get("/metrics", headers=headers)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> str:
    return f"{name}{sorted(labels.items()) or ''}"


def test_metrics_are_for_this_machine_unless_there_is_a_token(client, settings):
    assert client.get("/metrics").status_code == 200
    for elsewhere in ({"REMOTE_ADDR": "192.0.2.7"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.7"}, {"REMOTE_ADDR": ""}):
        response = client.get("/metrics", **elsewhere)
        assert response.status_code == 403
        assert "for this machine only, until METRICS_TOKEN is set" in response.content.decode()
    settings.METRICS_TOKEN = "let-me-read"
    for header in ("", "Bearer wrong", "Basic let-me-read", "Bearer "):
        response = client.get("/metrics", headers={"authorization": header})
        assert response.status_code == 403
        assert "Send `Authorization: Bearer`" in response.content.decode()
    headers = {"authorization": "Bearer let-me-read"}
    assert client.get("/metrics", headers=headers, REMOTE_ADDR="192.0.2.7").status_code == 200


@pytest.mark.slow
def test_metrics_tell_what_the_database_knows(client, tmp_path, settings):
    with living.standing_in() as stage:
        metric = living.small_metric(tmp_path)
        for number in (1, 2):
            living.submit(living.entrant(number, metric), metric)
        living.drift(stage)
        checks.request_check(metric, "manual", send=False)
        living.drain()
        waiting = evaluate.request_evaluation(living.entrant(3, metric), metric, send=False)
        settings.MOST_ATTEMPTS = 1
        failing = evaluate.request_evaluation(living.entrant(4, metric), metric, send=False)
        with leases.claim(failing):
            raise RuntimeError("a bug")
    done = Scoring.objects.filter(state="done")
    for place, seconds in enumerate((0.5, 4.0, 30.0, 0.0)):
        Scoring.objects.filter(pk=done.order_by("pk")[place].pk).update(seconds=seconds)
    timed = done.filter(seconds__gt=0)
    signs_of_life.beat("default@one", ["default"])
    signs_of_life.beat("gpu@one", ["gpu"])
    Worker.objects.filter(name="gpu@one").update(beat_at=timezone.now() - timedelta(minutes=5))
    found = metrics(client)
    assert found[key("plumbline_work", kind="scoring", state="done")] == done.count() == 4
    assert found[key("plumbline_work", kind="scoring", state="queued")] == 1
    assert found[key("plumbline_work", kind="run", state="failed")] == 0
    assert found[key("plumbline_failed", kind="scoring", reason="other")] == 1
    assert found[key("plumbline_failed", kind="scoring", reason="model")] == 0
    assert found[key("plumbline_queue_depth", queue="default")] == 1
    assert waiting.state == "queued"
    assert found[key("plumbline_workers", queue="default")] == 1
    assert found[key("plumbline_workers", queue="gpu")] == 0
    assert found[key("plumbline_checks_total", metric=living.SLUG, verdict="drifted")] == 1
    assert found["plumbline_lease_age_seconds"] == 0, "nothing runs"
    assert found[key("plumbline_scoring_seconds_bucket", le="1.0")] == 1, "without what took no time, as it was kept"
    assert found[key("plumbline_scoring_seconds_bucket", le="+Inf")] == found["plumbline_scoring_seconds_count"] == 3
    assert found["plumbline_scoring_seconds_sum"] == pytest.approx(sum(done.values_list("seconds", flat=True)))
    assert found[key("plumbline_texts_total", kind="scoring")] == sum(timed.values_list("done", flat=True))
    assert found[key("plumbline_texts_per_second", kind="scoring")] == pytest.approx(
        sum(timed.values_list("done", flat=True)) / sum(done.values_list("seconds", flat=True))
    )
    ended = ControlCheck.objects.latest("finished_at").finished_at.timestamp()
    assert found[key("plumbline_last_check_timestamp_seconds", metric=living.SLUG)] == pytest.approx(ended)
    assert found[key("plumbline_incidents", kind="drift")] == 0
    with CaptureQueriesContext(connection) as queries:
        client.get("/metrics")
    assert len(queries) <= 13 + 3 * len(WORK_TABLES)


def test_requests_are_timed_by_page_and_never_by_what_visitors_type(client):
    client.get(reverse("healthz"))
    client.get("/no/such/page/ada@board.example")
    client.generic("BREW", reverse("healthz"))
    found = metrics(client)
    assert found[key("plumbline_http_request_seconds_count", method="GET", view="healthz", status="2xx")] >= 1
    assert found[key("plumbline_http_request_seconds_count", method="GET", view="none", status="4xx")] >= 1
    assert found[key("plumbline_http_request_seconds_count", method="other", view="healthz", status="4xx")] >= 1
    assert not any("ada" in name for name in found)


# Workers


def test_a_worker_gives_signs_of_life_now_and_then_and_says_when_it_goes(monkeypatch):
    eventer = type("Eventer", (), {"hostname": "gpu@here"})
    heart = type("Heart", (), {"eventer": eventer})
    monkeypatch.setattr(worker, "_last_beat", -signs_of_life.BEAT_SECONDS)
    heartbeat_sent.send(sender=heart)
    first = Worker.objects.get(name="gpu@here")
    heartbeat_sent.send(sender=heart)  # two seconds later: too soon to write again
    assert Worker.objects.get().beat_at == first.beat_at
    assert Worker.objects.alive().count() == 1
    worker_shutdown.send(sender=eventer)
    assert not Worker.objects.exists()


def test_a_worker_refuses_to_fork_its_beat():
    command = [sys.executable, "-m", "celery", "--app", "leaderboard", "worker", "--beat"]
    worker_with_beat = subprocess.run(command, capture_output=True, text=True, check=False)
    assert worker_with_beat.returncode == 1
    assert "start beat as a process of its own, by `celery --app leaderboard beat`" in worker_with_beat.stderr


def test_beat_sweeps_looks_for_incidents_and_sends_messages(monkeypatch):
    works = []
    monkeypatch.setattr(worker, "start_thread", lambda _name, work, *_options: works.append(work))
    beat_init.send(sender=None)
    assert works == [worker.keep_sweeping, worker.keep_looking, worker.keep_sending]


# Sentry


def test_what_leaves_for_sentry_holds_no_person_no_text_and_no_secret(settings):
    settings.METRICS_TOKEN = "a-secret-of-ours"
    sent: list[dict[str, Any]] = []

    class Transport(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope: Any) -> None:
            sent.append(envelope.get_event())

    client = sentry_sdk.Client(
        **sentry.options("https://key@sentry.example/1"), transport=Transport, default_integrations=False
    )
    with sentry_sdk.new_scope() as scope:
        scope.set_client(client)
        scope.set_user({"email": "ada@board.example", "ip_address": VISITOR})
        scope.set_extra("prompt", TEXT)
        try:
            prompt = TEXT
            raise ValueError(f"{prompt} a-secret-of-ours")
        except ValueError:
            sentry_sdk.capture_exception()
        sentry_sdk.capture_message(f"mail to ada@board.example with {TOKEN}")
    whole = json.dumps(sent, default=str)
    assert len(sent) == 2
    assert "ValueError" in whole
    assert "test_insight.py" in whole
    for private in (f'"{TEXT}', "a-secret-of-ours", "ada@board", VISITOR, TOKEN):
        assert private not in whole


def test_sentry_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentry_sdk", None)
    with pytest.raises(ImproperlyConfigured, match="pip install"):
        sentry.begin("https://key@sentry.example/1")
