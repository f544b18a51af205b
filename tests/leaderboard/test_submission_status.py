"""What the page of a submission says of each evaluation, whatever state its work is in, and what one may do then."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from leaderboard.models import (
    ControlCheck,
    Download,
    EntryCheck,
    LanguageModel,
    Run,
    Scoring,
    Submission,
)
from leaderboard.services.failures import explain
from leaderboard.submissions.queries import submissions as queries
from leaderboard.submissions.queries.submissions import (
    Stage,
    SubmissionStatus,
    describe_status,
    read_contents,
    read_workspace,
)
from leaderboard.submissions.services.evaluations import EvaluationStep
from tests.leaderboard.living import SLUG
from tests.leaderboard.submitting import ada, begun, person, sent, small, small_rows, stage

__all__ = ["ada", "small", "small_rows", "stage"]

State = Submission.State


# Without a database


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (State.CHECKING, ["correct_submission", "withdraw_submission"]),
        (State.MODERATED, ["correct_submission", "withdraw_submission"]),
        (State.RETURNED, ["change_submission", "correct_submission", "withdraw_submission"]),
        (State.REFUSED, ["correct_submission"]),
        (State.ACCEPTED, ["cancel_submission", "correct_submission", "withdraw_submission"]),
        (State.RANKED, ["correct_submission", "withdraw_submission"]),
        (State.FAILED, ["retry_submission", "correct_submission", "withdraw_submission"]),
        (State.CANCELLED, ["retry_submission", "correct_submission", "withdraw_submission"]),
        (State.WITHDRAWN, []),
    ],
)
def test_what_one_may_do_follows_from_the_state_and_whose_model_it_is(state, actions):
    def list_actions(model: LanguageModel | None, is_alone: bool = True) -> list[str]:
        submission = Submission(state=state, model=model)
        return SubmissionStatus(submission, "", [], [], 0, False, is_alone, None).actions

    without_correction = [name for name in actions if name != "correct_submission"]
    assert list_actions(LanguageModel(access="open")) == list_actions(LanguageModel(access="restricted")) == actions
    for model, is_alone in (
        (None, True),
        (LanguageModel(access="open"), False),
        (LanguageModel(access="withdrawn"), True),
    ):
        assert list_actions(model, is_alone) == without_correction


def test_a_refused_file_that_is_not_deleted_may_be_read_again():
    submission = Submission(state=State.REFUSED, upload="submissions/x")
    assert SubmissionStatus(submission, "", [], [], 0, False, True, None).actions == ["retry_submission"]


def test_all_that_was_filled_in_is_listed_in_the_order_of_the_form_and_the_rest_once():
    payload = {
        "metrics": ["a", "b"],
        "name": "Alder",
        "hub_id": "org/alder",
        "revision": "main",
        "precision": "float16",
        "interface": "chat",
        "family": "Trees",
        "licence": "mit",
        "context": 2048,
        "notes": "",
        "resolved": {"revision": "a" * 40, "tied": True, "stop": ["x", 1], "nothing": None},
        "said": {"top_p": 0.5, "revision": "a" * 40},
        "made_by": "y" * 600,
    }
    contents = read_contents(Submission(payload=payload), {"a": "Metric A"})
    assert [(field.label, field.text) for field in contents.filled_in] == [
        ("Name", "Alder"),
        ("Hub id", "org/alder"),
        ("Revision asked for", "main"),
        ("Computed in", "float16"),
        ("Asked as", "Chat"),
        ("Family", "Trees"),
        ("Licence", "mit"),
        ("Context length", "2048"),
        ("Metrics", "Metric A, b"),
    ]
    assert [(field.label, field.text) for field in contents.findings] == [
        ("Revision", "a" * 40),
        ("Tied", "yes"),
        ("Stop", "x, 1"),
        ("Top p", "0.5"),
        ("Made by", "y" * 500),
    ]


# The stages


@pytest.fixture
def moment(monkeypatch):
    """Now, which stands still."""
    now = timezone.now()
    monkeypatch.setattr(queries, "database_now", lambda: now)
    return now


Tell = Callable[..., Stage]


@pytest.fixture
def collecting(small, ada, moment) -> Tell:
    """Describes the stage of a submission whose outputs are collected, after its run was changed."""
    submission = begun(ada)
    Download.objects.create(model=submission.model, state="done")
    Scoring.objects.filter(model=submission.model).update(state="queued")
    runs = Run.objects.filter(model=submission.model)
    plain = {
        "state": "queued",
        "artefact": None,
        "requester": ada,
        "reason": "",
        "fault": "",
        "attempts": 0,
        "not_before": None,
        "lease": None,
        "lease_expires_at": None,
        "done": 0,
        "total": 0,
        "held": False,
        "waits_for": "",
    }

    def tell(**values: Any) -> Stage:
        runs.update(**plain | values)
        (one,) = describe_status(Submission.objects.get(pk=submission.pk)).stages
        return one

    tell.submission = submission
    return tell


@pytest.mark.django_db
def test_a_stage_of_collecting_says_what_it_waits_for(collecting: Tell, moment):
    ahead, past = moment + timedelta(seconds=60), moment - timedelta(seconds=1)
    running = {"state": "running", "lease": uuid4(), "lease_expires_at": ahead}
    broken = {"fault": "StorageAway", "reason": "it is away"}
    for values, words in (
        ({"held": True}, "Paused by an operator, at collecting outputs. It goes on when they resume it."),
        ({}, "Waiting for its turn at collecting outputs, place 1 in the queue."),
        ({"done": 5, "total": 10}, "Waiting for its turn at collecting outputs again, place 1 in the queue."),
        ({"not_before": past}, "Waiting for its turn at collecting outputs, place 1 in the queue."),
        (running, "Collecting the model's outputs."),
        (running | {"held": True}, "Paused by an operator, at collecting outputs. It goes on when they resume it."),
        (
            running | {"lease_expires_at": past},
            "Its worker fell silent at collecting outputs: another one goes on from there.",
        ),
        ({"not_before": ahead}, "Waiting for a control check. It goes on in 60 s."),
        ({"not_before": ahead, "reason": "It has to wait"}, "It has to wait. It goes on in 60 s."),
        (
            {"not_before": ahead, "waits_for": "check"},
            "Its scorer is not available now, so nothing is published. It is tried again in 60 s.",
        ),
        (
            broken | {"not_before": moment + timedelta(seconds=119)},
            "The storage of this board does not answer. It is tried again in 119 s.",
        ),
        (
            broken | {"not_before": moment + timedelta(seconds=120), "attempts": 2},
            "Attempt 2 of 5 came to nothing. The storage of this board does not answer. It is tried again in 2 min.",
        ),
        ({"state": "failed", **broken}, "Failed."),
        ({"state": "cancelled", "reason": "by an operator"}, "Cancelled."),
    ):
        assert collecting(**values).text == words, values


@pytest.mark.django_db
def test_a_stage_gives_its_place_its_time_and_its_reason_where_they_mean_something(collecting: Tell, small, moment):
    other = Run.objects.filter(state="done").exclude(model=collecting.submission.model)
    other.update(seconds=100, finished_at=moment)
    LanguageModel.objects.filter(pk=other.get().model_id).update(parameters=1000)
    LanguageModel.objects.filter(pk=collecting.submission.model_id).update(parameters=2500)
    guess = timedelta(seconds=250)
    running = {"state": "running", "lease": uuid4(), "lease_expires_at": moment + timedelta(60)}

    def facts(one: Stage) -> tuple[Any, ...]:
        return one.place, one.guess, one.failure, one.reason

    assert facts(collecting()) == (1, guess, None, "")
    assert facts(collecting(held=True)) == (None, guess, None, "")
    assert facts(collecting(reason="no fault")) == (1, guess, None, "")
    assert facts(collecting(reason="it is away", fault="StorageAway")) == (1, guess, None, "it is away")
    assert facts(collecting(done=1, total=10)) == (1, None, None, "")
    assert facts(collecting(**running)) == (None, None, None, "")
    failed = collecting(state="failed", reason="lost at /srv/board/x", fault="StorageAway")
    advice = explain(Run.objects.get(model=collecting.submission.model))
    assert facts(failed) == (None, None, advice, failed.reason)
    assert failed.reason.startswith("lost at ")
    assert "/srv" not in failed.reason
    status = describe_status(Submission.objects.get(pk=collecting.submission.pk))
    assert status.mark == f"accepted-{SLUG}"
    LanguageModel.objects.filter(pk=collecting.submission.model_id).update(parameters=None)
    assert collecting().guess == timedelta(seconds=100), "nothing to scale it by"
    other.update(seconds=0)
    assert collecting().guess is None
    assert describe_status(Submission.objects.get(pk=collecting.submission.pk)).mark == "accepted"


@pytest.mark.django_db
def test_while_files_are_fetched_the_stage_says_so(collecting: Tell, moment):
    waits = timedelta(seconds=60)
    for values, words in (
        ({"state": "queued"}, "Waiting for its files to be fetched from the hub."),
        ({"state": "queued", "not_before": moment - waits}, "Waiting for its files to be fetched from the hub."),
        (
            {"state": "queued", "not_before": moment + waits, "fault": "HubUnavailable"},
            "The hub did not answer. It is tried again in 60 s.",
        ),
        (
            {
                "state": "running",
                "lease": uuid4(),
                "lease_expires_at": moment + waits,
                "done": 2_500_400,
                "total": 3_000_000,
            },
            "Its files are fetched from the hub: 2,500 MB so far.",
        ),
        (
            {"state": "cancelled", "lease": None, "lease_expires_at": None},
            "Waiting for its turn at collecting outputs.",
        ),
        ({"state": "done"}, "Waiting for its turn at collecting outputs, place 1 in the queue."),
    ):
        Download.objects.filter(model=collecting.submission.model).update(**values)
        assert collecting().text == words, values
    Download.objects.update(state="queued", not_before=None)
    assert collecting(held=True).text.startswith("Paused by an operator")


@pytest.mark.django_db
def test_a_stage_of_scoring_says_whether_the_scorer_is_checked_and_how_it_ended(small, ada, moment):
    submission = begun(ada)
    scorings = Scoring.objects.filter(model=submission.model)

    def tell(**values: Any) -> tuple[EvaluationStep, str]:
        scorings.update(**values)
        (one,) = describe_status(Submission.objects.get(pk=submission.pk)).stages
        return one.evaluation.step, one.text

    ahead = {"lease": uuid4(), "lease_expires_at": moment + timedelta(60)}
    step = EvaluationStep.SCORING
    assert tell() == (step, "Waiting for its turn at scoring, place 1 in the queue.")
    assert tell(state="running", started_at=moment, **ahead) == (step, "Scoring the outputs.")
    check = ControlCheck.objects.create(metric=small, trigger="submission")
    words = "Control check: the scorer's control texts are scored again, before any numbers."
    assert tell() == (step, words)
    ControlCheck.objects.filter(pk=check.pk).update(state="cancelled")
    assert tell() == (step, "Scoring the outputs.")
    ControlCheck.objects.filter(pk=check.pk).update(state="queued", created_at=moment - timedelta(days=8))
    assert tell() == (step, "Scoring the outputs."), "a check of so long ago is none of this scoring"
    ended = {"state": "done", "scored_at": moment, "lease": None, "lease_expires_at": None}
    assert tell(**ended) == (EvaluationStep.RANKED, "Ranked.")
    entry = EntryCheck.objects.create(scoring=scorings.get(), state="held", flags=[])
    assert tell()[0] == EvaluationStep.HELD
    assert tell()[1].startswith("Scored, and held back until a moderator has looked.")
    EntryCheck.objects.filter(pk=entry.pk).update(state="refused", reason="It learnt nothing.", decided_at=moment)
    assert tell() == (EvaluationStep.FAILED, "A moderator did not release it. It learnt nothing.")
    EntryCheck.objects.filter(pk=entry.pk).update(state="released")
    assert tell() == (EvaluationStep.RANKED, "Ranked.")
    scorings.update(texts=100, texts_missing=60)
    assert tell()[1] == f"Shown without a rank: {scorings.get().why_unranked}."


# The workspace


@pytest.mark.django_db
def test_the_workspace_has_ones_own_newest_first_with_what_is_ranked_and_what_is_under_way(small, ada):
    under_way, other = begun(ada), begun(person("bob"), 2)
    rows = [sent(ada, SLUG, number=3, state="moderated"), sent(ada, number=4, state="returned"), under_way]
    for number, row in enumerate(rows):
        Submission.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(minutes=number))

    def read(state: str = "") -> list[tuple[Any, ...]]:
        workspace = read_workspace(ada, state, 1)
        assert (workspace.count, workspace.states) == (
            3,
            [
                ("moderated", "Waiting for a moderator", 1),
                ("returned", "Changes are asked for", 1),
                ("accepted", "Under way", 1),
            ],
        )
        return [(row.submission.pk, row.percent, row.ranked_count, row.metric_count) for row in workspace.rows]

    lines = [(rows[0].pk, None, 0, 1), (rows[1].pk, None, 0, 0), (under_way.pk, 50, 0, 1)]
    assert read() == lines
    assert read("returned") == lines[1:2]
    assert read("ranked") == []
    Scoring.objects.filter(model=under_way.model).update(state="done", scored_at=timezone.now())
    assert read("accepted") == [(under_way.pk, 100, 1, 1)]
    Scoring.objects.filter(model=under_way.model).update(texts=100, texts_missing=60)
    assert read("accepted") == [(under_way.pk, 100, 0, 1)]
    assert read_workspace(other.submitter, "", 1).count == 1
