"""One outbox for all that the board has to tell: who sends what, and what becomes of what nobody takes."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.core import mail
from django.db import IntegrityError, transaction
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import Incident, OutboxMessage, Submission
from leaderboard.models.clock import database_now, from_now
from leaderboard.operations.alerts import ALERTS
from leaderboard.people.services.password_resets import request_reset
from leaderboard.services import outbox
from leaderboard.services.outbox import post, send_due
from leaderboard.worker import SENDERS
from tests.leaderboard.submitting import sent
from tests.leaderboard.test_accounts import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def messages(settings) -> None:
    """One message of each kind, from oldest to newest: letter, reset, news, alert."""
    settings.ALERT_EMAIL = ["chief@example.org"]
    ada = person("ada")
    post("ada@example.org", "Hello", "A letter.")
    request_reset("ada@example.org")
    submission = sent(ada, state="moderated")
    submission.move(Submission.State.REFUSED, reason="No.")
    about = {"key": "k", "kind": "failed", "subject": "runs", "summary": "1 run failed.", "path": "/operate/"}
    Incident.objects.create(**about, opened_at=timezone.now()).messages.add_alerts("opened", ["e-mail"])
    for age, kind in enumerate(("alert", "news", "reset", "letter")):
        OutboxMessage.objects.filter(kind=kind).update(created_at=from_now(-age))


@pytest.fixture
def no_mail_server(settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9


def test_beat_sends_alerts_first_then_what_is_oldest_and_each_once(messages):
    assert send_due(SENDERS) == 4
    assert send_due(SENDERS) == 0
    assert [letter.subject for letter in mail.outbox] == [
        "[Plumbline] 1 run failed.",
        "Hello",
        "Plumbline: reset your password",
        "Plumbline: refused: Entrant 1",
    ]
    assert list(OutboxMessage.objects.values_list("kind", flat=True)) == ["news", "alert"], "what may hold secrets goes"
    assert not OutboxMessage.objects.waiting().exists()


def test_a_round_that_takes_long_leaves_the_rest_to_the_next_one(messages, monkeypatch):
    monkeypatch.setattr(outbox, "time", SimpleNamespace(monotonic=lambda: 20.0 * len(mail.outbox)))  # 20 s a letter
    assert send_due(SENDERS) == 2
    assert [letter.subject for letter in mail.outbox] == ["[Plumbline] 1 run failed.", "Hello"]
    assert send_due(SENDERS) == 2


def test_who_stands_in_for_beat_sends_alerts_alone(messages):
    assert send_due([ALERTS]) == 1
    assert [letter.to for letter in mail.outbox] == [["chief@example.org"]]
    assert OutboxMessage.objects.waiting().count() == 3


def test_pauses_grow_by_the_rule_of_each_kind_up_to_the_longest(messages, no_mail_server):
    pauses: dict[str, list[int]] = {sender.kind: [] for sender in SENDERS}
    now = database_now()
    for attempts in (0, 1, 14):
        OutboxMessage.objects.update(attempts=attempts, not_before=now)
        assert send_due(SENDERS) == 0
        for message in OutboxMessage.objects.all():
            assert message.error == "the mail server: ConnectionRefusedError"
            pauses[message.kind].append((message.not_before - now) // timedelta(seconds=30))
    letters = [2, 4, 720]  # one minute, two, six hours
    assert pauses == {"letter": letters, "reset": letters, "news": letters, "alert": [1, 2, 120]}


def test_what_nobody_takes_is_given_up_and_stays_only_where_it_holds_no_secret(messages, no_mail_server):
    for sender in SENDERS:
        OutboxMessage.objects.filter(kind=sender.kind).update(attempts=sender.most_attempts - 1)
    assert send_due(SENDERS) == 0
    ends = OutboxMessage.objects.values_list("kind", "sent_at", "error")
    assert list(ends) == [(kind, None, "the mail server: ConnectionRefusedError") for kind in ("news", "alert")]
    assert not OutboxMessage.objects.filter(given_up_at=None).exists()


def test_the_watch_forgets_what_left_long_ago_and_nothing_that_waits(messages):
    long_ago = from_now(-90.5 * 86400)
    OutboxMessage.objects.update(created_at=long_ago)
    OutboxMessage.objects.filter(kind="news").update(sent_at=long_ago)
    OutboxMessage.objects.filter(kind="alert").update(given_up_at=long_ago)
    OutboxMessage.objects.filter(kind="letter").update(sent_at=from_now(-89 * 86400))
    tasks.watch()
    assert set(OutboxMessage.objects.values_list("kind", flat=True)) == {"letter", "reset"}
    assert Incident.objects.filter(messages=None).exists(), "incidents stay: some are told once only"


def test_a_message_whose_last_sender_died_is_not_tried_once_more(messages):
    for sender in SENDERS:
        OutboxMessage.objects.filter(kind=sender.kind).update(attempts=sender.most_attempts)
    assert send_due(SENDERS) == 0
    assert mail.outbox == []
    assert not OutboxMessage.objects.waiting().exists()


def test_a_message_is_sent_by_one_of_two_and_nobody_else_takes_it_meanwhile(messages):
    stale = OutboxMessage.objects.get(kind="letter")
    OutboxMessage.objects.filter(kind="letter").update(attempts=1)
    assert not outbox.attempt(stale, outbox.LETTERS)
    assert mail.outbox == []
    pauses = []

    def send(message: OutboxMessage) -> bool:
        row = OutboxMessage.objects.get(pk=message.pk)
        pauses.append(((row.not_before - database_now()).total_seconds(), row.attempts))
        return True

    letter = OutboxMessage.objects.get(kind="letter")
    others = OutboxMessage.objects.exclude(kind="letter").order_by("pk")
    before = list(others.values())
    assert outbox.attempt(letter, replace(outbox.LETTERS, send=send))
    assert pauses == [(pytest.approx(600, abs=5), 2)]
    assert list(others.values()) == before


@pytest.mark.parametrize(("attempts", "is_tried_again"), [(14, True), (15, False)])
def test_a_letter_is_tried_sixteen_times(messages, no_mail_server, attempts, is_tried_again):
    OutboxMessage.objects.update(attempts=attempts)
    assert send_due([outbox.LETTERS]) == 0
    assert OutboxMessage.objects.filter(kind="letter").exists() is is_tried_again


def test_a_subject_that_is_too_long_is_cut():
    post("ada@example.org", "x" * 400, "A letter.")
    message = OutboxMessage.objects.get()
    assert (message.kind, message.recipient, message.subject, message.body) == (
        *("letter", "ada@example.org", "x" * 300),
        "A letter.",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "letter", "recipient": "ada@example.org"},
        {"kind": "reset", "recipient": "ada@example.org", "body": "A link"},
        {"kind": "news", "event": "ranked"},
        {"kind": "alert", "event": "opened", "recipient": "e-mail"},
        {"kind": "other", "body": "A letter."},
    ],
    ids=lambda fields: fields["kind"],
)
def test_the_database_refuses_what_is_no_message_of_its_kind(fields):
    with pytest.raises(IntegrityError), transaction.atomic():
        OutboxMessage.objects.create(**fields)
