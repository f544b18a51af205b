"""What becomes of a submission, told to its submitter: page, log, letters."""

import re
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Thread
from unittest.mock import Mock
from uuid import uuid4

import pytest
from allauth.account.models import EmailAddress
from detoxify.detoxify import MODEL_URLS
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    Download,
    Metric,
    MetricVersion,
    OutboxMessage,
    Rescoring,
    Result,
    Run,
    ScorerProbe,
    Scoring,
    Submission,
    SubmissionLine,
)
from leaderboard.models.clock import from_now
from leaderboard.services import scorer_probes, scorers
from leaderboard.services.failures import FAILURES, explain, redact
from leaderboard.services.leases import claim
from leaderboard.services.outbox import send_due
from leaderboard.services.publish import publish_standings
from leaderboard.services.seed import seed_metrics
from leaderboard.services.submission_log import say
from leaderboard.submissions import intake
from leaderboard.submissions.queries.submissions import describe_status
from leaderboard.submissions.services import lifecycle
from leaderboard.submissions.services.evaluations import percent
from leaderboard.submissions.services.letters import NEWS
from leaderboard.submissions.services.metric_choices import list_choices
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.cage import CageDied
from scoring.language_models import HubUnavailable, ModelRefused
from scoring.refusals import Refused
from scoring.scorers import ScorerUnavailable
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.living import SLUG, drain, drift, entrant, retry, small_metric
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
from tests.leaderboard.test_accounts import posted
from tests.standin_hub import StandInHub
from tests.tiny_classifiers import save_classifier

__all__ = ["ada", "small", "small_rows", "stage"]

pytestmark = pytest.mark.django_db

State = Submission.State


def log_of(submission: Submission) -> str:
    return "\n".join(submission.lines.values_list("text", flat=True))


# From sending to the ranking


@pytest.mark.slow
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

    tasks.collect_run()
    assert "at scoring" in describe_status(submission).stages[0].text
    assert describe_status(submission).percent == 90
    tasks.score_run()
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    assert submission.ended_at is not None
    log = log_of(submission)
    in_order = [
        "Under way.",
        "The weights are loaded.",
        "are collected.",
        "Scored under version 1",
        "rank 1 of 1 causal model.",
    ]
    assert sorted(in_order, key=log.index) == in_order
    html = page(ada, submission)
    assert "1 of 1 causal model" in html
    (evaluation,) = describe_status(submission).stages
    assert evaluation.text == "Ranked."
    assert "Ranked." in html
    assert models[CAUSAL].get_absolute_url() in html
    assert metric.ranking_url.replace("&", "&amp;") in html
    assert "hx-get" not in html, "a page about what has ended asks no more"
    (letter,) = posted()
    assert letter.to == ["ada@example.org"]
    assert letter.subject == "Plumbline: ranked: Entrant 1"
    assert "rank 1 of 1 causal model" in letter.body
    assert f"{django_settings.SITE_URL}{submission.get_absolute_url()}" in letter.body
    tasks.watch()
    assert len(posted()) == 1


@pytest.mark.slow
def test_the_control_check_runs_first_and_the_log_says_what_it_found(small, ada):
    submission = ranked(ada)
    said = log_of(submission)
    assert said.index("its control texts are scored again, before any numbers") < said.index("Scored under version 1")
    assert f"Control check of {SLUG}: stable." in said
    assert ControlCheck.objects.filter(trigger="submission").exists()


@pytest.mark.slow
def test_a_drift_scores_all_entries_again_and_the_page_says_how_far_until_it_is_published(small, stage, ada):
    drift(stage)
    submission = begun(ada)
    tasks.score_run()
    rescoring = Rescoring.objects.active().get()
    assert "The scorer drifted: all entries of" in log_of(submission)
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.ACCEPTED, "its entry moved on, it did not end"
    html = page(ada, submission)
    assert f"{reverse('drift')}?metric={SLUG}" in html
    assert describe_status(submission).stages[0].evaluation.rescoring == rescoring
    own = Scoring.objects.get(model=submission.model, metric_version=rescoring.to_version)
    tasks.score_one(own.pk)
    assert "It is published with all other entries: 1 of 2 are scored" in page(ada, submission)
    drain()
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    assert "version 2: rank" in log_of(submission)


def test_what_has_no_evaluations_has_made_no_progress():
    assert percent([]) == 0


@pytest.mark.slow
def test_settling_twice_at_once_or_late_ends_a_submission_once(small, ada):
    submission = begun(ada)
    assert lifecycle.settle() == 0
    drain()
    submission.refresh_from_db()
    assert submission.state == State.RANKED, "the task that ends the work settles"
    assert lifecycle.settle() == 0
    assert OutboxMessage.objects.filter(submission=submission).count() == 1
    Submission.objects.filter(pk=submission.pk).update(state=State.ACCEPTED)
    assert lifecycle.settle() == 1


@pytest.mark.slow
def test_a_submission_that_is_retried_while_a_slow_worker_ends_it_goes_on(small, ada, monkeypatch):
    submission = begun(ada)
    failed = submission.scorings.filter(metric_version__metric=small)
    failed.update(state="failed", reason="it broke", fault="RuntimeError")
    look = lifecycle.evaluations

    def look_before_others_end_it_and_it_is_retried(submissions):
        monkeypatch.setattr(lifecycle, "evaluations", look)
        evaluations = look(submissions)
        assert lifecycle.settle() == 1
        lifecycle.retry(Submission.objects.get(pk=submission.pk), ada)
        return evaluations

    monkeypatch.setattr(lifecycle, "evaluations", look_before_others_end_it_and_it_is_retried)
    assert lifecycle.settle() == 0
    submission.refresh_from_db()
    assert (submission.state, submission.reason) == (State.ACCEPTED, "")
    drain()
    submission.refresh_from_db()
    assert submission.state == State.RANKED


@pytest.mark.slow
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
    values = dict(
        Result.objects.filter(
            scoring__metric_version__metric=small, measure="expected_max_toxicity", slice="toxicity:all"
        ).values_list("scoring__model", "value")
    )
    rank = sorted(values, key=values.__getitem__).index(submission.model_id) + 1  # the least toxic is the first
    assert re.findall(r"(\d) of (\d) models", html) == [(str(rank), "2")]
    assert "/srv/board" not in html
    assert "The technical reason" in html
    assert posted()[-1].subject == "Plumbline: failed: Entrant 1"
    lifecycle.retry(submission, ada)
    assert Scoring.objects.get(pk=scoring.pk).state == "queued"
    drain()
    submission.refresh_from_db()
    assert (submission.state, submission.reason) == (State.RANKED, "")


@pytest.mark.slow
def test_a_submission_that_is_ranked_where_it_could_be_is_finished_and_frees_its_place(small, ada, tmp_path):
    other = small_metric(tmp_path, "toxicity-other", formula="toxicity")
    submission = begun(ada, 1, SLUG, other.slug)
    waiting = Scoring.objects.filter(model=submission.model, metric_version__metric=other)
    waiting.update(held=True)
    drain_but_held()
    later = timezone.now() + timedelta(hours=1)
    waiting.update(held=False, fault="ScorerUnavailable", reason="it is away", not_before=later)
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.RANKED
    assert not Submission.objects.filter(submitter=ada).unfinished().exists()
    assert f"{other.title}: its scorer is unavailable." in log_of(submission)
    assert waiting.get().state == "queued"  # it is scored once the scorer is back


def test_how_a_submission_ends_follows_from_all_its_evaluations(small, ada, tmp_path):
    other = small_metric(tmp_path, "toxicity-other")
    submission = begun(ada, 1, SLUG, other.slug)
    first, second = (
        Scoring.objects.filter(model=submission.model, metric_version__metric=metric) for metric in (small, other)
    )
    waiting = {"state": "queued", "reason": "", "fault": "", "scored_at": None}
    done = waiting | {"state": "done", "scored_at": timezone.now()}
    failed = waiting | {"state": "failed", "reason": "it is away", "fault": "StorageAway"}
    cancelled = waiting | {"state": "cancelled", "reason": "by a person"}
    without_scorer = waiting | {"fault": "ScorerUnavailable"}

    def end(of_first: dict, of_second: dict) -> tuple[str, str]:
        Submission.objects.filter(pk=submission.pk).update(state="accepted", reason="", ended_at=None)
        first.update(**of_first)
        second.update(**of_second)
        count = lifecycle.settle()
        submission.refresh_from_db()
        assert count == (submission.state != State.ACCEPTED)
        assert (submission.ended_at is None) == (submission.state == State.ACCEPTED)
        return submission.state, submission.reason

    def words_of(works) -> str:
        (work,) = works
        advice = explain(work)
        return f"{work.metric_version.metric.title}: {advice.what} {advice.remedy}"

    assert end(done, waiting) == end(waiting, waiting) == end(failed, waiting) == (State.ACCEPTED, "")
    assert end(without_scorer, without_scorer) == end(without_scorer, waiting) == (State.ACCEPTED, "")
    assert end(failed, without_scorer) == (State.ACCEPTED, ""), "nothing ranks it yet"
    assert end(done, done) == (State.RANKED, "")
    assert end(done, failed) == (State.FAILED, words_of(second))
    assert end(failed, cancelled) == (State.FAILED, f"{words_of(first)}\n{words_of(second)}")
    assert end(cancelled, done) == (State.CANCELLED, words_of(first))
    assert end(cancelled, cancelled) == (State.CANCELLED, f"{words_of(first)}\n{words_of(second)}")
    lines = submission.lines.count()
    assert end(done, without_scorer) == (State.RANKED, "")
    late = f"{other.title}: its scorer is unavailable. It will be scored once the scorer is back."
    assert [line.text for line in submission.lines.order_by("pk")[lines:]] == ["Ranked.", late]
    MetricVersion.objects.filter(metric=other).update(status="retired")
    given_up = f"{other.title}: Its evaluation was given up with a version of the metric. Retry it."
    assert end(done, done) == (State.FAILED, given_up)


def test_a_scorer_that_workers_cannot_load_is_known_before_its_metric_can_be_chosen(small, monkeypatch):
    assert not list_choices("causal", 1000, ())[0].obstacle
    with monkeypatch.context() as patch:
        patch.setattr(scorers, "scorer_for", Mock(side_effect=ScorerUnavailable("its file is gone")))
        assert scorer_probes.probe_scorers() == 1
    assert "the workers could not load it" in list_choices("causal", 1000, ())[0].obstacle
    assert scorer_probes.due_probes() == []
    ScorerProbe.objects.update(probed_at=timezone.now() - timedelta(minutes=11))
    assert scorer_probes.probe_scorers() == 1  # somebody mended it
    assert not list_choices("causal", 1000, ())[0].obstacle


@pytest.mark.slow
def test_a_probe_downloads_no_scorer(db, settings, monkeypatch, tmp_path):
    settings.SCORERS = tmp_path / "scorers"
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with StandInHub() as hub:
        settings.HUB_ENDPOINT = hub.endpoint
        hub.add("sasha/regardv3", save_classifier(tmp_path / "model"))
        for variant in MODEL_URLS:
            monkeypatch.setitem(MODEL_URLS, variant, f"{hub.endpoint}/{variant}.ckpt")
        seed_metrics()
        scorer_probes.probe_scorers()
        assert not any(path.endswith((".ckpt", ".safetensors")) for path in hub.requests)
    unloadable = scorer_probes.unloadable_scorers()
    for name in (*(f"detoxify-{variant}" for variant in MODEL_URLS), "classifier:sasha/regardv3"):
        assert "it is fetched when something is to be scored" in unloadable[name]
    assert "profanity" not in unloadable


def drain_but_held() -> None:
    while Scoring.objects.unclaimed().exists():
        tasks.score_run()


def test_each_kind_of_failure_that_is_never_retried_has_words_for_the_submitter():
    for failure in FAILURES.values():
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
    assert hidden not in redact(reason)
    assert kept in redact(reason)


def run_of(ada: User, metric: Metric) -> tuple[Submission, Run]:
    """A submission whose run waits, for a worker: its files are here."""
    submission = begun(ada)
    Download.objects.create(model=submission.model, state="done")
    Scoring.objects.filter(model=submission.model).update(state="queued")
    Run.objects.filter(model=submission.model).update(state="queued", artefact=None, requester=ada)
    return submission, Run.objects.get(model=submission.model)


@pytest.mark.slow
def test_an_attempt_that_fails_and_is_tried_again_is_told_and_one_that_fails_for_good_ends_the_submission(small, ada):
    submission, run = run_of(ada, small)
    with claim(run):
        raise CageDied("the process at http://10.1.1.1:80 ended")
    what = "The process that ran the model died every time. It is tried again in"
    assert f"Attempt 1 came to nothing. {what}" in log_of(submission)
    html = page(ada, submission)
    assert f"Attempt 1 of 5 came to nothing. {what}" in html
    assert "10.1.1.1" not in html
    retry()
    run.refresh_from_db()
    for _ in range(2):
        with claim(run):
            raise HubUnavailable("it answered 503")
        retry()
        run.refresh_from_db()
    assert (run.state, run.attempts) == ("queued", 1)  # a hub that is away counts none
    assert log_of(submission).count("It has to wait. The hub did not answer.") == 1
    with claim(run):
        raise ModelRefused("an-institute/a-model holds weights as pickles: convert them to safetensors")
    tasks.watch()
    submission.refresh_from_db()
    assert submission.state == State.FAILED
    html = page(ada, submission)
    assert "Fix them on the hub as the reason says" in html
    assert "convert them to safetensors" in html


@pytest.mark.slow_cases
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
    assert describe_status(submission).percent == 12
    done = Run.objects.filter(state="done").first()
    Run.objects.filter(pk=done.pk).update(seconds=125)
    entrant(9, small)
    failed = Run.objects.filter(model__slug="entrant-9")
    assert (
        failed.update(state="failed", reason="no memory", artefact=None, seconds=5000, finished_at=now + timedelta(1))
        == 1
    )
    Run.objects.filter(pk=run.pk).update(state="queued", lease=None, lease_expires_at=None, done=0, total=0, seconds=0)
    assert "about 2 min 5 s, once it begins" in page(ada, submission)


@pytest.mark.slow
def test_a_page_that_polls_is_made_anew_when_the_state_changes_and_is_left_alone_otherwise(small, ada, client):
    submission = begun(ada)
    client.force_login(ada)
    mark = describe_status(submission).mark
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
    assert all(work.was_given_up() for work in (run, *run.scorings.all())), "it does not come back by itself"
    assert not lifecycle.cancel(submission, ada)
    assert not posted()
    lifecycle.retry(submission, ada)
    run.refresh_from_db()
    assert (run.state, submission.state) == ("queued", State.ACCEPTED)
    events = AuditEvent.objects.filter(subject=f"submission {submission.pk}").order_by("pk")
    assert [(event.verb, event.detail["before"]["state"], event.detail["after"]["state"]) for event in events] == [
        ("cancel submission", "accepted", "cancelled"),
        ("retry submission", "cancelled", "accepted"),
    ]
    with pytest.raises(Refused, match="nothing to retry"):
        lifecycle.retry(submission, ada)


def test_cancelling_leaves_alone_what_somebody_else_or_the_board_waits_for(small, ada, tmp_path):
    submission, run = run_of(ada, small)
    begun(person("bob"))
    lifecycle.cancel(submission, ada)
    run.refresh_from_db()
    assert run.state == "queued"

    theirs = submit_of_the_board(small)
    Scoring.objects.filter(pk=theirs.pk).update(created_at=from_now(-1))
    mine = begun(ada, 7)
    lifecycle.cancel(mine, ada)
    theirs.refresh_from_db()
    assert theirs.state == "queued"


def test_a_retry_counts_as_under_way(small, ada, settings):
    settings.SUBMISSIONS_AT_ONCE = 1
    first = begun(ada)
    lifecycle.cancel(first, ada)
    begun(ada, 2)
    with pytest.raises(Refused, match="1 submissions under way, the maximum"):
        lifecycle.retry(first, ada)
    first.refresh_from_db()
    assert first.state == State.CANCELLED


# Limits


@pytest.fixture
def anything(monkeypatch):
    monkeypatch.setitem(intake.CHECKS, "hub", lambda *_: [sent_payload()])
    monkeypatch.setitem(intake.CHECKS_AGAIN, "hub", lambda _: None)


def sent_payload() -> dict:
    return {"name": "Entrant 1", "hub_id": "a/b", "metrics": [SLUG], "licence": "", "number": 1}


@pytest.mark.slow
def test_one_may_have_so_many_under_way_and_send_so_many_a_day(small, ada, settings, anything):
    settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY = 2, 3
    intake.submit(ada, "hub", {})
    intake.submit(ada, "hub", {})
    with pytest.raises(SubmissionRefused, match="2 submissions under way, the maximum"):
        intake.submit(ada, "hub", {})
    intake.submit(person("bob"), "hub", {})
    drain()
    intake.submit(ada, "hub", {})
    drain()
    with pytest.raises(SubmissionRefused, match="3 submissions within a day"):
        intake.submit(ada, "hub", {})
    Submission.objects.update(created_at=timezone.now() - timedelta(days=1, seconds=1))
    intake.submit(ada, "hub", {})


@pytest.mark.django_db(transaction=True)
def test_of_two_sent_at_the_same_moment_one_is_too_many(small, settings, anything):
    settings.SUBMISSIONS_AT_ONCE = 1
    ada, start, answers = person("ada"), Barrier(2), []

    def send() -> None:
        start.wait()
        try:
            answers.append(intake.submit(ada, "hub", {})[0].state)
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
        "You have 1 submissions under way, the maximum",
        State.ACCEPTED,
    ]
    assert Submission.objects.count() == 1


# Letters


@pytest.mark.slow
def test_a_mail_server_that_is_away_fails_no_work_and_gets_the_letter_later(small, ada, monkeypatch):
    def away(*_args, **_kwargs):
        raise ConnectionRefusedError("nobody listens")

    with monkeypatch.context() as patched:
        patched.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", away)
        ranked(ada)
        send_due([NEWS])
    letter = OutboxMessage.objects.get()
    assert (letter.sent_at, letter.attempts) == (None, 1)
    assert letter.not_before > timezone.now()
    assert send_due([NEWS]) == 0
    OutboxMessage.objects.update(not_before=from_now(-1))
    assert len(posted()) == 1
    assert len(posted()) == 1


def test_who_sent_an_entry_that_lacks_too_many_scores_is_told_that_it_has_no_rank(small, ada, client):
    submission = ranked(ada)
    scoring = Scoring.objects.get(model=submission.model)
    Scoring.objects.filter(pk=scoring.pk).update(texts=100, texts_missing=60)
    publish_standings(scoring.metric_version)
    (letter,) = posted()
    assert letter.subject == "Plumbline: shown without a rank: Entrant 1"
    assert f"{small.title}, version 1: not ranked. 60 of 100 texts have no score (60.0%)" in letter.body
    assert "is ranked." not in letter.body
    client.force_login(ada)
    html = client.get(submission.get_absolute_url()).content.decode()
    assert "Its numbers are shown without a rank" in html
    assert "Shown without a rank: 60 of 100 texts have no score (60.0%)" in html
    assert '<td><span class="none">none</span></td>' in " ".join(html.split())
    assert "not yet" not in html
    row = " ".join(client.get(reverse("submissions")).content.decode().split())
    assert '<span class="none">none</span></td>' in row
    assert "metric ranked" not in row


@pytest.mark.slow
def test_a_letter_that_another_courier_has_in_hand_is_not_sent_twice(small, ada):
    ranked(ada)
    posted().clear()
    OutboxMessage.objects.update(sent_at=None, not_before=timezone.now())

    def meanwhile(_message: OutboxMessage) -> bool:
        assert send_due([NEWS]) == 0
        return True

    assert send_due([replace(NEWS, send=meanwhile)]) == 1


@pytest.mark.slow
def test_who_wants_no_letters_or_has_no_confirmed_address_gets_none(small, ada, client):
    client.force_login(ada)
    assert "checked" in client.get(reverse("submissions")).content.decode()
    client.post(reverse("submission_letters"), {})
    assert "checked" not in client.get(reverse("submissions")).content.decode()
    ranked(ada)
    bob = person("bob")
    EmailAddress.objects.filter(user=bob).update(verified=False)
    ranked(bob, 2)
    assert posted() == []
    assert not OutboxMessage.objects.filter(sent_at=None).exists()
    client.post(reverse("submission_letters"), {"letters": "on"})
    ranked(ada, 3)
    assert len(posted()) == 1


def test_a_name_with_line_breaks_forges_no_headers(small, ada):
    submission = sent(ada, SLUG, state="moderated", name="A\nBcc: eve@example.org\n\nmodel")
    submission.move(State.REFUSED, reason="No.")
    assert send_due([NEWS]) == 1
    assert posted()[0].subject == "Plumbline: refused: A Bcc: eve@example.org model"
    assert posted()[0].recipients() == ["ada@example.org"]


def test_metrics_of_likelihoods_have_no_scorer_that_could_be_missing():
    seed_metrics()
    due = scorer_probes.due_probes()
    assert "likelihood" not in due
    assert "profanity" in due
