"""What the board itself is at fault for ends no entry, publishes nothing in part, and keeps nobody else waiting."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.utils import timezone

from leaderboard import tasks
from leaderboard.celery import app
from leaderboard.models import (
    Artefact,
    AuditEvent,
    Incident,
    MetricVersion,
    OutdatedEntry,
    Reading,
    Rescoring,
    Run,
    Scoring,
    Standing,
    Submission,
    Work,
)
from leaderboard.models.clock import database_now
from leaderboard.operations.alerts import look
from leaderboard.operations.services import restore
from leaderboard.operations.services.scrub import look_at
from leaderboard.queries.stamp import board_stamp
from leaderboard.services import leases, rescore
from leaderboard.services.access import hide_model, set_access
from leaderboard.services.checks import perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.rescore import waits_on
from scoring.scorers import LexiconError
from tests.leaderboard.conftest import _without_looks
from tests.leaderboard.contributing import prompts, read_all, send, stage
from tests.leaderboard.living import (
    SLUG,
    active,
    deliver,
    drain,
    drift,
    entrant,
    hurry,
    lost,
    names_of,
    small_metric,
    submit,
    waiting,
)
from tests.leaderboard.test_submit_outputs import continued
from tests.scoring.contributed.files import json_lines

__all__ = ["_without_looks", "prompts", "stage"]

pytestmark = [pytest.mark.faults, pytest.mark.django_db]

UNDISTURBED = {f"entrant-{number}" for number in (1, 2, 3)}


@pytest.fixture
def board(tmp_path, stage):
    """Three entries under the first version."""
    metric = small_metric(tmp_path)
    for number in (1, 2, 3):
        request_evaluation(entrant(number, metric), metric, send=False)
    drain()
    return metric


@contextmanager
def storage_away() -> Iterator[None]:
    """Without the folder of the storage, as where nothing is mounted, for the block."""
    folder = Path(default_storage.location)
    aside = folder.rename(folder.with_suffix(".aside"))
    folder.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(folder)
        aside.rename(folder)


def try_all(times: int) -> None:
    """Let the workers try whatever waits, so many times."""
    for _ in range(times):
        hurry()
        for work in waiting():
            deliver(work)


def scores_of(slug: str) -> Artefact:
    """What the ranges of an entry's ranks are made from."""
    return Scoring.objects.get(model__slug=slug).replicates


# Whose failure it is


def test_a_storage_that_is_away_ends_no_entry_and_publishes_no_part_of_a_version(board, stage, settings):
    settings.MOST_ATTEMPTS = 2
    drift(stage)
    perform(request_check(board, "manual", send=False))
    deliver(waiting()[0])
    with storage_away():
        try_all(4)
        rescoring = active(board)
        assert board.current_version().number == 1
        assert waits_on(rescoring) == ["2 entries wait: the storage cannot be read or written."]
        left = rescoring.to_version.scorings.exclude(state=Work.State.DONE)
        assert set(left.values_list("state", "attempts", "fault")) == {(Work.State.QUEUED, 0, "StorageAway")}
        left.update(waits_since=timezone.now() - timedelta(minutes=1))
        look()
        incident = Incident.objects.get(kind=Incident.Kind.WAITING)
        assert "2 scorings wait" in incident.summary
    drain()
    assert names_of(board.current_version()) == UNDISTURBED
    assert board.current_version().number == 2
    assert not OutdatedEntry.objects.exists()
    look()
    incident.refresh_from_db()
    assert incident.resolved_at


def test_pauses_grow_with_how_long_the_board_is_at_fault_and_end_for_all_at_once(
    board, stage, monkeypatch, django_capture_on_commit_callbacks
):
    rescoring = rescore.open_rescoring(board, "to be sure")
    first, second, third = rescoring.to_version.scorings.order_by("pk")
    pauses = []
    for waited in (0, 100, 2000):
        Scoring.objects.filter(pk=first.pk).update(not_before=None)
        if waited:
            Scoring.objects.filter(pk=first.pk).update(waits_since=database_now() - timedelta(seconds=waited))
        with leases.claim(first):
            raise OSError(28, "No space left on device")
        pauses.append((first.not_before - database_now()).total_seconds())
    assert 4 <= pauses[0] <= 15
    assert 24 <= pauses[1] <= 75
    assert 299 <= pauses[2] <= 900
    second.refresh_from_db()
    assert second.not_before == first.not_before, "the rescoring pauses as a whole"
    assert second.attempts == 0
    messages = []
    monkeypatch.setattr(app, "send_task", lambda name, **_: messages.append(name))
    Scoring.objects.filter(pk=first.pk).update(not_before=None)
    for scoring in (first, second):
        with django_capture_on_commit_callbacks(execute=True):
            deliver(scoring)
    third.refresh_from_db()
    assert third.not_before is None, "what ended for one has ended for all"
    assert messages.count(Scoring.kind.task_name) == 2, "each that waited is sent once"


def test_a_finished_shard_ends_the_wait_of_its_entry_and_of_the_others(
    board, stage, django_capture_on_commit_callbacks
):
    first, *others = rescore.open_rescoring(board, "to be sure").to_version.scorings.order_by("pk")
    with leases.claim(first):
        raise OSError(28, "No space left on device")
    Scoring.objects.filter(pk=first.pk).update(not_before=None)
    with leases.claim(first) as lease, django_capture_on_commit_callbacks(execute=True):
        lease.count_anew()
        raise leases.Interrupted
    first.refresh_from_db()
    assert (first.state, first.fault, first.reason, first.waits_since) == (Work.State.QUEUED, "", "", None)
    for other in others:
        other.refresh_from_db()
        assert other.not_before is None


@pytest.mark.slow
def test_an_entry_waits_while_the_control_set_of_its_metric_cannot_be_checked(board, stage, settings):
    settings.MOST_ATTEMPTS = 2
    scoring = request_evaluation(entrant(4, board), board, send=False)
    with lost(board.current_version().control_set.reference):  # as on a board that was imported without
        for _ in range(3):
            hurry()
            for work in waiting():
                deliver(work)
        scoring.refresh_from_db()
        assert (scoring.state, scoring.attempts, scoring.fault) == (Work.State.QUEUED, 0, "CheckImpossible")
        assert "manage.py rescore toxicity-standin" in scoring.reason
        rescore.open_rescoring(board, "a control set of its own")
        drain()
    assert names_of(board.current_version()) == {*UNDISTURBED, "entrant-4"}


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        OperationalError("the connection is lost"),
        MemoryError(),
        LexiconError("there is no lexicon 'own'"),
        FileNotFoundError("a checkpoint"),
    ],
)
def test_faults_of_the_board_count_no_attempt_however_often_they_come(board, settings, error):
    settings.MOST_ATTEMPTS = 2
    scoring = request_evaluation(entrant(4, board), board, send=False)
    for _ in range(4):
        with leases.claim(scoring):
            raise error
        assert (scoring.state, scoring.attempts) == (Work.State.QUEUED, 0)
        assert scoring.waits_since
        hurry()
        scoring.refresh_from_db()


def test_an_upload_outlives_a_storage_that_is_away(prompts):
    submission = send([SLUG], json_lines(continued()))
    with storage_away():
        for _ in range(5):
            read_all()
            Reading.objects.update(not_before=None)
        tasks.watch()
    submission.refresh_from_db()
    assert submission.state == Submission.State.CHECKING
    assert default_storage.exists(submission.upload.name)
    read_all()
    submission.refresh_from_db()
    assert submission.state == Submission.State.ACCEPTED


# One lost file


def test_a_model_is_hidden_and_withdrawn_though_files_of_another_are_lost_or_the_storage_is_away(board):
    ranged = Standing.objects.filter(model__slug="entrant-1", rank_high__isnull=False)
    ranges = dict(ranged.values_list("slice", "rank_high"))
    assert ranges
    first, second, third = Run.objects.order_by("model__slug").select_related("model")
    with lost(scores_of("entrant-1")):
        assert hide_model(second.model, "a complaint")
        assert names_of(board.current_version()) == {"entrant-1", "entrant-3"}
        tasks.renew_ranges(board.current_version().pk)
        standings = Standing.objects.filter(model=first.model, slice__in=ranges)
        assert names_of(board.current_version()) == {"entrant-1", "entrant-3"}
        assert all(standing.rank_low <= standing.rank <= standing.rank_high for standing in standings)
        assert all(standing.rank_high <= min(2, ranges[standing.slice]) for standing in standings)
    with storage_away():
        assert set_access(third.model, "withdrawn", "a complaint")
        assert names_of(board.current_version()) == {"entrant-1"}
    assert board.current_version().ranges_due
    tasks.watch()
    assert not board.current_version().ranges_due


def test_a_new_model_is_ranked_though_the_files_of_another_are_lost(board):
    with lost(scores_of("entrant-1")):
        scoring = submit(entrant(4, board), board)
        assert scoring.state == Work.State.DONE
        assert names_of(board.current_version()) == {*UNDISTURBED, "entrant-4"}


def test_an_entry_whose_file_is_lost_before_it_was_ranked_is_left_out_with_the_reason(board):
    scoring = Scoring.objects.get(model__slug="entrant-1")
    hide_model(scoring.model, "a complaint")
    with lost(scoring.replicates):
        hide_model(scoring.model, "")
        Standing.objects.filter(model=scoring.model).delete()
        tasks.renew_ranges(board.current_version().pk)
        assert names_of(board.current_version()) == {"entrant-2", "entrant-3"}
        reason = OutdatedEntry.objects.get(model=scoring.model).reason
        assert reason.startswith("its stored scores cannot be read")
    MetricVersion.objects.update(ranges_due=True)
    tasks.watch()
    assert names_of(board.current_version()) == UNDISTURBED
    assert not OutdatedEntry.objects.exists()


def test_lost_scores_and_replicates_are_computed_again_byte_by_byte(board):
    scoring = Scoring.objects.get(model__slug="entrant-1")
    for artefact in (scoring.artefact, scoring.replicates):
        path = Path(default_storage.path(artefact.storage_name))
        content = path.read_bytes()
        path.unlink()
        assert not look_at(artefact)
        assert restore.restore(artefact)
        assert path.read_bytes() == content
    scoring.refresh_from_db()
    assert scoring.lost_files == ""


def test_each_step_of_the_watch_and_each_row_in_it_stands_alone(board, stage, monkeypatch, tmp_path):
    other = small_metric(tmp_path, "another-metric")
    ours, theirs = (submit(entrant(number, metric), metric).model for number, metric in ((4, board), (5, other)))
    assert ours != theirs
    first, second = (rescore.open_rescoring(metric, "to be sure") for metric in (board, other))
    advance = rescore.advance

    def fail_for_the_first(rescoring: Rescoring) -> bool:
        if rescoring.pk == first.pk:
            raise RuntimeError("this row cannot be read")
        return advance(rescoring)

    def fail() -> None:
        raise RuntimeError("this step fails")

    with monkeypatch.context() as patch:
        patch.setattr("leaderboard.services.score.advance", lambda _rescoring: False)
        try_all(2)
        patch.setattr(rescore, "advance", fail_for_the_first)
        patch.setattr("leaderboard.services.upgrade.catch_up_all", fail)
        concluded = []
        patch.setattr("leaderboard.submissions.services.lifecycle.settle", lambda: concluded.append(True))
        tasks.watch()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (Rescoring.State.RUNNING, Rescoring.State.PUBLISHED)
    assert concluded


# Clocks and stamps


def test_leases_go_by_the_clock_of_the_database(board, monkeypatch, settings):
    scoring = request_evaluation(entrant(4, board), board, send=False)
    fast = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: fast)
    with leases.claim(scoring) as lease:
        assert lease
        left = (scoring.lease_expires_at - database_now()).total_seconds()
        assert settings.LEASE_SECONDS - 5 < left <= settings.LEASE_SECONDS
        assert not Scoring.objects.unclaimed().filter(pk=scoring.pk).exists()
        raise leases.Deferred(60)
    assert 50 < (scoring.not_before - database_now()).total_seconds() <= 60


def test_the_stamp_counts_publications_and_rows_that_are_committed_late(board):
    before = board_stamp().kept
    tasks.publish.publish_standings(board.current_version())
    counted = board_stamp().kept
    assert counted != before

    def add(key: int) -> str:
        event = AuditEvent(pk=key, verb="add entry", subject="metric x", detail={})
        AuditEvent.objects.bulk_create([event])
        return board_stamp().kept

    newest = AuditEvent.objects.latest("pk").pk
    assert len({counted, add(newest + 1), add(newest + 3), add(newest + 2)}) == 4
