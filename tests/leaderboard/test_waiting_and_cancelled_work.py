"""Work that was given up keeps nothing of what it was at; what it waits for is a column."""

from importlib import import_module
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from django.utils import timezone

from leaderboard.models import Rescoring, Run, Scoring, Submission, Work
from leaderboard.services import failures, leases
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.leases import Deferred
from leaderboard.storage import StorageAway
from scoring.generation import UnsupportedRules
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL
from tests.leaderboard.stored import version_of
from tests.leaderboard.test_accounts import person

migration = import_module("leaderboard.migrations.0022_waits_for")


@pytest.fixture
def scoring(metric, models) -> Scoring:
    return request_evaluation(models[CAUSAL], metric, send=False)


def state_of(work: Work) -> tuple:
    work.refresh_from_db()
    return (work.state, work.held, work.not_before, work.waits_since, work.waits_for, work.lease, work.fault)


@pytest.mark.parametrize(("by_person", "fault"), [(True, Work.CANCELLED_BY_SOMEBODY), (False, "")])
def test_what_is_cancelled_keeps_no_pause_no_lease_and_no_failure_of_before(scoring, by_person, fault):
    Scoring.objects.update(
        held=True, not_before=timezone.now(), waits_since=timezone.now(), waits_for="check", fault="StorageAway"
    )
    scoring.run.claim(uuid4())
    assert Scoring.objects.cancel("nobody wants it", by_person=by_person) == 1
    assert Run.objects.cancel("x" * 600, by_person=by_person) == 1
    for work in (scoring, scoring.run):
        assert state_of(work) == (Work.State.CANCELLED, False, None, None, "", None, fault)
        assert work.finished_at
        assert work.was_given_up() == by_person
    assert scoring.reason == "nobody wants it"
    assert len(scoring.run.reason) == 500
    assert scoring.queue_again()


def test_what_has_ended_is_not_cancelled(scoring):
    Scoring.objects.update(state=Work.State.FAILED, reason="it broke")
    assert Scoring.objects.cancel("too late") == 0
    scoring.refresh_from_db()
    assert (scoring.state, scoring.reason) == (Work.State.FAILED, "it broke")


def test_what_work_waits_for_is_kept_until_it_waits_for_something_else(scoring):
    with leases.claim(scoring):
        raise Deferred(60, "2 of 3 scorings are made", Work.WaitsFor.OPENING)
    scoring.refresh_from_db()
    assert scoring.waits_for == Work.WaitsFor.OPENING
    assert scoring.reason == "the version is being opened: 2 of 3 scorings are made"
    Scoring.objects.update(not_before=None)
    with leases.claim(scoring):
        raise Deferred(60, "the hub asks to wait")
    scoring.refresh_from_db()
    assert (scoring.waits_for, scoring.reason) == ("", "the hub asks to wait")
    Scoring.objects.update(not_before=None, waits_for="check")
    with leases.claim(scoring):
        raise ValueError("broken")
    scoring.refresh_from_db()
    assert (scoring.state, scoring.waits_for) == (Work.State.QUEUED, "")


def test_a_submission_whose_work_fails_for_good_says_so_in_its_log(scoring):
    submission = Submission.objects.create(
        submitter=person(), form="hub", model=scoring.model, payload={}, state="accepted"
    )
    with leases.claim(scoring):
        raise UnsupportedRules("the protocol reads answers by other rules")
    assert (scoring.state, scoring.fault) == (Work.State.FAILED, "UnsupportedRules")
    assert [line.text for line in submission.lines.all()] == [f"Failed. {failures.explain(scoring).what}"]


@pytest.mark.parametrize("is_its_own", [True, False])
def test_a_rescoring_waits_as_a_whole_and_entries_outside_it_do_not(scoring, models, is_its_own):
    metric, version = scoring.metric_version.metric, scoring.metric_version
    other = request_evaluation(models[OTHER_CAUSAL], metric, send=False)
    next_version = version_of(metric, "another")
    ends = (next_version, version) if is_its_own else (version, next_version)
    Rescoring.objects.create(metric=metric, from_version=ends[0], to_version=ends[1], reason="a drift")
    with leases.claim(scoring):
        raise StorageAway("the bucket does not answer")
    scoring.refresh_from_db()
    other.refresh_from_db()
    assert scoring.waits_since
    assert (other.not_before, other.fault) == ((scoring.not_before, scoring.fault) if is_its_own else (None, ""))


@pytest.mark.parametrize("changes", [{"waits_for": "tea"}, {"waits_for": "check", "state": "cancelled"}])
def test_the_database_refuses_an_unknown_wait_and_one_of_work_that_is_over(scoring, changes):
    with pytest.raises(IntegrityError, match="scoring_waits_only_unfinished"), transaction.atomic():
        Scoring.objects.update(**changes)


@pytest.mark.parametrize(
    ("reason", "waits_for"),
    [
        ("the control check had no answer: the stand-in is down", "check"),
        ("the version is being opened: 1 of 3 scorings are made", "opening"),
        ("the version is not opened: the scorer answers as two", "steadiness"),
        ("StorageAway: unmounted", ""),
    ],
)
def test_an_upgrade_reads_what_work_waits_for_from_its_reason(scoring, reason, waits_for):
    Scoring.objects.update(reason=reason)
    migration.read_reasons(apps, None)
    scoring.refresh_from_db()
    assert scoring.waits_for == waits_for
