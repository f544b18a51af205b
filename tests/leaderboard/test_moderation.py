"""Moderating: what waits, what is decided by whom, and what its submitter does then."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard import tasks
from leaderboard.celery import app
from leaderboard.models import AuditEvent, LanguageModel, Metric, OutboxMessage, Run, Submission
from leaderboard.submissions.services import lifecycle
from leaderboard.submissions.services.moderation import decide
from leaderboard.submissions.services.workspace import send_again
from scoring.refusals import Refused
from tests.leaderboard.living import SLUG, small_metric, standing_in
from tests.leaderboard.submitting import entered_by_number, person, sent
from tests.leaderboard.test_accounts import posted

pytestmark = pytest.mark.django_db

State = Submission.State


@pytest.fixture(autouse=True)
def _moderated(settings, monkeypatch):
    settings.BOARD_ACCESS = "moderated"
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    with entered_by_number(monkeypatch), standing_in():
        yield


@pytest.fixture
def metric(db, tmp_path) -> Metric:
    return small_metric(tmp_path)


@pytest.fixture
def waiting(metric) -> Submission:
    """What ada sent, checked."""
    submission = sent(person("ada"), metric.slug, notes="<script>alert(1)</script>")
    lifecycle.take(submission)
    assert submission.state == State.MODERATED
    return submission


@pytest.fixture
def grace(db):
    return person("grace", "moderator")


def address(submission: Submission, decision: str) -> str:
    return reverse("moderate", args=[submission.pk, decision])


def test_nothing_is_entered_before_a_moderator_accepts_and_then_it_is_under_way(waiting, grace, client):
    assert not LanguageModel.objects.exists()
    client.force_login(grace)
    html = client.get(address(waiting, "accept")).content.decode()
    assert "The model is entered and its evaluation queued." in html
    waiting.refresh_from_db()
    assert waiting.state == State.MODERATED, "reading the question decides nothing"
    assert "Its submitter is notified." in client.post(address(waiting, "accept"), follow=True).content.decode()
    waiting.refresh_from_db()
    assert waiting.state == State.ACCEPTED
    assert Run.objects.get(model=waiting.model).model.slug == "entrant-1"
    event = AuditEvent.objects.get(verb="accept submission")
    assert (event.actor, event.subject) == (grace, f"submission {waiting.pk}")
    assert event.detail == {"before": {"state": "moderated"}, "after": {"state": "accepted"}, "reason": ""}
    (letter,) = posted()
    assert (letter.subject, letter.to) == ("Plumbline: accepted: Entrant 1", ["ada@example.org"])


def test_a_moderator_sees_all_that_was_sent_as_text(waiting, grace, client, metric):
    client.force_login(grace)
    html = client.get(reverse("moderation")).content.decode()
    for shown in ("an-institute/a-model", "mit", metric.title, "by ada", waiting.payload["resolved"]["revision"]):
        assert shown in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script>alert" not in html
    assert 'href="https://huggingface.co' not in html
    assert client.get(waiting.get_absolute_url()).status_code == 200


@pytest.mark.parametrize(
    ("decision", "state", "subject", "verb"),
    [
        ("reject", State.REFUSED, "Plumbline: refused: Entrant 1", "reject submission"),
        ("return", State.RETURNED, "Plumbline: changes are asked for: Entrant 1", "return submission"),
    ],
)
def test_rejecting_and_returning_need_a_reason_that_the_submitter_reads(
    waiting, grace, client, decision, state, subject, verb
):
    client.force_login(grace)
    for reason in ("  ", "r" * 2001):
        refused = client.post(address(waiting, decision), {"reason": reason})
        assert refused.status_code == 400
        assert "reason: it" in refused.content.decode()
    client.post(address(waiting, decision), {"reason": "Say what it was trained on <b>."})
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == (state, "Say what it was trained on <b>.")
    assert not LanguageModel.objects.exists()
    assert AuditEvent.objects.get(verb=verb).detail["reason"] == "Say what it was trained on <b>."
    tasks.watch()
    (letter,) = posted()
    assert letter.subject == subject
    assert "Say what it was trained on <b>." in letter.body
    client.force_login(waiting.submitter)
    assert "Say what it was trained on &lt;b&gt;." in client.get(waiting.get_absolute_url()).content.decode()


def test_what_was_returned_is_changed_and_sent_again_and_decided_upon_again(waiting, grace, client):
    decide(waiting, "return", "Name its licence.", grace)
    client.force_login(waiting.submitter)
    form = reverse("change_submission", args=[waiting.pk])
    html = client.get(form).content.decode()
    assert "Name its licence." in html
    assert f'value="{SLUG}" checked' in html
    wrong = client.post(form, {"name": "", "licence": "mit", "metrics": ["lost"]})
    assert wrong.status_code == 400
    assert "Give the model a name." in wrong.content.decode()
    wrong = client.post(form, {"name": "Entrant 1", "metrics": ["lost"]})
    assert "lost: choose metrics of this board." in wrong.content.decode()
    assert "None: choose metrics" in client.post(form, {"name": "Entrant 1"}).content.decode()
    values = {"name": "Entrant 1", "licence": "cc-by-4.0", "family": "", "notes": "n", "metrics": [SLUG]}
    assert "It was sent again" in client.post(form, values, follow=True).content.decode()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason, waiting.payload["licence"]) == (State.MODERATED, "", "cc-by-4.0")
    assert waiting.payload["hub_id"] == "an-institute/a-model", "what was checked stays as it was"
    detail = AuditEvent.objects.get(verb="send submission again").detail
    assert (detail["before"]["licence"], detail["after"]["licence"]) == ("mit", "cc-by-4.0")
    decide(waiting, "accept", moderator=grace)
    assert waiting.state == State.ACCEPTED
    assert list(OutboxMessage.objects.values_list("event", flat=True)) == ["returned", "accepted"]
    with pytest.raises(Refused, match="no changes are asked for"):
        send_again(waiting, values, waiting.submitter)


def test_what_is_sent_again_asks_for_the_metrics_that_are_chosen_then(waiting, metric, grace):
    metric.pk, metric.slug = None, "another"
    metric.save(force_insert=True)
    decide(waiting, "return", "Choose what it is for.", grace)
    send_again(waiting, {"name": "Entrant 1", "licence": "mit", "metrics": ["another"]}, waiting.submitter)
    waiting.refresh_from_db()
    assert waiting.payload["metrics"] == ["another"]
    detail = AuditEvent.objects.get(verb="send submission again").detail
    assert (detail["before"]["metrics"], detail["after"]["metrics"]) == ([SLUG], ["another"])


def test_a_reason_has_2000_characters_at_most(waiting, grace):
    with pytest.raises(Refused, match="it has 2001 characters; use 2000 at most"):
        decide(waiting, "reject", "r" * 2001, grace)
    decide(waiting, "reject", f"  {'r' * 2000}\n", grace)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == (State.REFUSED, "r" * 2000)


@pytest.mark.parametrize(
    ("decision", "title", "consequence", "outcome"),
    [
        ("accept", "Accept", "The model is entered and its evaluation queued.", "under way"),
        ("reject", "Reject", "The submission ends: nothing is entered. Its submitter reads your reason.", "refused"),
        (
            "return",
            "Ask for changes",
            "Its submitter reads what you ask for, changes it, and sends it again.",
            "changes are asked for",
        ),
    ],
)
def test_each_question_says_what_follows_and_the_answer_what_became_of_it(
    waiting, grace, client, decision, title, consequence, outcome
):
    client.force_login(grace)
    context = client.get(reverse("moderation")).context
    assert (list(context["decisions"]), context["moderated"]) == (["accept", "reject", "return"], True)
    assert [row.submission for row in context["shown"].rows] == [waiting]
    question = client.get(address(waiting, decision))
    names = ("submission", "decision", "title", "after", "reason", "problem")
    assert question.status_code == 200
    assert [question.context[name] for name in names] == [waiting, decision, title, consequence, "", ""]
    wrong = client.post(address(waiting, decision), {"reason": "r" * 2001})
    assert (wrong.status_code, wrong.context["reason"]) == (400, "r" * 2001)
    assert wrong.context["problem"] == "reason: it has 2001 characters; use 2000 at most"
    answer = client.post(address(waiting, decision), {"reason": "So it is."}, follow=True)
    assert answer.redirect_chain == [(reverse("moderation"), 302)]
    (message,) = answer.context["messages"]
    assert str(message) == f"Entrant 1: {outcome}. Its submitter is notified."


def test_a_question_about_a_name_says_what_becomes_of_the_name(waiting, grace, client):
    with transaction.atomic():
        lifecycle.begin(waiting)
    Submission.objects.filter(pk=waiting.pk).update(name_asked="Another")
    client.force_login(grace)
    consequences = {
        name: client.get(address(waiting, name)).context["after"] for name in ("accept", "reject", "return")
    }
    assert consequences == {
        "accept": "The model has the new name, here and in the rankings; the public change log says so.",
        "reject": "The model keeps its name. Its submitter reads your reason.",
        "return": "A name is accepted or rejected.",
    }
    answer = client.post(address(waiting, "accept"), follow=True)
    (message,) = answer.context["messages"]
    assert str(message) == "Entrant 1: its name is decided upon. Its submitter is notified."


def test_a_decision_is_made_once(waiting, grace):
    late = Submission.objects.get(pk=waiting.pk)  # as a second moderator's page read it, before the first decided
    decide(waiting, "reject", "No.", grace)
    with pytest.raises(Refused, match="no longer waits for a moderator: refused"):
        decide(late, "accept", moderator=person("heidi", "moderator"))
    assert Submission.objects.get(pk=waiting.pk).state == State.REFUSED
    assert not LanguageModel.objects.exists()


def test_nobody_decides_upon_their_own_but_those_who_run_the_board(metric, client):
    for role, status in (("moderator", 400), ("operator", 302)):
        user = person(role, role)
        mine = sent(user, metric.slug, number=9, state="moderated")
        client.force_login(user)
        assert ("This submission is your own" in client.get(address(mine, "accept")).content.decode()) == (
            status == 400
        )
        assert client.post(address(mine, "accept")).status_code == status
        mine.refresh_from_db()
        assert (mine.state == State.ACCEPTED) == (status == 302)


def test_what_cannot_be_evaluated_is_not_accepted_and_says_why(waiting, grace, metric):
    Submission.objects.filter(pk=waiting.pk).update(payload={**waiting.payload, "metrics": [SLUG]})
    from leaderboard.services.evaluate import CannotEvaluate

    def cannot(_submission):
        raise CannotEvaluate("entrant-1 cannot be evaluated: it is withdrawn")

    lifecycle.ENTERS["hub"] = cannot
    with pytest.raises(Refused, match="It cannot be evaluated: entrant-1 cannot be evaluated: it is withdrawn"):
        decide(waiting, "accept", moderator=grace)
    assert Submission.objects.get(pk=waiting.pk).state == State.MODERATED
    assert not OutboxMessage.objects.exists()
    assert not AuditEvent.objects.filter(verb="accept submission").exists()


@pytest.mark.parametrize("role", ["viewer", "submitter"])
def test_others_do_not_moderate(waiting, client, role):
    pages = [reverse("moderation"), *(address(waiting, decision) for decision in ("accept", "reject", "return"))]
    assert all(client.get(page).status_code == 302 for page in pages)
    client.force_login(person("eve", role))
    assert [client.get(page).status_code for page in pages] == [403] * 4
    assert client.post(pages[1]).status_code == 403
    assert client.post(pages[2], {"reason": "No."}).status_code == 403
    waiting.refresh_from_db()
    assert waiting.state == State.MODERATED


def test_a_forged_form_decides_nothing_and_there_are_three_decisions(waiting, grace):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(grace)
    assert strict.post(address(waiting, "accept")).status_code == 403
    assert strict.get(address(waiting, "delete")).status_code == 404
    assert strict.post(reverse("moderation")).status_code in (403, 405)
    waiting.refresh_from_db()
    assert waiting.state == State.MODERATED


def test_the_page_of_many_asks_the_database_as_often_as_that_of_one(waiting, grace, client):
    client.force_login(grace)
    client.get(reverse("moderation"))
    counts = []
    for more in (0, 30):
        for number in range(more):
            sent(waiting.submitter, SLUG, number=10 + number, state="moderated")
        with CaptureQueriesContext(connection) as queries:
            html = client.get(reverse("moderation")).content.decode()
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert "Submissions 1 to 25 of 31" in html
    assert html.index("Entrant 1<") < html.index("Entrant 10<"), "the oldest first"


def test_the_terminal_decides_too_with_the_same_words(waiting, capsys):
    with pytest.raises(CommandError, match="reason: it is empty"):
        call_command("moderate", waiting.pk, "reject")
    with pytest.raises(CommandError, match="there is no submission 0"):
        call_command("moderate", 0, "accept")
    call_command("moderate", waiting.pk, "return", "--reason", "Name its licence.")
    assert "changes are asked for" in capsys.readouterr().out
    assert AuditEvent.objects.get(verb="return submission").actor is None
    with pytest.raises(CommandError, match="no longer waits for a moderator"):
        call_command("moderate", waiting.pk, "accept")


def test_the_menu_leads_moderators_there_and_everybody_to_their_own(waiting, client):
    for name, role, expected in (("eve", "submitter", False), ("grace", "moderator", True), ("olga", "operator", True)):
        client.force_login(person(name, role))
        html = client.get(reverse("account")).content.decode()
        assert f'href="{reverse("submissions")}"' in html
        assert (f'href="{reverse("moderation")}"' in html) == expected
