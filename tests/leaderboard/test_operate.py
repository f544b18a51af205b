"""What operators do in pages: checks and rescorings, each recorded, and nothing for anybody else."""

import re

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from leaderboard.models import AuditEvent, ControlCheck, Rescoring
from leaderboard.services import checks, rescore
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
