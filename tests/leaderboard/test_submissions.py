"""What becomes of a submission, told to its submitter: page, log, letters, workspace; and to nobody else."""

import re
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from uuid import uuid4

import pytest
from allauth.account.models import EmailAddress
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    LanguageModel,
    Letter,
    Metric,
    Rescoring,
    Run,
    Scoring,
    Submission,
    SubmissionLine,
)
from leaderboard.queries.submissions import status
from leaderboard.services.failures import KINDS, shown
from leaderboard.services.leases import NEVER_RETRIED, claimed
from leaderboard.services.submission_log import say
from leaderboard.services.submissions import SubmissionRefused, lifecycle, sending, workspace
from leaderboard.services.submissions.letters import send_due
from leaderboard.services.submissions.lifecycle import CannotChange
from scoring.language_models import HubUnavailable, ModelRefused
from tests.leaderboard.conftest import CAUSAL, keep_rows
from tests.leaderboard.living import SLUG, drain, drift, entrant, retry, small_metric, standing_in, submit
from tests.leaderboard.submitting import entered_by_number, person, sent
from tests.leaderboard.test_accounts import _quick_hashes

__all__ = ["_quick_hashes"]

pytestmark = pytest.mark.django_db

State = Submission.State


@pytest.fixture
def stage():
    with standing_in() as found:
        yield found


@pytest.fixture(scope="session")
def small_rows(django_db_setup, django_db_blocker, tmp_path_factory) -> Path:
    """The rows of `small`, computed once."""
    folder = tmp_path_factory.mktemp("small")

    def build() -> None:
        metric = small_metric(folder)
        submit(entrant(0, metric), metric)

    with django_db_blocker.unblock(), standing_in():
        return keep_rows(folder / "rows.json", build)


@pytest.fixture
def small(small_rows, db, stage, monkeypatch) -> Metric:
    """A metric of ten prompts with one entry, and submissions that bring their outputs along."""
    call_command("loaddata", str(small_rows), verbosity=0)
    with entered_by_number(monkeypatch):
        yield Metric.objects.get(slug=SLUG)


@pytest.fixture
def ada(db) -> User:
    return person("ada")


def begun(user: User, number: int = 1, *metrics: str) -> Submission:
    submission = sent(user, *(metrics or [SLUG]), number=number)
    with transaction.atomic():
        lifecycle.begin(submission)
    return submission


def ranked(user: User, number: int = 1) -> Submission:
    submission = begun(user, number)
    drain()
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    return submission


def log_of(submission: Submission) -> str:
    return "\n".join(submission.lines.values_list("text", flat=True))


def page(user: User, submission: Submission, name: str = "submission", **headers) -> str:
    client = Client()
    client.force_login(user)
    return client.get(reverse(name, args=[submission.pk]), headers=headers).content.decode()


# From sending to the ranking


def test_a_submission_is_collected_checked_scored_and_ranked_and_its_page_and_log_and_letter_say_so(
    metric, models, ada, monkeypatch
):
    monkeypatch.setitem(lifecycle.ENTERS, "hub", lambda _: models[CAUSAL])
    submission = begun(ada, 1, metric.slug)
    html = page(ada, submission)
    assert "Under way." in html
    assert "place 1 in the queue" in html
    assert "control texts are scored first" in html
    assert 'hx-trigger="every 2s"' in html

    tasks.collect_run(0)
    assert "at scoring" in status(submission).stages[0].said
    assert status(submission).percent == 90
    tasks.score_run(0)
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    assert submission.ended_at is not None
    log = log_of(submission)
    in_order = ["Under way.", "The weights are loaded.", "are collected.", "Scored under version 1", "rank 1 of 1"]
    assert sorted(in_order, key=log.index) == in_order
    html = page(ada, submission)
    assert "Rank 1 of 1" in html
    assert models[CAUSAL].get_absolute_url() in html
    assert metric.ranking_url.replace("&", "&amp;") in html
    assert "hx-get" not in html, "a page about what has ended asks no more"
    (letter,) = mail.outbox
    assert letter.to == ["ada@example.org"]
    assert letter.subject == "Plumbline: ranked: Entrant 1"
    assert "rank 1 of 1" in letter.body
    assert f"{django_settings.SITE_URL}{submission.get_absolute_url()}" in letter.body
    tasks.watch()
    assert len(mail.outbox) == 1


def test_the_control_check_runs_first_and_the_log_says_what_it_found(small, ada):
    submission = ranked(ada)
    said = log_of(submission)
    assert said.index("its control texts are scored again, before any numbers") < said.index("Scored under version 1")
    assert f"Control check of {SLUG}: stable." in said
    assert ControlCheck.objects.filter(trigger="submission").exists()


def test_a_drift_scores_all_entries_again_and_the_page_says_how_far_until_it_is_published(small, stage, ada):
    drift(stage)
    submission = begun(ada)
    tasks.score_run(0)
    rescoring = Rescoring.objects.active().get()
    assert "The scorer drifted: all entries of" in log_of(submission)
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.ACCEPTED, "its entry moved on, it did not end"
    html = page(ada, submission)
    assert f"{reverse('drift')}?metric={SLUG}" in html
    assert status(submission).stages[0].evaluation.rescoring == rescoring
    own = Scoring.objects.get(model=submission.model, metric_version=rescoring.to_version)
    tasks.score_one(own.pk)
    assert "It is published with all other entries: 1 of 2 are scored" in page(ada, submission)
    drain()
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    assert "version 2: rank" in log_of(submission)


def test_settling_twice_at_once_or_late_ends_a_submission_once(small, ada):
    submission = begun(ada)
    assert lifecycle.settle() == 0
    drain()
    submission.refresh_from_db()
    assert submission.state == State.RANKED, "the task that ends the work settles"
    assert lifecycle.settle() == 0
    assert Letter.objects.filter(submission=submission).count() == 1


def test_of_two_metrics_one_that_fails_fails_the_submission_and_a_retry_does_that_one_again(small, ada, tmp_path):
    other = small_metric(tmp_path, "toxicity-other", formula="toxicity")
    submission = begun(ada, 1, SLUG, other.slug)
    scoring = Scoring.objects.get(model=submission.model, metric_version__metric=other)
    Scoring.objects.filter(pk=scoring.pk).update(held=True)
    drain_but_held()
    Scoring.objects.filter(pk=scoring.pk).update(
        state="failed", reason="/srv/board/var/x: no such thing", fault="ArtefactError", held=False
    )
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.FAILED
    assert submission.reason.startswith("toxicity-other: A file of this board cannot be read.")
    html = page(ada, submission)
    assert "Rank 2 of 2" in html or "Rank 1 of 2" in html
    assert "/srv/board" not in html
    assert "The technical reason" in html
    assert mail.outbox[-1].subject == "Plumbline: failed: Entrant 1"
    lifecycle.retry(submission, ada)
    assert Scoring.objects.get(pk=scoring.pk).state == "queued"
    drain()
    submission.refresh_from_db()
    assert (submission.state, submission.reason) == (State.RANKED, "")


def drain_but_held() -> None:
    while Scoring.objects.unclaimed().exists():
        tasks.score_run(0)


def test_each_kind_of_failure_that_is_never_retried_has_words_for_the_submitter():
    assert {kind.__name__ for kind in NEVER_RETRIED} <= set(KINDS)
    for failure in KINDS.values():
        assert failure.what.endswith(".")
        assert failure.remedy.endswith(".")


@pytest.mark.parametrize(
    ("reason", "hidden", "kept"),
    [
        ("[Errno 2] No such file: '/srv/plumbline/var/artefacts/ab12.parquet'", "/srv", "No such file"),
        ("cannot open /home/olga/models/x.gguf: denied", "olga", "denied"),
        ("redis+socket:///var/run/redis.sock is away", "run/redis", "is away"),
        ("GET https://user:pass@hub.example.org/api/models/a/b: 401", "user:pass", "hub.example.org/api/models/a/b"),
        ("token hf_abcdefghijklmnop refused", "abcdefghijklmnop", "refused"),
        ("Authorization: Bearer s3cr3t.t0ken was refused", "s3cr3t", "was refused"),
        ("postgresql://board:pw@10.0.3.7:5432/board timed out", "10.0.3.7", "timed out"),
        ("send the outputs at /submit/outputs/ or from /srv/x/y", "/srv", "at /submit/outputs/ or"),
        ("connect to localhost:6379 failed", "6379", "failed"),
        ("org/model has pytorch_model.bin and no safetensors: convert it", "…", "org/model has pytorch_model.bin"),
        ("the key is very-secret-key", "very-secret-key", "the key is"),
        (r"C:\boards\var\file is gone", "boards", "is gone"),
    ],
)
def test_technical_reasons_are_shown_without_paths_secrets_and_addresses(reason, hidden, kept, settings):
    settings.PERSPECTIVE_API_KEY = "very-secret-key"
    assert hidden not in shown(reason)
    assert kept in shown(reason)


def run_of(ada: User, metric: Metric) -> tuple[Submission, Run]:
    """A submission whose run waits."""
    submission = begun(ada)
    Scoring.objects.filter(model=submission.model).update(state="queued")
    Run.objects.filter(model=submission.model).update(state="queued", artefact=None, requester=ada)
    return submission, Run.objects.get(model=submission.model)


def test_an_attempt_that_fails_and_is_tried_again_is_told_and_one_that_fails_for_good_ends_the_submission(small, ada):
    submission, run = run_of(ada, small)
    with claimed(run):
        raise HubUnavailable("the hub at http://10.1.1.1:80 answered 503")
    assert "Attempt 1 came to nothing. The hub did not answer. It is tried again in" in log_of(submission)
    html = page(ada, submission)
    assert "Attempt 1 of 5 came to nothing. The hub did not answer. It is tried again in" in html
    assert "10.1.1.1" not in html
    retry()
    run.refresh_from_db()
    with claimed(run):
        raise ModelRefused("an-institute/a-model holds weights as pickles: convert them to safetensors")
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.FAILED
    html = page(ada, submission)
    assert "Mend them on the hub as the reason says" in html
    assert "convert them to safetensors" in html


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"held": True}, "Paused by an operator, at collecting outputs"),
        ({}, "Waiting for its turn at collecting outputs, place 1 in the queue."),
        (
            {"state": "running", "lease": uuid4(), "lease_expires_at": timedelta(60)},
            "Collecting the model&#x27;s outputs.",
        ),
        ({"state": "running", "lease": uuid4(), "lease_expires_at": -timedelta(60)}, "Its worker fell silent"),
        ({"not_before": timedelta(seconds=300)}, "Waiting for a control check. It goes on in"),
        ({"state": "cancelled", "reason": "by an operator"}, "Cancelled."),
    ],
)
def test_the_page_says_honestly_where_the_work_is(small, ada, changes, words):
    submission, run = run_of(ada, small)
    now = timezone.now()
    at = {name: now + value if isinstance(value, timedelta) else value for name, value in changes.items()}
    Run.objects.filter(pk=run.pk).update(**at)
    assert words in page(ada, submission)


def test_the_page_shows_texts_percent_and_the_time_left_by_the_pace_so_far(small, ada):
    submission, run = run_of(ada, small)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        state="running", lease=uuid4(), lease_expires_at=now + timedelta(60), done=2500, total=10_000, seconds=100
    )
    html = page(ada, submission)
    assert "2,500 of 10,000, 25%" in html
    assert "5 min 0 s" in html
    assert status(submission).percent == 12
    done = Run.objects.filter(state="done").first()
    Run.objects.filter(pk=done.pk).update(seconds=125)
    Run.objects.filter(pk=run.pk).update(state="queued", lease=None, lease_expires_at=None, done=0, total=0, seconds=0)
    assert "about 2 min 5 s, once it begins" in page(ada, submission)


def test_a_page_that_polls_is_made_anew_when_the_state_changes_and_is_left_alone_otherwise(small, ada, client):
    submission = begun(ada)
    client.force_login(ada)
    mark = status(submission).mark
    address = submission.get_absolute_url()
    assert client.get(address, headers={"Plumbline-Seen": mark}).status_code == 200
    drain()
    answer = client.get(address, headers={"Plumbline-Seen": mark})
    assert answer["HX-Refresh"] == "true"
    assert "no-store" in answer["Cache-Control"]


# The log


def test_a_line_costs_one_query_and_the_boards_own_runs_cost_none(small, ada, django_assert_num_queries):
    submission = begun(ada)
    scoring = Scoring.objects.get(model=submission.model)
    with django_assert_num_queries(1):
        say(scoring, "x" * 600)
    assert submission.lines.last().text == "x" * 500
    run = Run.objects.filter(requester=None).first()
    with django_assert_num_queries(0):
        say(run, "nobody reads this")
    other = Scoring.objects.exclude(model=submission.model).first()
    with django_assert_num_queries(1):
        say(other, "nobody reads this")
    assert not SubmissionLine.objects.filter(text="nobody reads this").exists()
    assert abs(submission.lines.last().at - timezone.now()) < timedelta(minutes=1)


# Cancelling and retrying


def test_cancelling_stops_what_nobody_else_waits_for_and_a_retry_begins_it_again(small, ada):
    submission, run = run_of(ada, small)
    assert lifecycle.cancel(submission, ada)
    run.refresh_from_db()
    assert (run.state, submission.state) == ("cancelled", State.CANCELLED)
    assert not lifecycle.cancel(submission, ada)
    assert not mail.outbox
    lifecycle.retry(submission, ada)
    run.refresh_from_db()
    assert (run.state, submission.state) == ("queued", State.ACCEPTED)
    events = AuditEvent.objects.filter(subject=f"submission {submission.pk}").order_by("pk")
    assert [(event.verb, event.detail["before"], event.detail["after"]) for event in events] == [
        ("cancel submission", "accepted", "cancelled"),
        ("retry submission", "cancelled", "accepted"),
    ]
    with pytest.raises(CannotChange, match="nothing to retry"):
        lifecycle.retry(submission, ada)


def test_cancelling_leaves_alone_what_somebody_else_or_the_board_waits_for(small, ada, tmp_path):
    submission, run = run_of(ada, small)
    begun(person("bob"))
    lifecycle.cancel(submission, ada)
    run.refresh_from_db()
    assert run.state == "queued"

    theirs = submit_of_the_board(small)
    mine = begun(ada, 7)
    lifecycle.cancel(mine, ada)
    theirs.refresh_from_db()
    assert theirs.state == "queued"


def submit_of_the_board(metric: Metric) -> Scoring:
    from leaderboard.services.evaluate import request_evaluation

    return request_evaluation(entrant(7, metric), metric, send=False)


def test_a_retry_counts_as_under_way(small, ada, settings):
    settings.SUBMISSIONS_AT_ONCE = 1
    first = begun(ada)
    lifecycle.cancel(first, ada)
    begun(ada, 2)
    with pytest.raises(CannotChange, match="1 submissions under way, the most at once"):
        lifecycle.retry(first, ada)
    first.refresh_from_db()
    assert first.state == State.CANCELLED


# Limits


@pytest.fixture
def anything(monkeypatch):
    monkeypatch.setitem(sending.CHECKS, "hub", lambda *_: sent_payload())


def sent_payload() -> dict:
    return {"name": "Entrant 1", "hub_id": "a/b", "metrics": [SLUG], "licence": "", "number": 1}


def test_one_may_have_so_many_under_way_and_send_so_many_a_day(small, ada, settings, anything):
    settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY = 2, 3
    sending.submit(ada, "hub", {})
    sending.submit(ada, "hub", {})
    with pytest.raises(SubmissionRefused, match="2 submissions under way, the most at once"):
        sending.submit(ada, "hub", {})
    sending.submit(person("bob"), "hub", {})
    drain()
    sending.submit(ada, "hub", {})
    drain()
    with pytest.raises(SubmissionRefused, match="3 submissions within a day"):
        sending.submit(ada, "hub", {})
    Submission.objects.update(created_at=timezone.now() - timedelta(days=1, seconds=1))
    sending.submit(ada, "hub", {})


@pytest.mark.django_db(transaction=True)
def test_of_two_sent_at_the_same_moment_one_is_too_many(small, settings, anything):
    settings.SUBMISSIONS_AT_ONCE = 1
    ada, start, answers = person("ada"), Barrier(2), []

    def send() -> None:
        start.wait()
        try:
            answers.append(sending.submit(ada, "hub", {}).state)
        except SubmissionRefused as error:
            answers.append(str(error))
        finally:
            connection.close()

    threads = [Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.partition(":")[0] for answer in answers) == [
        "You have 1 submissions under way, the most at once",
        State.ACCEPTED,
    ]
    assert Submission.objects.count() == 1


# Letters


def test_a_mail_server_that_is_away_fails_no_work_and_gets_the_letter_later(small, ada, monkeypatch):
    def away(*_args, **_kwargs):
        raise ConnectionRefusedError("nobody listens")

    with monkeypatch.context() as patched:
        patched.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", away)
        ranked(ada)
    letter = Letter.objects.get()
    assert (letter.sent_at, letter.attempts) == (None, 1)
    assert letter.not_before > timezone.now()
    assert send_due() == 0
    Letter.objects.update(not_before=timezone.now())
    tasks.send_letters()
    assert len(mail.outbox) == 1
    tasks.send_letters()
    assert len(mail.outbox) == 1


def test_a_letter_that_another_worker_has_in_hand_is_not_sent_twice(small, ada, monkeypatch):
    ranked(ada)
    mail.outbox.clear()
    Letter.objects.update(sent_at=None, not_before=timezone.now())
    from leaderboard.services.submissions import letters

    def meanwhile(letter: Letter) -> int:
        assert send_due() == 0
        return 1

    monkeypatch.setattr(letters, "_send", meanwhile)
    assert send_due() == 1


def test_who_wants_no_letters_or_has_no_confirmed_address_gets_none(small, ada, client):
    client.force_login(ada)
    assert "checked" in client.get(reverse("submissions")).content.decode()
    client.post(reverse("submission-letters"), {})
    assert "checked" not in client.get(reverse("submissions")).content.decode()
    ranked(ada)
    bob = person("bob")
    EmailAddress.objects.filter(user=bob).update(verified=False)
    ranked(bob, 2)
    assert mail.outbox == []
    assert not Letter.objects.filter(sent_at=None).exists()
    client.post(reverse("submission-letters"), {"letters": "on"})
    ranked(ada, 3)
    assert len(mail.outbox) == 1


def test_a_name_with_line_breaks_forges_no_headers(small, ada):
    submission = sent(ada, SLUG, state="moderated", name="A\nBcc: eve@example.org\n\nmodel")
    submission.move(State.REFUSED, reason="No.")
    assert send_due() == 1
    assert mail.outbox[0].subject == "Plumbline: refused: A Bcc: eve@example.org model"
    assert mail.outbox[0].recipients() == ["ada@example.org"]


# Whose they are

WRITES = ["cancel-submission", "retry-submission", "withdraw-submission", "correct-submission", "change-submission"]


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


def test_each_act_is_asked_once_and_done_by_the_button(small, ada, client):
    client.force_login(ada)
    submission = begun(ada)
    address = reverse("cancel-submission", args=[submission.pk])
    assert "Cancel the submission" in client.get(address).content.decode()
    assert "It is cancelled." in client.post(address, follow=True).content.decode()
    assert "nothing to cancel" in client.post(address, follow=True).content.decode()
    address = reverse("retry-submission", args=[submission.pk])
    assert "It is under way again." in client.post(address, follow=True).content.decode()


# The workspace


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


def test_withdrawing_says_what_it_does_and_takes_the_model_out_of_the_rankings(small, ada, client):
    client.force_login(ada)
    submission = ranked(ada)
    address = reverse("withdraw-submission", args=[submission.pk])
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
    assert (event.actor, event.detail["before"], event.detail["after"]) == (ada, "ranked", "withdrawn")
    assert "was withdrawn by whoever submitted it" in client.get(reverse("changes")).content.decode()
    assert "there is nothing to withdraw" in client.post(address, {"reason": "wish"}, follow=True).content.decode()


@pytest.mark.parametrize("whose", ["somebody else's too", "the board's before"])
def test_a_model_that_others_have_to_do_with_stays_when_one_withdraws(small, ada, client, whose):
    if whose == "somebody else's too":
        submission = ranked(ada)
        ranked(person("bob"))
    else:
        submit_of_the_board(small)
        submission = ranked(ada, 7)
    client.force_login(ada)
    html = client.get(reverse("withdraw-submission", args=[submission.pk])).content.decode()
    assert "the model stays where it is" in html
    assert not workspace.withdraw(submission, "wish", ada)
    assert submission.state == State.WITHDRAWN
    assert LanguageModel.objects.get(pk=submission.model_id).access == LanguageModel.Access.OPEN
    with pytest.raises(CannotChange, match="Ask the people who run this board"):
        workspace.correct(submission, {"name": "Mine alone"}, ada)


def test_what_is_said_of_a_model_is_corrected_for_the_record_and_the_change_log(small, ada, client):
    client.force_login(ada)
    submission = ranked(ada)
    address = reverse("correct-submission", args=[submission.pk])
    assert 'value="mit"' in client.get(address).content.decode()
    values = {"name": "Entrant One", "family": "entrants", "licence": "apache-2.0", "notes": "first\r\nsecond <b>"}
    assert "Corrected: name, family, licence, notes." in client.post(address, values, follow=True).content.decode()
    model = LanguageModel.objects.get(pk=submission.model_id)
    assert (model.name, model.family, model.licence, model.notes) == (
        "Entrant One",
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
    assert (
        "was corrected by whoever submitted it: name, family, licence, notes."
        in client.get(reverse("changes")).content.decode()
    )
    assert "Nothing was changed." in client.post(address, values, follow=True).content.decode()
    assert AuditEvent.objects.filter(verb="correct model").count() == 1


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
        ({"name": "x", "notes": "n" * 2001}, "notes", "It has 2001 characters: use 2000 at most."),
    ],
)
def test_a_correction_that_will_not_do_is_named_at_its_field_and_changes_nothing(
    small, ada, client, values, field, words
):
    client.force_login(ada)
    submission = begun(ada)
    answer = client.post(reverse("correct-submission", args=[submission.pk]), values)
    assert answer.status_code == 400
    html = answer.content.decode()
    assert words in html
    assert f'id="id_{field}_error"' in html
    assert LanguageModel.objects.get(pk=submission.model_id).name == "Entrant 1"
    assert not AuditEvent.objects.filter(verb="correct model").exists()


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
    workspace.correct(second, {"name": "Entrant 1", "licence": "mit"}, ada)
    second.model.refresh_from_db()
    assert second.model.name == "Entrant 1", "revisions of one model may bear one name"


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
