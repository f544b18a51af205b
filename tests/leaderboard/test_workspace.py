"""What somebody does with what they sent: lists, corrects, withdraws; and nobody else does."""

import re

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard.models import (
    AuditEvent,
    LanguageModel,
    Submission,
)
from leaderboard.submissions.services import workspace
from leaderboard.submissions.services.moderation import decide
from scoring.refusals import Refused
from tests.leaderboard.living import SLUG, small_metric
from tests.leaderboard.submitting import (
    ada,
    begun,
    page,
    person,
    ranked,
    sent,
    small,
    small_rows,
    stage,
    submit_of_the_board,
)

__all__ = ["ada", "small", "small_rows", "stage"]

pytestmark = pytest.mark.django_db

State = Submission.State


# Whose they are

WRITES = ["cancel_submission", "retry_submission", "withdraw_submission", "correct_submission", "change_submission"]


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["submission", *WRITES])
def test_others_submissions_do_not_exist_and_strangers_log_in(small, ada, client, name):
    submission = begun(ada)
    address = reverse(name, args=[submission.pk])
    assert client.get(address).url.startswith(reverse("account_login"))
    client.force_login(person("bob"))
    assert client.get(address).status_code == 404
    if name != "submission":
        assert client.post(address, {"reason": "wish", "name": "mine"}).status_code == 404
    client.force_login(person("grace", "moderator"))
    assert client.get(address).status_code == (200 if name == "submission" else 404)
    submission.refresh_from_db()
    assert submission.state == State.ACCEPTED


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", WRITES)
def test_a_forged_form_changes_nothing_and_reading_a_form_neither(small, ada, name):
    submission = begun(ada)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    address = reverse(name, args=[submission.pk])
    assert strict.post(address, {"reason": "wish", "name": "x"}).status_code == 403
    assert strict.get(address).status_code in (200, 302)
    before = submission.state, submission.payload
    submission.refresh_from_db()
    assert (submission.state, submission.payload) == before


@pytest.mark.slow
def test_each_act_is_asked_once_and_done_by_the_button(small, ada, client):
    client.force_login(ada)
    submission = begun(ada)
    address = reverse("cancel_submission", args=[submission.pk])
    assert "Cancel the submission" in client.get(address).content.decode()
    assert "It is cancelled." in client.post(address, follow=True).content.decode()
    assert "nothing to cancel" in client.post(address, follow=True).content.decode()
    address = reverse("retry_submission", args=[submission.pk])
    assert "It is under way again." in client.post(address, follow=True).content.decode()


# The workspace


@pytest.mark.slow
def test_the_workspace_lists_ones_own_by_state_page_by_page_in_a_constant_number_of_queries(small, ada, client):
    client.force_login(ada)
    assert "You have not submitted anything yet" in client.get(reverse("submissions")).content.decode()
    ranked(ada)
    begun(person("bob"), 9, SLUG)
    counts = []
    client.get(reverse("submissions"))
    for more in (1, 28):
        for number in range(more):
            sent(ada, SLUG, number=100 + number, state="moderated")
        with CaptureQueriesContext(connection) as queries:
            html = client.get(reverse("submissions")).content.decode()
        counts.append(len(queries))
    assert counts[1] <= counts[0], "of those that are not entered yet there is nothing to look up"
    assert "Entrant 9" not in html
    assert "Ranked 1" in html
    assert "Waiting for a moderator 29" in html
    assert html.count("<tr>") == 26
    assert "Submissions 26 to 30 of 30" in client.get(reverse("submissions") + "?page=2").content.decode()
    one = client.get(reverse("submissions") + "?state=ranked").content.decode()
    assert one.count("<tr>") == 2
    assert "1 of 1 metric ranked" in one
    assert client.get(reverse("submissions") + "?state=lost").status_code == 404


@pytest.mark.slow
def test_the_page_asks_the_database_as_often_for_three_metrics_as_for_one(small, ada, client, tmp_path):
    client.force_login(ada)
    others = [small_metric(tmp_path, f"other-{number}").slug for number in range(2)]
    counts = []
    for submission in (begun(ada, 1, SLUG), begun(ada, 2, SLUG, *others)):
        client.get(submission.get_absolute_url())
        with CaptureQueriesContext(connection) as queries:
            client.get(submission.get_absolute_url())
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 25


def names_in(client: Client) -> str:
    return client.get(reverse("rankings"), {"metric": SLUG}).content.decode()


@pytest.mark.slow
def test_withdrawing_says_what_it_does_and_takes_the_model_out_of_the_rankings(small, ada, client):
    client.force_login(ada)
    submission = ranked(ada)
    address = reverse("withdraw_submission", args=[submission.pk])
    html = client.get(address).content.decode()
    assert re.search(r"rank [12] of 2", html)
    assert "leaves the rankings" in html
    assert "Entrant 1" in names_in(client)
    assert "use one of mistake" in client.post(address, {"reason": "because"}, follow=True).content.decode()
    assert "has left the rankings" in client.post(address, {"reason": "wish"}, follow=True).content.decode()
    assert "Entrant 1" not in names_in(client)
    submission.refresh_from_db()
    assert (submission.state, submission.model.access) == (State.WITHDRAWN, LanguageModel.Access.WITHDRAWN)
    event = AuditEvent.objects.get(verb="withdraw submission")
    assert (event.actor, event.detail["before"], event.detail["after"]) == (
        ada,
        {"state": "ranked"},
        {"state": "withdrawn"},
    )
    assert "was withdrawn by its submitter" in client.get(reverse("changes")).content.decode()
    assert "there is nothing to withdraw" in client.post(address, {"reason": "wish"}, follow=True).content.decode()


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["somebody else's too", "the board's before"])
def test_a_model_that_others_have_to_do_with_stays_when_one_withdraws(small, ada, client, whose):
    if whose == "somebody else's too":
        submission = ranked(ada)
        ranked(person("bob"))
    else:
        submit_of_the_board(small)
        submission = ranked(ada, 7)
    client.force_login(ada)
    html = client.get(reverse("withdraw_submission", args=[submission.pk])).content.decode()
    assert "the model stays where it is" in html
    assert not workspace.withdraw(submission, "wish", ada)
    assert submission.state == State.WITHDRAWN
    assert LanguageModel.objects.get(pk=submission.model_id).access == LanguageModel.Access.OPEN
    with pytest.raises(Refused, match="Ask the people who run this board"):
        workspace.correct(submission, {"name": "Mine alone"}, ada)


@pytest.mark.slow
@pytest.mark.parametrize(("context", "is_asked"), [(1024, False), (None, True)])
def test_nobody_is_asked_for_what_the_configuration_of_a_model_says(small, ada, client, context, is_asked):
    submission = begun(ada)
    LanguageModel.objects.filter(pk=submission.model_id).update(context=context)
    client.force_login(ada)
    page = client.get(reverse("correct_submission", args=[submission.pk])).content.decode()
    assert ('name="context"' in page) == is_asked


@pytest.mark.slow
def test_what_is_said_of_a_model_is_corrected_for_the_record_and_the_change_log(small, ada, client):
    client.force_login(ada)
    submission = ranked(ada)
    address = reverse("correct_submission", args=[submission.pk])
    assert 'value="mit"' in client.get(address).content.decode()
    values = {"name": "Entrant 1", "family": "entrants", "licence": "apache-2.0", "notes": "first\r\nsecond <b>"}
    assert "Corrected: family, licence, notes." in client.post(address, values, follow=True).content.decode()
    model = LanguageModel.objects.get(pk=submission.model_id)
    assert (model.name, model.family, model.licence, model.notes) == (
        "Entrant 1",
        "entrants",
        "apache-2.0",
        "first\nsecond <b>",
    )
    html = client.get(model.get_absolute_url()).content.decode()
    assert "first<br>second &lt;b&gt;" in html
    event = AuditEvent.objects.get(verb="correct model")
    assert (event.actor, event.detail["before"]["licence"], event.detail["after"]["licence"]) == (
        ada,
        "mit",
        "apache-2.0",
    )
    assert "was corrected by its submitter: family, licence, notes." in client.get(reverse("changes")).content.decode()
    assert "Nothing was changed." in client.post(address, values, follow=True).content.decode()
    assert AuditEvent.objects.filter(verb="correct model").count() == 1
    assert address in client.get(submission.get_absolute_url()).content.decode()
    LanguageModel.objects.update(access=LanguageModel.Access.WITHDRAWN)
    assert address not in client.get(submission.get_absolute_url()).content.decode()


def test_a_name_is_normalised_and_one_that_is_not_ranked_yet_is_corrected_at_once(small, ada, client):
    client.force_login(ada)
    submission = begun(ada)
    values = {"name": "Ｅｎｔｒａｎｔ　Ⅻ", "licence": "mit"}
    client.post(reverse("correct_submission", args=[submission.pk]), values)
    assert LanguageModel.objects.get(pk=submission.model_id).name == "Entrant XII"


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"name": " "}, "name", "Give the model a name."),
        ({"name": "n" * 201}, "name", "It has 201 characters: use 200 at most."),
        ({"name": "Entrant 0"}, "name", "Entrant 0 is the name of another model here"),
        ({"name": "=1+1"}, "name", "as a spreadsheet&#x27;s formula does"),
        ({"name": "x\u202ey"}, "name", "characters that cannot be seen (U+202E)"),
        ({"name": "x", "licence": "a\nb"}, "licence", "characters that cannot be seen (U+000A)"),
        ({"name": "x", "family": "f" * 81}, "family", "It has 81 characters: use 80 at most."),
        ({"name": "x", "notes": "n" * 2001}, "notes", "It has 2,001 characters: use 2,000 at most."),
    ],
)
def test_a_correction_that_will_not_do_is_named_at_its_field_and_changes_nothing(
    small, ada, client, values, field, words
):
    client.force_login(ada)
    submission = begun(ada)
    answer = client.post(reverse("correct_submission", args=[submission.pk]), values)
    assert answer.status_code == 400
    html = answer.content.decode()
    assert words in html
    assert f'id="id_{field}_error"' in html
    assert LanguageModel.objects.get(pk=submission.model_id).name == "Entrant 1"
    assert not AuditEvent.objects.filter(verb="correct model").exists()


def test_a_day_and_a_number_are_corrected_for_the_record_too(small, ada):
    submission = begun(ada)
    values = {"name": "Entrant 1", "licence": "mit", "release_date": "2024-05-01"}
    assert workspace.correct(submission, values, ada) == (["release_date"], False)
    event = AuditEvent.objects.get(verb="correct model")
    assert (event.detail["before"], event.detail["after"]) == ({"release_date": None}, {"release_date": "2024-05-01"})
    submission.refresh_from_db()
    assert submission.payload["release_date"] == "2024-05-01"
    assert str(LanguageModel.objects.get(pk=submission.model_id).release_date) == "2024-05-01"


@pytest.mark.slow
def test_a_new_revision_is_an_entry_of_its_own_in_the_same_lineage_and_the_old_one_says_so(small, ada, client):
    first, second = ranked(ada, 1), ranked(ada, 2)
    assert first.model_id != second.model_id
    assert set(LanguageModel.objects.lineage(first.model)) == {first.model, second.model}
    old = client.get(first.model.get_absolute_url()).content.decode()
    assert "A newer revision of this model is here" in old
    assert second.model.get_absolute_url() in old
    new = client.get(second.model.get_absolute_url()).content.decode()
    assert "A newer revision" not in new
    assert first.model.get_absolute_url() in new
    assert "A newer revision of this model is here" in page(ada, first)
    third = ranked(ada, 3)
    for html in (client.get(first.model.get_absolute_url()).content.decode(), page(ada, first)):
        notice = html.split("A newer revision of this model is here", 1)[1].split("</p>", 1)[0]
        assert third.model.get_absolute_url() in notice, "to the newest of both, not to the next"
        assert second.model.get_absolute_url() not in notice
    workspace.correct(second, {"name": "Entrant 1", "licence": "mit"}, ada)
    second.refresh_from_db()
    assert second.concerns == []
    decide(second, "accept")
    second.model.refresh_from_db()
    assert second.model.name == "Entrant 1", "revisions of one model may bear one name"


@pytest.mark.slow
def test_the_command_lists_what_was_submitted(small, ada, capsys):
    submission = ranked(ada)
    sent(person("bob"), SLUG, state="returned", number=2)
    call_command("submissions")
    out = capsys.readouterr().out
    assert re.search(rf"{submission.pk}  ranked +\S+  ada +Entrant 1\n", out)
    assert "Say which texts" in out
    call_command("submissions", "--user", "ada@example.org", "--json")
    out = capsys.readouterr().out
    assert '"state": "ranked"' in out
    assert "bob" not in out
    call_command("submissions", "--state", "failed")
    assert "nothing was submitted that fits" in capsys.readouterr().out
    with pytest.raises(CommandError, match="there is no user"):
        call_command("submissions", "--user", "nobody")
