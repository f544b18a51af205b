"""Operators are told once that something is wrong, and once that it is over, however often their receivers fail."""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import ControlCheck, Incident, Metric, OutboxMessage, Rescoring, Run, Scoring, Work
from leaderboard.operations import alerts
from leaderboard.operations.alerts import delivery, incidents
from leaderboard.operations.alerts.finding import AlertFinding
from leaderboard.services import checks, evaluate, rescore, signs_of_life
from leaderboard.services.outbox import send_due
from tests.leaderboard import living
from tests.loopback import QuietHandler, serving

pytestmark = pytest.mark.django_db

SECRET = "a secret that receivers share"


@dataclass
class Receiver:
    """A webhook whose answers a test chooses, and what came to it."""

    status: int = 200
    slow: threading.Event | None = None
    taken: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    signatures: list[tuple[str | None, bytes]] = field(default_factory=list)
    address: str = ""

    def events(self) -> list[tuple[str, str]]:
        return [(body["event"], body["incident"]["kind"]) for body in self.taken]


class Handler(QuietHandler):
    stage: Receiver

    def do_POST(self) -> None:  # noqa: N802
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.stage.slow:
            self.stage.slow.wait(20)
        if 200 <= self.stage.status < 300:
            self.stage.taken.append(json.loads(content))
        else:
            self.stage.refused += 1
        self.stage.signatures.append((self.headers.get("X-Plumbline-Signature"), content))
        self.send_response(self.stage.status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()


@pytest.fixture(autouse=True)
def _swept(db):
    signs_of_life.pulse("sweep")


@pytest.fixture
def receiver(settings) -> Iterator[Receiver]:
    stage = Receiver()
    with serving(Handler, stage) as address:
        stage.address = f"{address}/hook?token=of-the-receiver"
        settings.ALERT_WEBHOOK = [stage.address]
        yield stage


@pytest.fixture
def stage():
    with living.standing_in() as found:
        yield found


@pytest.fixture
def board(load_living: Callable[[int], Metric], stage: living.Stage) -> Metric:
    return load_living(2)


def told() -> None:
    """What beat does each minute, with all pauses over."""
    alerts.look()
    OutboxMessage.objects.update(not_before=Now())
    send_due([alerts.ALERTS])


def later(**ago: float) -> None:
    """Let it be so long after all incidents were opened."""
    Incident.objects.update(opened_at=F("opened_at") - timedelta(**ago))


def fail(board: Any, number: int) -> Scoring:
    """An evaluation that failed."""
    scoring = evaluate.request_evaluation(living.entrant(number, board), board, send=False)
    failed = {"state": Work.State.FAILED, "reason": "an offensive text", "fault": "ModelRefused"}
    Scoring.objects.filter(pk=scoring.pk).update(**failed, finished_at=timezone.now())
    return scoring


# What is told


@pytest.mark.slow
def test_a_drift_is_told_once_and_again_when_its_rescoring_is_published(board, stage, receiver):
    living.drift(stage)
    check = checks.request_check(board, "manual", send=False)
    living.deliver(check)
    for _ in range(3):
        told()
        later(minutes=1)
    assert receiver.events() == [("opened", "drift")]
    incident = receiver.taken[0]["incident"]
    assert incident["subject"] == f"metric {living.SLUG}"
    assert incident["url"].endswith(f"{reverse('drift')}?metric={living.SLUG}&check={check.pk}")
    living.drain()
    assert Rescoring.objects.get().state == "published"
    for _ in range(3):
        told()
    assert receiver.events() == [("opened", "drift"), ("resolved", "drift")]
    assert receiver.taken[1]["incident"]["resolved_at"]
    assert receiver.taken[1]["text"].startswith("[Plumbline] Over: ")


@pytest.mark.slow
def test_a_drift_that_was_over_before_anybody_looked_is_told_too(board, stage, receiver):
    living.drift(stage)
    checks.request_check(board, "manual", send=False)
    living.drain()
    told()
    assert receiver.events() == [("opened", "drift")]
    later(minutes=1)
    for _ in range(2):
        told()
    assert receiver.events() == [("opened", "drift"), ("resolved", "drift")]


@pytest.mark.slow
def test_failures_are_told_by_kind_and_reason_and_are_over_when_begun_anew(board, receiver):
    failed = [fail(board, number) for number in (3, 4)]
    told()
    failed.append(fail(board, 5))
    told()
    assert receiver.events() == [("opened", "failed")]
    assert receiver.taken[0]["incident"]["summary"] == "2 scorings failed. The model cannot be run."
    assert "offensive" not in json.dumps(receiver.taken)
    for scoring in failed:
        scoring.refresh_from_db()
        assert scoring.queue_again()
    told()
    assert receiver.events() == [("opened", "failed"), ("resolved", "failed")]
    Scoring.objects.filter(pk=failed[0].pk).update(
        state=Work.State.FAILED, reason="again", fault="ModelRefused", finished_at=timezone.now()
    )
    told()  # the same kind of failure, later: another incident
    assert receiver.events()[2:] == [("opened", "failed")]


@pytest.mark.slow
def test_work_without_workers_is_told_until_one_lives(board, receiver, settings):
    scoring = evaluate.request_evaluation(living.entrant(3, board), board, send=False)
    told()
    assert receiver.events() == []  # it has only just begun to wait
    ago = timezone.now() - timedelta(seconds=settings.ALERT_WORKERS_SECONDS + 1)
    Scoring.objects.filter(pk=scoring.pk).update(created_at=ago)
    signs_of_life.beat("gpu@one", ["gpu"])  # of another queue
    told()
    told()
    assert receiver.events() == [("opened", "workers")]
    assert receiver.taken[0]["incident"]["subject"] == "queue default"
    signs_of_life.beat("default@one", ["default"])
    told()
    assert receiver.events() == [("opened", "workers"), ("resolved", "workers")]


def test_a_queue_that_a_living_worker_serves_is_no_incident_however_long_work_waits(board, receiver):
    run = Run.objects.order_by("pk").first()
    Run.objects.filter(pk=run.pk).update(
        state="queued", artefact=None, created_at=timezone.now() - timedelta(days=1), heartbeat_at=None
    )
    signs_of_life.beat("all@one", ["default", "gpu"])
    told()
    assert receiver.events() == []


@pytest.mark.slow
def test_a_scorer_that_is_away_for_long_is_told_and_so_is_its_return(board, stage, receiver, settings):
    stage.down = True
    living.deliver(checks.request_check(board, "manual", send=False))
    told()
    assert receiver.events() == []  # not for long yet
    hour = timedelta(seconds=settings.ALERT_SCORER_SECONDS + 60)
    ControlCheck.objects.filter(verdict="unavailable").update(finished_at=timezone.now() - hour)
    ControlCheck.objects.exclude(verdict="unavailable").update(finished_at=timezone.now() - 2 * hour)
    for _ in range(2):
        living.deliver(checks.request_check(board, "manual", send=False))
        told()
    assert receiver.events() == [("opened", "scorer")]
    stage.down = False
    living.deliver(checks.request_check(board, "manual", send=False))
    told()
    assert receiver.events() == [("opened", "scorer"), ("resolved", "scorer")]


def test_a_quiet_board_tells_nothing(board, receiver):
    told()
    assert receiver.taken == []
    assert not Incident.objects.exists()


# How it is delivered


@pytest.mark.slow
def test_a_receiver_that_fails_is_tried_again_with_growing_pauses_until_it_is_back(board, receiver):
    fail(board, 3)
    alerts.look()
    pauses = []
    for status in (500, 302, 404):
        receiver.status = status
        before = timezone.now()
        send_due([alerts.ALERTS])
        message = OutboxMessage.objects.get()
        assert message.error == f"it answered {status}"
        pauses.append((message.not_before - before).total_seconds())
        assert send_due([alerts.ALERTS]) == 0  # not before the pause is over
        OutboxMessage.objects.update(not_before=Now())
    assert [round(pause / 10) * 10 for pause in pauses] == [30, 60, 120]
    receiver.status = 204
    assert send_due([alerts.ALERTS]) == 1
    assert (receiver.refused, len(receiver.taken)) == (3, 1)
    assert send_due([alerts.ALERTS]) == 0
    message = OutboxMessage.objects.get()
    assert (message.attempts, message.error, message.sent_at is not None) == (4, "", True)


@pytest.mark.slow
def test_one_that_is_away_or_slow_is_given_time_but_not_the_whole_round(board, receiver, settings, monkeypatch):
    fail(board, 3)
    alerts.look()
    receiver.slow = threading.Event()
    monkeypatch.setattr(delivery, "TIMEOUT", 0.05)
    assert send_due([alerts.ALERTS]) == 0
    assert OutboxMessage.objects.get().error == "ReadTimeout"
    receiver.slow.set()
    receiver.slow = None
    told()
    # It had taken the first message after all: at least once, with the same id both times.
    assert len({body["id"] for body in receiver.taken}) == 1
    assert OutboxMessage.objects.get().sent_at
    settings.ALERT_WEBHOOK = ["http://127.0.0.1:1/nobody"]
    fail(board, 4)
    Incident.objects.all().delete()
    told()
    assert OutboxMessage.objects.get().error == "ConnectError"


@pytest.mark.slow
def test_that_it_is_over_is_not_told_before_that_it_began(board, receiver):
    scoring = fail(board, 3)
    receiver.status = 500
    told()
    scoring.refresh_from_db()
    scoring.queue_again()
    told()
    assert (OutboxMessage.objects.count(), receiver.refused) == (2, 2)  # both times the first one
    receiver.status = 200
    told()
    told()
    assert receiver.events() == [("opened", "failed"), ("resolved", "failed")]


def test_who_dies_while_sending_leaves_the_message_to_the_next(board, receiver, monkeypatch):
    fail(board, 3)
    alerts.look()
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "transmit", lambda *_: (_ for _ in ()).throw(living.Killed))
        with pytest.raises(living.Killed):
            send_due([alerts.ALERTS])
    assert send_due([alerts.ALERTS]) == 0  # it may still be under way
    OutboxMessage.objects.update(not_before=Now())
    assert send_due([alerts.ALERTS]) == 1


def test_a_message_is_given_up_after_days_and_where_its_receiver_is_gone(board, receiver, settings):
    fail(board, 3)
    receiver.status = 500
    alerts.look()
    OutboxMessage.objects.update(attempts=alerts.ALERTS.most_attempts - 1)
    send_due([alerts.ALERTS])
    assert OutboxMessage.objects.get().given_up_at
    OutboxMessage.objects.update(given_up_at=None, not_before=Now())
    settings.ALERT_WEBHOOK = []
    send_due([alerts.ALERTS])
    message = OutboxMessage.objects.get()
    assert (message.given_up_at is not None, receiver.refused) == (True, 1)


def test_the_database_allows_one_open_incident_a_key(db):
    about = {"key": "k", "kind": "failed", "subject": "s", "summary": "s", "path": "/", "opened_at": timezone.now()}
    Incident.objects.create(**about, resolved_at=timezone.now())
    Incident.objects.create(**about)
    with pytest.raises(IntegrityError), transaction.atomic():
        Incident.objects.create(**about)


def test_two_who_look_at_a_time_tell_it_once(board, receiver, monkeypatch):
    """The second asks whether there is an incident before the first has made it."""
    fail(board, 3)
    from leaderboard.operations.alerts import incidents

    findings = list(incidents.findings(timezone.now()))
    alerts.look()
    monkeypatch.setattr(Incident.objects.all().__class__, "exists", lambda _self: False)
    incidents.open_incident(findings[0], timezone.now())
    monkeypatch.undo()
    assert Incident.objects.count() == OutboxMessage.objects.count() == 1


# Messages


def test_messages_are_signed_and_say_what_the_documentation_says(board, receiver, settings):
    settings.ALERT_SECRET = SECRET
    settings.SITE_URL = "https://board.example"
    fail(board, 3)
    told()
    signature, content = receiver.signatures[0]
    assert signature == "sha256=" + hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()
    body = receiver.taken[0]
    assert set(body) == {"plumbline_alert", "id", "event", "sent_at", "board", "text", "incident"}
    assert (body["plumbline_alert"], body["board"]) == (1, "https://board.example")
    assert set(body["incident"]) == {
        *("id", "kind", "subject", "summary", "opened_at", "resolved_at", "url"),
    }
    assert body["incident"]["url"] == "https://board.example/operate/"
    documented = (settings.BASE_DIR / "deploy" / "README.md").read_text()
    assert all(f'"{name}"' in documented for name in (*body, *body["incident"]))


@pytest.mark.parametrize(("event", "start"), [("opened", "[Plumbline] "), ("resolved", "[Plumbline] Over: ")])
def test_a_message_says_all_of_its_incident(db, settings, event, start):
    settings.SITE_URL = "https://board.example"
    opened_at = datetime.fromisoformat("2026-11-01T10:05:06.789+00:00")
    resolved_at = opened_at + timedelta(hours=1) if event == "resolved" else None
    incident = Incident.objects.create(
        key="k", kind="disk", subject="host a", summary="It is full.", path="/p/", opened_at=opened_at
    )
    incident.resolved_at = resolved_at
    body = delivery.payload("an-id", event, incident)
    assert timezone.now() - datetime.fromisoformat(body.pop("sent_at")) < timedelta(minutes=1)
    assert body == {
        "plumbline_alert": 1,
        "id": "an-id",
        "event": event,
        "board": "https://board.example",
        "text": f"{start}It is full.",
        "incident": {
            "id": incident.pk,
            "kind": "disk",
            "subject": "host a",
            "summary": "It is full.",
            "opened_at": "2026-11-01T10:05:06+00:00",
            "resolved_at": resolved_at and "2026-11-01T11:05:06+00:00",
            "url": "https://board.example/p/",
        },
    }


def test_a_receiver_is_named_without_its_address_and_mail_is_one_receiver(settings):
    settings.ALERT_WEBHOOK, settings.ALERT_EMAIL = ["https://a.example", "https://b.example"], ["x@a.org", "y@a.org"]
    names = [f"webhook {hashlib.sha256(url.encode()).hexdigest()[:12]}" for url in settings.ALERT_WEBHOOK]
    assert delivery.receivers() == {
        names[0]: "https://a.example",
        names[1]: "https://b.example",
        "e-mail": "x@a.org, y@a.org",
    }
    settings.ALERT_EMAIL = []
    assert list(delivery.receivers()) == names


def test_an_incident_is_one_row_with_a_message_to_each_receiver(settings):
    settings.ALERT_WEBHOOK, settings.ALERT_EMAIL = ["https://a.example"], ["x@a.org"]
    now = timezone.now()
    once = AlertFinding("drift:1", "drift", "metric m", "It drifted.", "/p/", once=True, over=True)
    lasting = AlertFinding("disk:a", "disk", "host a", "It is full.", "/q/")
    for finding in (once, lasting, once, lasting):
        incidents.open_incident(finding, now)
    values = ("key", "kind", "subject", "summary", "path", "opened_at", "resolved_at")
    rows = Incident.objects.order_by("pk")
    assert list(rows.values_list(*values)) == [
        ("drift:1", "drift", "metric m", "It drifted.", "/p/", now, None),
        ("disk:a", "disk", "host a", "It is full.", "/q/", now, None),
    ]
    for incident in rows:
        incidents.resolve(incident, now)
        incidents.resolve(incident, now)
    for finding in (once, lasting):
        incidents.open_incident(finding, now)
    assert list(rows.values_list("key", flat=True)) == ["drift:1", "disk:a", "disk:a"], "the first is told once ever"
    messages = OutboxMessage.objects.filter(kind="alert")
    assert sorted(messages.values_list("incident__key", "event", "recipient")) == sorted(
        (key, event, receiver)
        for key, event in (
            ("drift:1", "opened"),
            ("drift:1", "resolved"),
            ("disk:a", "opened"),
            ("disk:a", "resolved"),
            ("disk:a", "opened"),
        )
        for receiver in delivery.receivers()
    )


def test_without_a_secret_messages_are_not_signed(board, receiver):
    fail(board, 3)
    told()
    assert receiver.signatures[0][0] is None


def test_mail_goes_to_all_addresses_at_once_and_is_tried_again(board, settings, monkeypatch):
    settings.ALERT_EMAIL = ["ada@board.example", "alan@board.example"]
    fail(board, 3)
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "send_mail", lambda *_: (_ for _ in ()).throw(ConnectionRefusedError()))
        told()
    assert OutboxMessage.objects.get().error == "the mail server: ConnectionRefusedError"
    told()
    told()
    (letter,) = mail.outbox
    assert letter.to == settings.ALERT_EMAIL
    assert letter.subject == "[Plumbline] 1 scoring failed. The model cannot be run."
    assert f"{settings.SITE_URL}/operate/" in letter.body


def test_a_summary_of_several_lines_is_one_subject(board, settings):
    settings.ALERT_EMAIL = ["ada@board.example"]
    incident = Incident.objects.create(
        key="backup",
        kind="backup",
        subject="backup",
        summary="The backup failed: no route\nto host\n",
        path="/operate/",
        opened_at=timezone.now(),
    )
    incident.messages.add_alerts(OutboxMessage.Event.OPENED, delivery.receivers())
    send_due([delivery.ALERTS])
    assert [letter.subject for letter in mail.outbox] == ["[Plumbline] The backup failed: no route to host"]


def test_addresses_of_receivers_stand_neither_in_the_database_nor_in_log_lines(board, receiver, caplog):
    fail(board, 3)
    receiver.status = 500
    told()
    messages_text = json.dumps(list(OutboxMessage.objects.values()), default=str)
    assert receiver.address not in messages_text + caplog.text
    assert "of-the-receiver" not in messages_text + caplog.text
    assert "did not take a message" in caplog.text


# The watch and the command


def run(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command("alerts", *words, stdout=out, **options)
    return out.getvalue()


def test_the_command_tries_every_receiver(receiver, settings):
    assert "took the message" in run(test=True)
    assert receiver.events() == [("test", "test")]
    assert set(json.loads(run(test=True, json=True))["receivers"].values()) == {"ok"}
    receiver.status = 500
    out = StringIO()
    with pytest.raises(CommandError, match="not every receiver"):
        call_command("alerts", test=True, stdout=out)
    assert "it answered 500" in out.getvalue()
    assert receiver.address not in out.getvalue()
    settings.ALERT_WEBHOOK = []
    with pytest.raises(CommandError, match="set ALERT_WEBHOOK or ALERT_EMAIL"):
        run(test=True)
    assert not Incident.objects.exists()


def test_the_command_lists_what_is_open(board, receiver):
    assert "no incident is open" in run()
    fail(board, 3)
    alerts.look()
    assert "1 scoring failed" in run()
    assert "1 messages were not taken yet" in run()
    found = json.loads(run(json=True))
    assert (found["incidents"][0]["kind"], found["undelivered"]) == ("failed", 1)


@pytest.mark.slow
def test_a_look_costs_a_bounded_number_of_queries(board, django_assert_max_num_queries):
    for number in range(3, 9):
        fail(board, number)
    with django_assert_max_num_queries(63):
        alerts.look()
    rescore.open_rescoring(board, "more to look at")
    with django_assert_max_num_queries(63):
        alerts.look()
