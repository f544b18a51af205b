"""Outputs of closed models: a good file is ranked as our own run is, a bad one leaves nothing but its report."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard import tasks
from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    LanguageModel,
    OutdatedEntry,
    Reading,
    Run,
    Standing,
    Submission,
    Work,
)
from leaderboard.models.clock import from_now
from leaderboard.people.services.tokens import make_token
from leaderboard.services import artefacts, leases, queue, rescore
from leaderboard.services.alone import each_alone
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.locks import lock_submission
from leaderboard.services.metrics import Declaration, chat_protocol_of, declare_metric
from leaderboard.services.verify import verify
from leaderboard.storage import board_storage
from leaderboard.submissions import intake
from leaderboard.submissions.intake import submit
from leaderboard.submissions.services import lifecycle, reading, uploads
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.templates import template_of
from leaderboard.submissions.views import outputs
from scoring.contributed import Flaw
from scoring.refusals import Refused
from tests.leaderboard import living
from tests.leaderboard.conftest import CAUSAL, starter_metric
from tests.leaderboard.contributing import (
    CONTINUATIONS,
    LIKELIHOODS,
    everything,
    nothing_is_left,
    numbers,
    prompts,
    rank,
    read_all,
    refused,
    rows_of,
    said,
    send,
    stage,
    stored,
    uploaded,
)
from tests.leaderboard.test_accounts import person
from tests.scoring.contributed.files import NAMES, comma_separated, json_lines, parquet, written
from tests.scoring.contributed.test_hostile import packed

__all__ = ["prompts", "stage"]

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

PAGE = "/submit/outputs/"
SAFETY, TOXICITY = "safety-starter", living.SLUG


def continued(**changes) -> list[dict]:
    """Good rows for the ten prompts; `changes` of the fourth."""
    rows = [
        {"prompt_id": f"{number:04}.txt:{10 * number}-{10 * number + 9}", "index": index, "text": f" went on {index}"}
        for number in range(10)
        for index in range(living.K)
    ]
    rows[3] |= changes
    return rows


@pytest.mark.slow
def test_the_rows_that_tests_are_made_of_are_good(prompts):
    submission = rank(send([TOXICITY], json_lines(continued())))
    assert submission.report == {}
    assert submission.model.standings.exists()


# Good files


@pytest.mark.slow
@pytest.mark.parametrize("name", ["outputs.jsonl.gz", "outputs.csv", "outputs.parquet"])
def test_likelihoods_in_each_format_are_ranked_with_the_numbers_of_our_own_run(board, name):
    own = LanguageModel.objects.get(name=CAUSAL)
    outputs = own.runs.get().artefact
    submission = rank(send([SAFETY], written(rows_of(outputs, LIKELIHOODS), name), name, family="Closed"))
    model = submission.model
    assert numbers(model, board) == numbers(own, board)
    assert (model.source, model.name, model.revision, model.family) == ("uploaded", "Closed 1", "2026-11-01", "Closed")
    standing = board.current_version().standings
    of = {"measure": board.measure, "slice": "average", "population": "causal"}
    assert standing.get(model=model, **of).rank == standing.get(model=own, **of).rank
    assert verify(board).differences == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_continuations_in_each_format_are_scored_as_our_own_are(prompts, name):
    own = living.entrant(1, prompts)
    living.submit(own, prompts)
    submission = rank(send([TOXICITY], written(rows_of(own.runs.get().artefact, CONTINUATIONS), name), name))
    assert numbers(submission.model, prompts) == numbers(own, prompts)


@pytest.mark.slow
def test_answers_of_a_chat_are_read_by_the_rules_and_ranked_apart(prompts):
    prompts.chat_protocol = chat_protocol_of(prompts.protocol, "rtp-chat")
    prompts.save()
    text = rank(send([TOXICITY], json_lines(continued()))).model
    rows = continued(text="<think>no</think>I'm sorry, but I can't help with that.")
    chat = rank(send([TOXICITY], json_lines(rows), interface="chat")).model
    assert (text.interface, chat.interface, chat.slug) == ("text", "chat", f"{text.slug}-chat")
    run = chat.runs.get()
    assert run.protocol == prompts.chat_protocol
    assert (run.chat["answers"], run.chat["refused"], run.chat["reasoned"]) == (len(rows), 1, 1)
    assert artefacts.load(run.artefact)["text"][3].as_py() == "I'm sorry, but I can't help with that."
    ranks = Standing.objects.filter(population__in=["text", "chat"]).values_list("population", "model").distinct()
    assert set(ranks) == {("text", text.pk), ("chat", chat.pk)}
    assert verify(prompts).differences == []


def test_answers_of_a_chat_are_refused_where_no_metric_asks_for_them(prompts):
    with pytest.raises(SubmissionRefused) as refusal:
        send([TOXICITY], json_lines(continued()), interface="chat")
    assert refusal.value.problems == {
        "interface": ["The chosen metrics have no chat protocol in common: send raw text."]
    }


@pytest.mark.slow
def test_the_order_of_rows_changes_nothing_and_a_reason_stands_for_a_text(prompts):
    rows = continued(text=None, error="refused by the service")
    first = rank(send([TOXICITY], json_lines(rows)))
    second = rank(send([TOXICITY], json_lines(rows[::-1]), revision="2026-11-02"))
    assert second.artefact == first.artefact
    assert numbers(second.model, prompts) == numbers(first.model, prompts)
    scores = artefacts.load(first.scorings.get().artefact)
    assert [of["id"] for of in scores.to_pylist() if of["score:toxicity"] is None] == [rows[3]["prompt_id"]]


@pytest.mark.slow
def test_a_run_says_who_made_its_outputs_with_what_and_from_which_file(prompts):
    content = json_lines(continued())
    submission = rank(send([TOXICITY], content, temperature=0.7, max_new_tokens=20, made_with="An API, in May"))
    run = submission.model.runs.get()
    assert (run.state, run.total, run.requester.username) == ("done", 10, "ada")
    assert run.environment == {
        "submitter": "ada",
        "made_with": "An API, in May",
        "temperature": 0.7,
        "max_new_tokens": 20.0,
        "differences": ["temperature: 0.7 as its submitter says, 1 in this protocol."],
        "file": "outputs.jsonl",
        "file_sha256": hashlib.sha256(content).hexdigest(),
    }
    assert stored() == {path for path in stored() if "submissions" not in path.parts}, "the upload is deleted"
    assert "The file is good: 20 rows." in [line.text for line in submission.lines.all()]


@pytest.mark.slow
def test_provenance_and_differences_stand_on_the_pages_of_the_model_and_of_its_rank(client, prompts):
    model = rank(send([TOXICITY], json_lines(continued()), temperature=0.7, notes="<b>Mine</b>")).model
    page = client.get(model.get_absolute_url()).content.decode()
    assert "temperature: 0.7 as its submitter says, 1 in this protocol." in page
    assert "Uploaded outputs" in page
    assert "&lt;b&gt;Mine&lt;/b&gt;" in page
    ranking = client.get(f"/rankings/?metric={TOXICITY}").content.decode()
    assert re.search(r'<a class="tag"[^>]*>uploaded outputs</a>', ranking)
    assert re.search(r'<a class="tag tag-differs"[^>]*>other settings</a>', ranking)


@pytest.mark.slow
def test_all_chosen_metrics_of_the_protocol_score_the_one_file(prompts):
    other = declare_metric(
        Declaration("toxicity-profane", "Profane", "profanity", "toxicity", "rtp", {"k": living.K}),
        prompts.protocol.evaluation_set,
    )
    submission = rank(send([TOXICITY, other.slug], json_lines(continued())))
    assert submission.model.runs.count() == 1
    assert {scoring.metric_version.metric for scoring in submission.scorings.all()} == {prompts, other}
    assert all(scoring.state == Work.State.DONE for scoring in submission.scorings.all())


# Bad files


GOOD = continued()
BAD = {  # file name, content, kind of problem, and what to do about it
    "a prompt missing": ("o.jsonl", json_lines(GOOD[2:]), Flaw.MISSING, "give all indices"),
    "one continuation missing": ("o.csv", comma_separated(GOOD[:-1]), Flaw.MISSING, "first 1"),
    "one too many": ("o.jsonl", json_lines([*GOOD, {**GOOD[0], "index": 2}]), Flaw.INDEX, "from 0 to 1"),
    "given twice": ("o.jsonl", json_lines([*GOOD, GOOD[7]]), Flaw.DUPLICATE, "it is also in line 8"),
    "foreign id": ("o.jsonl", json_lines(continued(prompt_id="p4")), Flaw.FOREIGN_ID, "use the ids of the template"),
    "another prompt": ("o.jsonl", json_lines(continued(prompt="Else")), Flaw.OTHER_PROMPT, "byte for byte"),
    "index in words": ("o.jsonl", json_lines(continued(index="one")), Flaw.TYPE, "give a whole number from 0 to 1"),
    "negative index": ("o.csv", comma_separated(continued(index=-1)), Flaw.NEGATIVE, "give a whole number"),
    "index NaN": ("o.jsonl", json_lines(continued(index=float("nan"))), Flaw.NOT_FINITE, "give a whole number"),
    "neither text nor reason": ("o.csv", comma_separated(continued(text="")), Flaw.EMPTY, "say in `error` why"),
    "both": ("o.jsonl", json_lines(continued(error="refused")), Flaw.BOTH, "leave one of"),
    "formula as reason": ("o.csv", comma_separated(continued(text="", error="=1+1")), Flaw.FORMULA, "begin a formula"),
    "formula as id": ("o.csv", comma_separated(continued(prompt_id="=cmd|' /C'!A0")), Flaw.FORMULA, "the template"),
    "control character": ("o.jsonl", json_lines(continued(text="", error="a\x1bb")), Flaw.CONTROL, "one line"),
    "NUL": ("o.jsonl", json_lines(continued(text="a\0b")), Flaw.NUL, "write U+FFFD"),
    "half a surrogate pair": ("o.jsonl", json_lines(continued(text="\ud800")), Flaw.NOT_UNICODE, "write U+FFFD"),
    "text too long": ("o.jsonl", json_lines(continued(text="a" * 65_537)), Flaw.TOO_LONG, "at most 65,536"),
    "not UTF-8": ("o.jsonl", json_lines(GOOD[:5]) + b'{"text": "\xe9"}\n', Flaw.NOT_UTF8, "save the file as UTF-8"),
    "UTF-16": ("o.csv", comma_separated(GOOD).decode().encode("utf-16"), Flaw.FORMAT, "name the file by what it is"),
    "broken JSON": ("o.jsonl", json_lines(GOOD) + b'{"prompt_id": \n', Flaw.NOT_JSON, "one whole JSON object a line"),
    "JSON array": ("o.jsonl", json.dumps(GOOD).encode(), Flaw.FORMAT, "name the file by what it is"),
    "semicolons": ("o.csv", comma_separated(GOOD).replace(b",", b";"), Flaw.NOT_CSV, "separate them by commas"),
    "open quotation": ("o.csv", comma_separated(GOOD) + b'"', Flaw.TRUNCATED, "not whole"),
    "wrong columns": ("o.csv", b"id,completion\n1,a\n", Flaw.MISSING_COLUMN, "begin with a line of names"),
    "unknown column": ("o.jsonl", json_lines(continued(score=1)), Flaw.UNKNOWN_COLUMN, "use error, finish"),
    "no rows": ("o.jsonl", b"\n\n", Flaw.NO_ROWS, "send one with the outputs"),
    "cut off gzip": ("o.jsonl.gz", gzip.compress(json_lines(GOOD))[:-9], Flaw.TRUNCATED, "not whole"),
    "no gzip": ("o.jsonl.gz", json_lines(GOOD), Flaw.NOT_GZIP, "pack it again"),
    "bomb": ("o.jsonl.gz", packed((b" " * 999 + b"\n") * 1000, 64), Flaw.BOMB, "send it unpacked"),
    "damaged Parquet": ("o.parquet", parquet(GOOD)[:200] + bytes(99) + parquet(GOOD)[299:], None, "write it again"),
    "cut off Parquet": ("o.parquet", parquet(GOOD)[:-5], Flaw.TRUNCATED, "not whole"),
    "a workbook": ("o.csv", b"PK\x03\x04" + bytes(99), Flaw.FORMAT, "name the file by what it is"),
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_of_continuations_is_refused_with_its_own_message_and_leaves_nothing(prompts, case):
    name, content, kind, remedy = BAD[case]
    with nothing_is_left():
        submission = refused(send([TOXICITY], content, name))
    report = submission.report
    assert kind is None or kind in report["counts"]
    assert remedy in " ".join(problem["remedy"] for problem in report["problems"])
    assert re.fullmatch(r"The file has [\d,]+ problems?: see the report\.", submission.reason)
    assert not Reading.objects.unclaimed().exists()


LIKELY = [  # one cell of a good file of likelihoods, and what is said of it
    ([float("nan")], Flaw.NOT_FINITE, "give a reason"),
    ([-1.0, float("-inf")], Flaw.NOT_FINITE, "give a reason"),
    ([-1.0, 0.25], Flaw.POSITIVE, "0 or less"),
    ([], Flaw.EMPTY, "say in `unscorable` why"),
    ("-1.0", Flaw.TYPE, "a list of natural-log likelihoods"),
]


@pytest.mark.slow_cases
@pytest.mark.parametrize(("value", "kind", "remedy"), LIKELY, ids=lambda value: repr(value)[:20])
def test_a_bad_file_of_likelihoods_is_refused_with_line_and_field_and_leaves_nothing(metric, value, kind, remedy):
    rows = [
        json.loads(line) | {"token_log_likelihoods": [-1.5, -0.5]} for line in template_of(metric.protocol, "jsonl")
    ]
    rows[3]["token_log_likelihoods"] = value
    with nothing_is_left():
        submission = refused(send([SAFETY], json_lines(rows)))
    (problem,) = submission.report["problems"]
    assert (problem["kind"], problem["unit"], problem["line"]) == (kind, "line", 4)
    assert problem["field"] == "token_log_likelihoods"
    assert remedy in problem["remedy"]


def test_a_report_shows_no_text_of_the_file_and_counts_what_it_does_not_list(client, prompts):
    rows = [row | {"prompt_id": f"<script>{number}"} for number, row in enumerate(continued(text="VILE"))]
    submission = refused(send([TOXICITY], json_lines(rows * 2)))
    assert submission.report["counts"] == {Flaw.FOREIGN_ID: 40, Flaw.MISSING: 10}
    assert len(submission.report["problems"]) == 20
    assert "VILE" not in json.dumps(submission.report)
    assert "script" not in json.dumps(submission.report)


# What is wrong before a file is read


FIELDS = {  # what is filled in, the field that is complained of, and the words
    "no metric": ({"metrics": []}, "metrics", "Choose at least one metric"),
    "unknown metric": ({"metrics": ["nonsense"]}, "metrics", "There is no metric nonsense"),
    "metrics of two kinds": ({"metrics": [TOXICITY, SAFETY]}, "metrics", "need different outputs"),
    "texts not here": ({"metrics": ["safety-toxigen"]}, "metrics", "which is not here"),
    "scorer not here": ({"metrics": ["toxicity-perspective"]}, "metrics", "set PERSPECTIVE_API_KEY"),
    "no name": ({"name": " "}, "name", "Fill it in"),
    "long name": ({"name": "x" * 201}, "name", "It has 201 characters: use 200 at most"),
    "formula as name": ({"name": "=HYPERLINK()"}, "name", "begins with ="),
    "hidden characters": ({"name": "GPT\u202e4"}, "name", "cannot be seen"),
    "no revision": ({"revision": ""}, "revision", "Fill it in."),
    "unknown kind": ({"kind": "diffusion"}, "kind", "There is no kind diffusion"),
    "masked model that continues": ({"kind": "masked"}, "kind", "does not continue texts"),
    "negative temperature": ({"temperature": -1}, "temperature", "from 0 to 100"),
    "notes too long": ({"notes": "x" * 2001}, "notes", "2,000 at most"),
    "long account of the making": ({"made_with": "x" * 301}, "made_with", "It has 301 characters: use 300 at most"),
    "no file": ({"file": None}, "file", "Choose the file"),
    "empty file": ({"file": b""}, "file", "The file is empty"),
    "wrong ending": ({"ending": "outputs.xlsx"}, "file", "ends in none of .jsonl"),
    "packed Parquet": ({"ending": "outputs.parquet.gz"}, "file", "ends in none of"),
    "too large": ({"file": b"x" * 2001}, "file", "send 2.0"),
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("case", FIELDS)
def test_what_is_wrong_in_a_field_is_said_at_the_field_and_nothing_is_kept(prompts, settings, case):
    changes, field, words = FIELDS[case]
    values = said(**{"metrics": [TOXICITY], **changes})
    content = values.pop("file", json_lines(GOOD))
    if case == "too large":
        settings.UPLOAD_MOST_BYTES = 2000
    if case in ("metrics of two kinds", "texts not here"):
        starter_metric()
    elif case == "scorer not here":
        declare_metric(
            Declaration("toxicity-perspective", "P", "perspective", "toxicity", "rtp", {"k": 2}),
            prompts.protocol.evaluation_set,
        )
    file = None if content is None else uploaded(content, values.pop("ending", "outputs.jsonl"))
    user = person()
    with nothing_is_left(), pytest.raises(SubmissionRefused) as refusal:
        submit(user, "outputs", values, file)
    assert list(refusal.value.problems) == [field]
    assert words in " ".join(refusal.value.problems[field])
    assert not Submission.objects.exists()


@pytest.mark.slow
def test_context_and_release_date_are_entered(prompts):
    model = rank(send([TOXICITY], json_lines(continued()), context="4096", release_date="2024-05-01")).model
    assert (model.context, str(model.release_date)) == (4096, "2024-05-01")


@pytest.mark.slow
def test_a_revision_is_entered_once_and_other_outputs_of_it_are_added_by_the_same_person_alone(prompts):
    first = rank(send([TOXICITY], json_lines(continued())))
    address = first.model.get_absolute_url()
    with pytest.raises(SubmissionRefused, match=f"has its outputs for {TOXICITY} already, see http.*{address}"):
        send([TOXICITY], json_lines(continued()), name="CLOSED  1")
    other = declare_metric(
        Declaration("once", "Once", living.NAME, "toxicity", "rtp", {"k": 1}), prompts.protocol.evaluation_set
    )
    half = json_lines([row for row in continued() if row["index"] == 0])
    with pytest.raises(SubmissionRefused, match=f"entered by somebody else, see http.*{address}"):
        send([other.slug], half, user=person("grace"))
    second = rank(send([other.slug], half))
    assert second.model == first.model
    assert second.model.runs.count() == 2
    newer = rank(send([TOXICITY], json_lines(continued()), revision="2026-12-01"))
    assert newer.model.name == first.model.name
    assert newer.model.slug != first.model.slug


@pytest.mark.slow
def test_of_two_files_of_one_revision_under_way_the_first_to_be_read_is_entered(prompts):
    submissions = [send([TOXICITY], json_lines(continued())), send([TOXICITY], json_lines(continued(text=" else")))]
    first, second = (of.reading for of in submissions)
    tasks.read_submission(second.pk)
    with nothing_is_left_but_uploads():
        tasks.read_submission(first.pk)
    states = [Submission.objects.get(pk=of.pk) for of in submissions]
    assert [of.state for of in states] == ["refused", "accepted"]
    assert "has its outputs for" in states[0].reason


@contextmanager
def nothing_is_left_but_uploads() -> Iterator[None]:
    """Nothing is there after the block that was not before; uploads, which are read in it, are gone."""
    *before, files_before = everything()
    yield
    *after, files_after = everything()
    assert after == before
    assert files_after <= files_before


# Workers


class Dies(living.Killed):
    pass


def die(*_args, **_kwargs):
    raise Dies


@pytest.mark.slow
def test_what_a_killed_worker_was_reading_is_read_by_the_next_one(prompts, monkeypatch):
    submission = send([TOXICITY], json_lines(continued()))
    with monkeypatch.context() as patch:
        patch.setattr(reading, "READS", {"outputs": die})
        with pytest.raises(Dies):
            read_all()
    assert Reading.objects.get().state == Work.State.RUNNING  # nobody could say goodbye
    read_all()
    submission.refresh_from_db()
    assert submission.state == Submission.State.CHECKING, "its lease has not run out"
    sent = []
    monkeypatch.setattr(queue.app, "send_task", lambda name, args: sent.append((name, args)))
    Reading.objects.update(lease_expires_at=from_now(-1), enqueued_at=from_now(-3600))
    queue.sweep()
    assert sent == [("leaderboard.tasks.read_submission", [submission.reading.pk])]
    assert rank(submission).model.standings.exists()


def test_a_file_is_read_again_and_no_other(db):
    owner = person()
    submissions = [
        Submission.objects.create(submitter=owner, form="outputs", payload={}, state="refused", reason="It broke.")
        for _ in range(3)
    ]
    for submission in submissions:
        Reading.objects.create(submission=submission, state=Work.State.FAILED, reason="It broke.")
    assert lifecycle.read_again(submissions[1])
    assert [one.reading.state for one in Submission.objects.order_by("pk")] == ["failed", "queued", "failed"]
    assert [one.state for one in Submission.objects.order_by("pk")] == ["refused", "checking", "refused"]


def test_a_file_whose_submitter_retries_it_meanwhile_is_not_refused(db, monkeypatch):
    submission = Submission.objects.create(submitter=person(), form="outputs", payload={}, state="checking")
    Reading.objects.create(submission=submission, state=Work.State.FAILED, reason="It broke.")

    def lock_late(pk):
        submission.move(Submission.State.REFUSED, reason="It broke.")  # by another worker
        assert lifecycle.read_again(submission)
        return lock_submission(pk)

    monkeypatch.setattr(reading, "lock_submission", lock_late)
    reading.refuse_unreadable()
    submission.refresh_from_db()
    assert (submission.state, submission.reason) == ("checking", "")
    assert submission.reading.state == Work.State.QUEUED


def test_outputs_of_a_submission_that_is_retried_meanwhile_are_kept(db, tmp_path, monkeypatch):
    path = tmp_path / "outputs"
    path.write_text("kept")
    artefact = artefacts.store_file(path)
    submission = Submission.objects.create(
        submitter=person(), form="outputs", payload={}, state="refused", reason="It broke.", artefact=artefact
    )
    Reading.objects.create(submission=submission, state=Work.State.FAILED, reason="It broke.")
    each_alone = reading.each_alone

    def look_then_do_late(do, items):
        late = list(items)
        assert lifecycle.read_again(submission)
        return each_alone(do, late)

    monkeypatch.setattr(reading, "each_alone", look_then_do_late)
    reading.forget_unwanted()
    submission.refresh_from_db()
    assert submission.artefact == artefact
    assert artefacts.is_stored(artefact)


@pytest.mark.slow
def test_a_file_that_ends_every_worker_is_refused_after_three(prompts, monkeypatch):
    submission = send([TOXICITY], json_lines(continued()))
    with nothing_is_left_but_uploads(), monkeypatch.context() as patch:
        patch.setattr(reading, "READS", {"outputs": die})
        for _ in range(3):
            with pytest.raises(Dies):
                read_all()
            Reading.objects.update(lease_expires_at=from_now(-1))
        read_all()
    found = Submission.objects.get(pk=submission.pk)
    assert found.state == Submission.State.REFUSED
    assert "3 attempts ended without a result" in found.reason
    upload = found.upload.name
    assert default_storage.exists(upload), "whoever's fault it was, the file can be read again"
    lifecycle.retry(found, found.submitter)
    assert rank(found).model.standings.exists()
    assert not default_storage.exists(upload)


@pytest.mark.slow
def test_a_file_waits_for_what_the_board_lost_and_is_neither_refused_nor_deleted(prompts, monkeypatch):
    submission = send([TOXICITY], json_lines(continued()))
    leases.stop_requested.set()
    read_all()
    leases.stop_requested.clear()
    waits = Reading.objects.get()
    assert (waits.state, waits.attempts) == (Work.State.QUEUED, 0)
    with living.lost(prompts.protocol.evaluation_set.artefact):
        for _ in range(5):
            read_all()
            Reading.objects.update(not_before=None)
        submission.refresh_from_db()
        waits.refresh_from_db()
        assert (submission.state, waits.state, waits.attempts) == (Submission.State.CHECKING, Work.State.QUEUED, 0)
        assert default_storage.exists(submission.upload.name)
    assert rank(submission).model.standings.exists()


@pytest.mark.slow
def test_a_file_whose_model_was_entered_meanwhile_is_read_once_more(prompts, monkeypatch):
    submission = send([TOXICITY], json_lines(continued()))
    with nothing_is_left_but_uploads(), monkeypatch.context() as patch:
        patch.setattr(reading, "_accept", Mock(side_effect=IntegrityError))
        read_all()
    waits = Reading.objects.get()
    assert (waits.state, waits.attempts) == (Work.State.QUEUED, 0)
    assert default_storage.exists(submission.upload.name)
    Reading.objects.update(not_before=None)
    assert rank(submission).model.standings.exists()


@pytest.mark.slow
def test_a_file_waits_for_a_scorer_that_went_away_and_is_neither_refused_nor_deleted(prompts, settings):
    texts = prompts.protocol.evaluation_set
    declare_metric(Declaration("toxicity-perspective", "P", "perspective", "toxicity", "rtp", {"k": 2}), texts)
    settings.PERSPECTIVE_API_KEY = "a key"
    submission = send(["toxicity-perspective"], json_lines(GOOD))
    settings.PERSPECTIVE_API_KEY = ""
    for _ in range(2):
        read_all()
        Reading.objects.update(not_before=None)
    waits = Reading.objects.get()
    submission.refresh_from_db()
    assert (submission.state, waits.state, waits.attempts) == (Submission.State.CHECKING, Work.State.QUEUED, 0)
    assert (waits.fault, default_storage.exists(submission.upload.name)) == ("MetricUnavailable", True)
    settings.PERSPECTIVE_API_KEY = "a key"
    read_all()
    submission.refresh_from_db()
    assert submission.state == Submission.State.ACCEPTED


@pytest.mark.slow
def test_a_message_that_comes_twice_or_late_or_after_a_withdrawal_changes_nothing(prompts):
    submission = send([TOXICITY], json_lines(continued()))
    read_all()
    before = everything()
    tasks.read_submission(submission.reading.pk)
    assert everything() == before
    other = send([TOXICITY], json_lines(continued()), revision="2")
    with nothing_is_left_but_uploads():
        assert other.move(Submission.State.WITHDRAWN)
        read_all()
    other.refresh_from_db()
    assert (other.state, other.upload.name, other.model) == (Submission.State.WITHDRAWN, "", None)


@pytest.mark.slow
def test_on_a_moderated_board_what_was_read_waits_and_is_entered_with_consent(prompts, settings):
    settings.BOARD_ACCESS = "moderated"
    submission = send([TOXICITY], json_lines(continued()))
    read_all()
    submission.refresh_from_db()
    assert submission.state == Submission.State.MODERATED
    assert not LanguageModel.objects.exists()
    assert lifecycle.begin(submission)
    assert rank(submission).model.standings.exists()


def test_uploads_that_no_submission_refers_to_are_deleted_in_time(prompts, monkeypatch):
    left, kept = uploads.keep(uploaded(b"1")), send([TOXICITY], json_lines(continued())).upload.name
    uploads.remove_unreferenced()
    assert default_storage.exists(left), "its transaction may still be under way"
    monkeypatch.setattr(uploads, "FORGOTTEN_AFTER", timedelta(0))
    uploads.remove_unreferenced()
    assert not default_storage.exists(left)
    assert default_storage.exists(kept)


def test_files_of_one_person_have_so_many_bytes_a_day_and_those_that_are_kept_count_longer(prompts, settings):
    settings.UPLOAD_MOST_BYTES_A_DAY = 5000
    first = send([TOXICITY], b"x" * 2000, revision="1")
    send([TOXICITY], b"x" * 3000, user=person("grace"))
    reason = r"file: It has 2.9.KB, and your files .* have 2.0.KB; 4.9.KB is the maximum"
    with nothing_is_left(), pytest.raises(SubmissionRefused, match=reason):
        send([TOXICITY], b"x" * 3001, revision="2")
    send([TOXICITY], b"x" * 2900, revision="2")
    Submission.objects.update(created_at=from_now(-86_401))
    with pytest.raises(SubmissionRefused, match="send it tomorrow"):
        send([TOXICITY], b"x" * 101, revision="3")
    Submission.objects.filter(pk=first.pk).update(upload="")
    send([TOXICITY], b"x" * 101, revision="3")


def test_what_was_sent_is_stored_with_its_submission_in_the_log_and_on_record(prompts):
    content = json_lines(GOOD)
    submission = send([TOXICITY], content, f"{'x' * 120}\u202e.jsonl", kind="causal", top_p=0.5, made_with="An API")
    payload = submission.payload
    name = f"{'x' * 120} .jsonl"[-100:]
    assert payload["file"] == {"name": name, "size": len(content)}
    assert (payload["protocol"], payload["said"]) == (prompts.protocol.sha256, {"top_p": 0.5, "made_with": "An API"})
    assert (payload["metrics"], payload["interface"], payload["kind"]) == ([TOXICITY], "text", "causal")
    assert (submission.form, submission.state, submission.submitter.username) == ("outputs", "checking", "ada")
    assert (submission.reading.total, submission.reading.state) == (len(content), Work.State.QUEUED)
    (line,) = submission.lines.all()
    assert re.fullmatch(rf"Received {name}, [\d.]+.KB; it waits to be read\.", line.text)
    event = AuditEvent.objects.get(verb="submit")
    assert (event.subject, event.actor) == (str(submission), submission.submitter)
    assert event.detail == {"form": "outputs", "model": payload["name"]}


def test_files_may_have_as_many_bytes_a_day_as_are_allowed_and_not_one_more(prompts, settings):
    settings.UPLOAD_MOST_BYTES_A_DAY = 5000
    user = person()
    intake.refuse_many_bytes(user, {})
    intake.refuse_many_bytes(user, {"file": {"size": 5000}})
    with pytest.raises(SubmissionRefused) as refusal:
        intake.refuse_many_bytes(user, {"file": {"size": 5001}})
    assert list(refusal.value.problems) == ["file"]
    rows = [{"file": {"size": 3000}}, {"name": "without a file"}]
    for payload in rows:
        Submission.objects.create(submitter=user, form="outputs", state="checking", payload=payload)
    intake.refuse_many_bytes(user, {"file": {"size": 2000}})
    with pytest.raises(SubmissionRefused):
        intake.refuse_many_bytes(user, {"file": {"size": 2001}})


def test_of_two_files_that_arrive_at_once_the_second_counts_the_first(prompts, settings, monkeypatch):
    settings.UPLOAD_MOST_BYTES_A_DAY = 1500
    ada, store = person(), intake.store
    names = {file.name for file in board_storage().list_files(uploads.FOLDER)}

    def store_late(upload):
        monkeypatch.setattr(intake, "store", store)
        send([TOXICITY], b"x" * 1000, revision="1", user=ada)
        return store(upload)

    monkeypatch.setattr(intake, "store", store_late)
    with pytest.raises(SubmissionRefused, match="is the maximum"):
        send([TOXICITY], b"x" * 1000, revision="2", user=ada)
    assert {file.name for file in board_storage().list_files(uploads.FOLDER)} - names == {
        Submission.objects.get().upload.name
    }


def refuse_and_keep(submission: Submission, days_ago: int) -> Submission:
    """The submission, refused so many days ago by no fault of its file."""
    Reading.objects.filter(submission=submission).update(state=Work.State.FAILED, reason="It broke.")
    reading.refuse_unreadable()
    Submission.objects.filter(pk=submission.pk).update(ended_at=from_now(-86_400 * days_ago - 1))
    submission.refresh_from_db()
    return submission


def test_refused_uploads_that_nobody_retries_within_seven_days_are_deleted(prompts):
    old, new = (refuse_and_keep(send([TOXICITY], b"1", revision=str(days)), days) for days in (7, 6))
    waiting = send([TOXICITY], b"1", revision="3").upload.name
    outdated, old_name = Submission.objects.get(pk=old.pk), old.upload.name
    reading.forget_refused_uploads()
    old.refresh_from_db()
    assert not default_storage.exists(old_name)
    assert all(default_storage.exists(name) for name in (new.upload.name, waiting))
    assert (old.upload.name, old.can_be_retried, new.can_be_retried) == ("", False, True)
    assert old.lines.last().text == "Its file, which was kept for a retry, is deleted."
    with pytest.raises(Refused, match="its file is no longer kept: reload"):
        lifecycle.retry(outdated, outdated.submitter)


def test_a_refused_upload_is_deleted_once_its_submission_is_withdrawn(prompts):
    submission = refuse_and_keep(send([TOXICITY], b"1"), 0)
    name = submission.upload.name
    reading.forget_refused_uploads()
    assert default_storage.exists(name)
    Submission.objects.update(state=Submission.State.WITHDRAWN)
    reading.forget_refused_uploads()
    assert not default_storage.exists(name)


def test_an_upload_that_is_retried_while_old_ones_are_deleted_is_kept(prompts, monkeypatch):
    submission = refuse_and_keep(send([TOXICITY], b"1"), 7)

    def look_then_do_late(do, items):
        late_items = list(items)
        lifecycle.retry(submission, submission.submitter)
        return each_alone(do, late_items)

    monkeypatch.setattr(reading, "each_alone", look_then_do_late)
    reading.forget_refused_uploads()
    assert default_storage.exists(Submission.objects.get().upload.name)


# What becomes of models without weights


@pytest.mark.slow
def test_a_model_whose_outputs_were_sent_is_never_queued_for_collecting(board):
    own = LanguageModel.objects.get(name=CAUSAL)
    model = rank(send([SAFETY], json_lines(rows_of(own.runs.get().artefact, LIKELIHOODS)))).model
    declared = Declaration("prepended", "P", "likelihood", "safety", "likelihood", {"bos": "prepend"})
    other = declare_metric(declared, board.protocol.evaluation_set)
    with pytest.raises(CannotEvaluate, match="nobody sent the outputs"):
        request_evaluation(model, other)
    assert request_evaluation(model, board).state == Work.State.DONE
    rescore.open_rescoring(board, "likelihoods drifted", check=ControlCheck.objects.latest("pk"))
    outdated = OutdatedEntry.objects.get(model=model)
    assert "they were made elsewhere; who sent them may send new ones" in outdated.reason
    assert not Run.objects.unfinished().filter(model=model).exists()
    anew = send([SAFETY], json_lines(rows_of(own.runs.get(epoch=1).artefact, LIKELIHOODS)))
    read_all()
    anew.refresh_from_db()
    assert anew.model == model
    assert (anew.scorings.get().metric_version, anew.scorings.get().run.epoch) == (outdated.metric_version, 2)


@pytest.mark.slow
def test_outputs_that_a_moderator_refuses_are_deleted(prompts, settings):
    settings.BOARD_ACCESS = "moderated"
    with nothing_is_left():
        submission = send([TOXICITY], json_lines(continued(text=" of nobody else")))
        read_all()
        assert Submission.objects.get().move(Submission.State.REFUSED, reason="Not yours")
        reading.forget_unwanted()
    assert Submission.objects.get(pk=submission.pk).artefact is None


# The page


def post(client: Client, content: bytes, name: str = "outputs.jsonl", **changes):
    values = said(metrics=[TOXICITY], **changes)
    return client.post(PAGE, {**values, "file": uploaded(content, name)})


def test_the_page_takes_a_file_from_who_is_signed_in_and_confirmed_with_a_csrf_token(prompts):
    stranger = Client()
    assert "/accounts/login/" in stranger.get(PAGE).url
    client = Client()
    client.force_login(person("newcomer", "viewer"))
    with nothing_is_left():
        assert "/accounts/login/" in post(stranger, json_lines(GOOD)).url
        page = post(client, json_lines(GOOD))
    assert page.status_code == 400
    assert "may not submit" in page.content.decode()
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(person())
    assert post(careful, json_lines(GOOD)).status_code == 403
    client.force_login(User.objects.get(username="ada"))
    response = post(client, json_lines(GOOD))
    submission = Submission.objects.get()
    assert response.url == submission.get_absolute_url()
    assert submission.state == Submission.State.CHECKING


def test_nobody_else_sees_a_submission_its_file_or_its_report(client, prompts):
    submission = refused(send([TOXICITY], json_lines(GOOD[2:])))
    client.force_login(person("grace"))
    assert client.get(submission.get_absolute_url()).status_code == 404


def test_mistakes_are_shown_at_their_fields_with_what_was_filled_in(client, prompts):
    client.force_login(person())
    page = post(client, b"", name="outputs.txt", revision="=1").content.decode()
    assert 'id="id_revision_error"' in page
    assert "begins with =" in page
    assert "The file is empty" in page
    assert 'value="Closed 1"' in page
    assert re.search(rf'value="{TOXICITY}" checked', page)


def test_too_large_a_file_is_not_kept_even_while_it_arrives(client, prompts, settings):
    settings.UPLOAD_MOST_BYTES = 2000
    client.force_login(person())
    with nothing_is_left():
        page = post(client, b"x" * 100_000).content.decode()
    assert "The file is too large: send 2.0" in page
    assert "Choose the file" not in page


@pytest.mark.parametrize("path", ["/submit/tool/", "/accounts/login/", "/api/v1/submissions"])
def test_a_request_with_more_files_than_a_form_takes_is_refused(client, prompts, path):
    client.force_login(person())
    headers = {"Authorization": f"Bearer {make_token(User.objects.get(), 'nightly', 30)[1]}"}
    files = {name: uploaded(b"x") for name in ("file", "results", "more")}
    with nothing_is_left():
        answer = client.post(path, files, headers=headers)
    assert answer.status_code == 400
    assert b'type="file"' not in answer.content, "nothing else of it is looked at"


def test_a_strangers_file_is_not_kept_while_it_arrives_and_one_sent_with_a_token_is(rf):
    _, secret = make_token(person(), "nightly", 30)
    for header, names in (("", []), ("Bearer plumb_nonsense", []), (f"Bearer {secret}", ["file"])):
        fields = {"file": SimpleUploadedFile("a.txt", b"x" * 100), "login": "ada"}
        request = rf.post("/accounts/login/", fields, headers={"Authorization": header})
        assert list(request.FILES) == names
        assert request.POST["login"] == "ada"


@pytest.mark.parametrize("page", [PAGE, "/submit/tool/"])
def test_whoever_may_not_submit_now_reads_why_before_filling_in_the_form(client, settings, page):
    client.force_login(person())
    reason = "You sent 0 submissions within a day, the maximum: try again tomorrow."
    assert reason not in client.get(page).content.decode()
    settings.SUBMISSIONS_A_DAY = 0
    assert reason in client.get(page).content.decode()


def test_a_long_template_is_sent_in_pieces(client, prompts, monkeypatch):
    client.force_login(person())
    monkeypatch.setattr(outputs, "PIECE", 1_000)
    pieces = list(client.get(reverse("outputs_template", args=[TOXICITY, "jsonl"])).streaming_content)
    assert len(pieces) > 1
    assert all(1_000 < len(piece) < 2_000 for piece in pieces[:-1])


@pytest.mark.slow_cases
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_template_is_for_people_who_signed_in_and_what_comes_of_it_is_taken(client, prompts, kind):
    path = reverse("outputs_template", args=[TOXICITY, kind])
    assert "/accounts/login/" in client.get(path).url
    user = person()
    client.force_login(user)
    response = client.get(path)
    assert response["Content-Disposition"] == f'attachment; filename="{TOXICITY}-template.{kind}"'
    assert "noindex" in response["X-Robots-Tag"]
    content = b"".join(response.streaming_content)
    assert content.count(b"\n") == 20 + (kind == "csv")
    filled = (
        b"".join(line.replace(b'"text": ""', b'"text": "so"') + b"\n" for line in content.splitlines())
        if kind == "jsonl"
        else re.sub(rb",([01]),,", rb",\1,so,", content)
    )
    assert rank(send([TOXICITY], filled, f"filled.{kind}", user=user)).model.standings.exists()
    assert client.get(reverse("outputs_template", args=["nonsense", kind])).status_code == 404


def test_the_page_asks_the_database_as_often_for_many_metrics_as_for_few(client, prompts):
    client.force_login(person())
    client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    for number in range(5):
        declaration = Declaration(f"more-{number}", f"More {number}", living.NAME, "toxicity", "rtp", {"k": number + 3})
        declare_metric(declaration, prompts.protocol.evaluation_set)
    with CaptureQueriesContext(connection) as many:
        page = client.get(PAGE).content.decode()
    assert "More 4" in page
    assert len(many) == len(few)
