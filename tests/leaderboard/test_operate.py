"""What operators do in pages: checks and rescorings, each recorded, and nothing for anybody else."""

import re
from datetime import date, datetime

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from leaderboard.models import AuditEvent, ControlCheck, Metric, Pulse, Rescoring, RetiredScorer
from leaderboard.operations.services import retirement
from leaderboard.operations.views import health
from leaderboard.operations.views.board import MetricState
from leaderboard.operations.views.health import may_read
from leaderboard.services import checks, rescore
from scoring.refusals import Refused
from scoring.scorers import service
from tests.leaderboard.test_history import said

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("operator", password="a long passphrase", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def measured(measured_board):
    return measured_board


ACTIONS = ["check_now", "rescore"]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_visitor_is_sent_to_log_in_and_changes_nothing(client, measured, name):
    response = client.post(reverse(name, args=[measured.slug]), {"reason": "why not"})
    assert response.status_code == 302
    assert response.url.startswith(reverse("account_login"))
    assert not Rescoring.objects.exists()
    assert not ControlCheck.objects.filter(trigger="manual").exists()


@pytest.mark.parametrize("name", ACTIONS)
def test_someone_who_does_not_run_the_board_is_refused(client, measured, name):
    client.force_login(User.objects.create_user("visitor"))
    assert client.post(reverse(name, args=[measured.slug]), {"reason": "why not"}).status_code == 403
    assert not Rescoring.objects.exists()


def test_a_forged_form_is_refused(measured, operator):
    from django.test import Client

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(reverse("rescore", args=[measured.slug]), {"reason": "forged"}).status_code == 403
    assert not Rescoring.objects.exists()


@pytest.mark.slow
def test_the_page_says_of_each_metric_what_the_last_check_said(client, operator, measured):
    check = checks.request_check(measured, "manual")
    checks.perform(check)
    html = client.get(reverse("operate")).content.decode()
    assert "Stable" in html
    assert "Nothing moved that replicate variation does not explain" in html
    assert measured.title in html


def test_check_now_queues_a_check_and_records_who_asked(client, operator, measured):
    client.post(reverse("check_now", args=[measured.slug]))
    assert ControlCheck.objects.get(trigger="manual").state == "queued"
    assert AuditEvent.objects.get(verb="request control check").actor == operator


def test_rescoring_shows_its_cost_asks_for_a_reason_and_begins(client, operator, measured):
    address = reverse("rescore", args=[measured.slug])
    assert "Entries" in client.get(address).content.decode()
    refused = client.post(address, {"reason": "  "})
    assert refused.status_code == 400
    assert "reason: it is empty" in refused.content.decode()
    client.post(address, {"reason": "a new formula is tried"})
    rescoring = Rescoring.objects.get()
    assert (rescoring.reason, rescoring.requested_by, rescoring.total) == ("a new formula is tried", operator, 3)
    assert AuditEvent.objects.get(verb="open rescoring").actor == operator


def test_a_second_click_opens_no_second_rescoring_and_who_sees_the_first_may_replace_it(client, operator, measured):
    address = reverse("rescore", args=[measured.slug])
    assert "is being scored" not in client.get(address).content.decode()
    client.post(address, {"reason": "a new formula is tried"})
    again = client.post(address, {"reason": "a new formula is tried"})
    assert again.status_code == 400
    first = Rescoring.objects.get()
    text = said(again.content.decode())
    assert f"{measured.slug} is being rescored by now, as version 2: wait for it, or send this again" in text
    assert "Version 2 is being scored: 0 of 3 entries are done. Another rescoring takes its place" in text
    form = re.search(r'name="under_way" value="(\d+)"', again.content.decode())
    assert client.post(address, {"reason": "another one", "under_way": form[1]}).status_code == 302
    first.refresh_from_db()
    assert first.state == Rescoring.State.CANCELLED
    assert Rescoring.objects.active().get().to_version.number == 3
    stale = client.post(address, {"reason": "a third one", "under_way": form[1]})
    assert "as version 3" in said(stale.content.decode())
    assert Rescoring.objects.count() == 2


def test_the_command_says_which_rescoring_it_gives_up(measured, capsys):
    call_command("rescore", measured.slug, reason="the first", yes=True)
    assert "is given up" not in capsys.readouterr().out
    call_command("rescore", measured.slug, reason="the second", yes=True)
    words = f"{measured.slug} v1 to {measured.slug} v2 is given up for this one; 0 of 3 entries are done"
    assert words in capsys.readouterr().out


def test_who_only_looks_at_a_rescoring_that_cannot_be_gets_a_page_with_the_reason(client, operator, measured):
    answer = client.get(reverse("rescore", args=["toxicity-profanity"]))
    assert (answer.status_code, "has no measured version yet" in answer.content.decode()) == (200, True)


def test_a_rescoring_is_paused_resumed_and_cancelled(client, operator, measured):
    rescoring = rescore.open_rescoring(measured, "to be steered", user=operator)
    text = said(client.get(reverse("operate")).content.decode())
    assert "Metric version 1, of" in text, "the one that readers see"
    assert "Rescoring to version 2, running: to be steered" in text
    for step, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        client.post(reverse("steer_rescoring", args=[rescoring.pk, step]))
        rescoring.refresh_from_db()
        assert rescoring.state == state
    for verb in ("pause rescoring", "resume rescoring"):
        detail = AuditEvent.objects.get(verb=verb).detail
        assert (detail["from"], detail["to"]) == (rescoring.from_version.number, rescoring.to_version.number)
    html = client.post(reverse("steer_rescoring", args=[rescoring.pk, "pause"]), follow=True).content.decode()
    assert "nothing to pause" in html
    assert client.post(reverse("steer_rescoring", args=[rescoring.pk, "explode"])).status_code == 404


def test_the_page_sorts_metrics_by_whether_they_are_measured_with_the_newest_check_and_rescoring_of_each(
    client, operator, measured
):
    for _ in range(2):
        new = ControlCheck.objects.create(metric=measured, trigger="manual", state="failed", reason="it was away")
    rescoring = rescore.open_rescoring(measured, "to be sure")
    row = RetiredScorer.objects.create(name="profanity", reason="it ended")
    context = client.get(reverse("operate")).context
    (state,) = context["watched"]
    assert (state.metric, state.check, state.rescoring) == (measured, new, rescoring)
    assert state.version == measured.current_version()
    assert (state.retired, state.last_day, state.days_left, state.waits_on) == (None, None, None, [])
    others = {one.metric.slug: one for one in context["unmeasured"]}
    assert set(others) == set(Metric.objects.exclude(pk=measured.pk).values_list("slug", flat=True))
    retired = {slug for slug, one in others.items() if one.retired == row}
    assert retired == set(Metric.objects.filter(scorer="profanity").values_list("slug", flat=True)) != set()
    nothing = {(one.version, one.check, one.rescoring, one.time_left) for one in others.values()}
    assert nothing == {(None, None, None, None)}


def test_days_are_counted_to_the_last_one_of_a_scorer_that_is_still_in_use(monkeypatch):
    monkeypatch.setattr(service, "today", lambda: date(2026, 12, 1))

    def days_left(last_day: date | None, retired: RetiredScorer | None = None) -> int | None:
        return MetricState(Metric(), None, None, None, retired, last_day).days_left

    assert days_left(date(2026, 12, 31)) == 30
    assert days_left(None) is None
    assert days_left(date(2026, 12, 31), RetiredScorer(name="x")) is None


def test_a_scorer_is_retired_and_brought_back_by_one_page_that_says_what_follows(client, operator, measured):
    metric = Metric.objects.filter(scorer="profanity").first()
    twin = Metric.objects.get(pk=metric.pk)
    twin.pk, twin.slug, twin.title = None, "twin", "The twin"
    twin.save(force_insert=True)
    others = Metric.objects.filter(scorer="profanity").exclude(pk=metric.pk)
    too = f"It is the scorer of {', '.join(others.values_list('title', flat=True))} too."
    RetiredScorer.objects.create(name="another", reason="it ended")
    address = reverse("retire_scorer", args=[metric.slug])
    text = said(client.get(address).content.decode())
    assert "Retire the scorer profanity" in text
    assert f"Nothing new is scored with profanity, and it is no longer checked. {too}" in text
    assert client.post(address, {"reason": " "}).status_code == 400
    text = said(client.post(address, {"reason": "Another takes over."}, follow=True).content.decode())
    assert "The scorer profanity is retired." in text
    assert RetiredScorer.objects.get(name="profanity").reason == "Another takes over."
    metrics = sorted(Metric.objects.filter(scorer="profanity").values_list("slug", flat=True))
    detail = {"scorer": "profanity", "reason": "Another takes over."}
    event = AuditEvent.objects.get(verb="retire scorer")
    assert (event.subject, event.actor) == ("scorer profanity", operator)
    assert sorted(event.detail.pop("metrics")) == metrics
    assert event.detail == detail | {"before": {"retired": False}, "after": {"retired": True}}
    text = said(client.get(address).content.decode())
    assert "Bring back the scorer profanity" in text
    assert f"profanity is used again, for new entries and for checks. {too}" in text
    text = said(client.post(address, {"reason": "It is back."}, follow=True).content.decode())
    assert "The scorer profanity is in use again." in text
    event = AuditEvent.objects.get(verb="bring back scorer")
    change = {"before": {"retired": True}, "after": {"retired": False}}
    assert (event.subject, event.actor) == ("scorer profanity", operator)
    assert event.detail == detail | {"reason": "It is back."} | change
    assert list(RetiredScorer.objects.values_list("name", flat=True)) == ["another"]


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("profanity", "  ", "reason: it is empty; say why"),
        ("nonsense", "gone", "scorer = 'nonsense' is none; metrics here use "),
        ("likelihood", "gone", "its metrics are of likelihoods, which no scorer judges"),
    ],
)
def test_what_cannot_be_retired_cannot_be_brought_back_either_and_says_why(measured, name, reason, words):
    name = measured.scorer if name == "likelihood" else name
    for act in (retirement.retire_scorer, retirement.bring_back_scorer):
        with pytest.raises(Refused, match=re.escape(words)):
            act(name, reason)
    assert not RetiredScorer.objects.exists()


def test_a_scorer_is_retired_once_and_brought_back_once(measured):
    assert retirement.retire_scorer("profanity", " It ended. ")
    assert not retirement.retire_scorer("profanity", "Again.")
    assert RetiredScorer.objects.get().reason == "It ended."
    assert retirement.bring_back_scorer("profanity", "It is back.")
    assert not retirement.bring_back_scorer("profanity", "Again.")
    assert AuditEvent.objects.filter(subject="scorer profanity").count() == 2


def test_a_check_is_asked_about_with_the_number_of_its_texts(client, operator, measured):
    address = reverse("check_now", args=[measured.slug])
    count = checks.control_of(measured).items.rows
    assert f"A worker scores its {count:,} control texts again" in said(client.get(address).content.decode())
    unmeasured = Metric.objects.filter(scorer="profanity").first()
    html = client.get(reverse("check_now", args=[unmeasured.slug])).content.decode()
    assert "A worker scores its control texts again" in said(html)
    answer = said(client.post(address, follow=True).content.decode())
    assert f"The control set of {measured.title} is being scored again." in answer


def test_who_cancels_a_rescoring_reads_what_becomes_of_it(client, operator, measured):
    rescoring = rescore.open_rescoring(measured, "to be steered", user=operator)
    address = reverse("steer_rescoring", args=[rescoring.pk, "cancel"])
    text = said(client.get(address).content.decode())
    assert f"Cancel the rescoring of {measured.title}" in text
    assert "From version 1 to 2: 0 of 3 entries are done. The new version is discarded with all that was" in text
    rescoring.refresh_from_db()
    assert rescoring.state == "running", "reading the question does nothing"
    text = said(client.post(address, follow=True).content.decode())
    assert f"The rescoring of {measured.title} is cancelled." in text
    assert client.post(address).status_code == 400


def test_readers_of_the_metrics_send_the_token_or_are_on_this_machine(rf, settings):
    settings.METRICS_TOKEN = ""
    assert may_read(rf.get("/metrics"))
    assert may_read(rf.get("/metrics", REMOTE_ADDR="::1"))
    for refused in (
        rf.get("/metrics", REMOTE_ADDR="10.0.0.1"),
        rf.get("/metrics", REMOTE_ADDR=""),
        rf.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}),
        rf.get("/metrics", headers={"Forwarded": "for=127.0.0.1"}),
    ):
        assert not may_read(refused)
    settings.METRICS_TOKEN = "let-me-read"
    for header, allowed in (
        ("Bearer let-me-read", True),
        ("bearer let-me-read", True),
        ("Basic let-me-read", False),
        ("Bearer let-me-reád", False),
        ("let-me-read", False),
    ):
        assert may_read(rf.get("/metrics", headers={"Authorization": header})) == allowed
    assert not may_read(rf.get("/metrics"))


def test_the_site_says_that_it_is_up_and_when_it_was_swept(client, monkeypatch):
    answer = client.get(reverse("healthz"))
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"ok\n", "text/plain")
    monkeypatch.setattr(health, "check_all", lambda: {"database": "ok", "sweep": "ok"})
    answer = client.get(reverse("readyz"))
    checks_of_site = {"database": "ok", "sweep": "ok"}
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "checks": checks_of_site, "last_sweep": None})
    moment = datetime.fromisoformat("2026-11-01T10:05:06.789+00:00")
    Pulse.objects.create(name="other", at=moment.replace(year=2025))
    Pulse.objects.create(name="sweep", at=moment)
    monkeypatch.setattr(health, "check_all", lambda: {"database": "ok", "sweep": "late"})
    answer = client.get(reverse("readyz"))
    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "checks": {"database": "ok", "sweep": "late"},
        "last_sweep": "2026-11-01T10:05:06+00:00",
    }
