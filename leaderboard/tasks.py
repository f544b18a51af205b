"""Celery tasks: load the row, call the service, done. The kinds of work say on which queue theirs are."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import shared_task

from leaderboard.exchange import downloads as board_exports
from leaderboard.models import (
    Artefact,
    Calibration,
    ControlCheck,
    Download,
    MetricVersion,
    Reading,
    Run,
    Scoring,
    ServiceCheck,
    Succession,
)
from leaderboard.operations.services import restore, retirement, scrub
from leaderboard.people.services.accounts import forget_expired_sessions
from leaderboard.queries.search_index import refresh_index
from leaderboard.services import (
    calibrations,
    checks,
    collect,
    downloads,
    look_ups,
    outbox,
    publish,
    queue,
    rescore,
    score,
    scorer_probes,
    service_checks,
    shards,
    storage_marks,
    succession,
    upgrade,
)
from leaderboard.services.alone import each_alone
from leaderboard.services.release import refusal
from leaderboard.services.signs_of_life import pulse
from leaderboard.submissions.services import lifecycle, reading, uploads

log = logging.getLogger(__name__)


def for_this_release(task: Callable[..., None]) -> Callable[..., None]:
    """Let a task of the board as a whole do nothing where this worker is of another release: others do it."""

    @wraps(task)
    def do_unless_refused(*args: Any) -> None:
        if problem := refusal():
            log.warning("%s is left to other workers: %s", task.__name__, problem)
            return
        task(*args)

    return do_unless_refused


def collect_one(run_id: int) -> bool:
    """Collect a slice of this run; False if another worker has it."""
    return collect.collect(Run.objects.select_related("model", "protocol__evaluation_set__artefact").get(pk=run_id))


def score_one(scoring_id: int) -> bool:
    """Score this; False if another worker does."""
    return score.score(
        Scoring.objects.select_related(
            "model", "metric_version__metric", "run__artefact", "run__protocol__evaluation_set__artefact"
        ).get(pk=scoring_id)
    )


@shared_task
def collect_run() -> None:
    """One slice of collecting a model's outputs: of the run whose turn it is."""
    queue.do_fairest(Run, collect_one)
    conclude()
    queue.call_for_more(Run)


@shared_task
def score_run() -> None:
    """Score what a run collected, and publish: of the scoring whose turn it is."""
    queue.do_fairest(Scoring, score_one)
    conclude()
    queue.call_for_more(Scoring)


def conclude() -> None:
    """Tell the services that wait for work that some has ended."""
    lifecycle.settle()


@shared_task
def fetch_model(download_id: int) -> None:
    """Fetch the files of a hub model."""
    downloads.fetch(Download.objects.select_related("model").get(pk=download_id))
    conclude()
    queue.call_for_more(Download)


@shared_task
@for_this_release
def renew_ranges(version_id: int) -> None:
    """Make the ranges of a version's ranks anew, after a model left its ranking or came back."""
    publish.renew_ranges(MetricVersion.objects.select_related("metric").get(pk=version_id))


@shared_task
def probe_scorers() -> None:
    """Test which scorers can be loaded."""
    scorer_probes.probe_scorers()


@shared_task
def check_control(check_id: int) -> None:
    """Score a metric's control set again, and act on the verdict."""
    checks.perform(ControlCheck.objects.select_related("metric").get(pk=check_id))
    queue.call_for_more(ControlCheck)


@shared_task
def calibrate_scorer(calibration_id: int) -> None:
    """Hold a scorer's scores of labelled texts against the labels."""
    rows = Calibration.objects.select_related("metric_version__metric", "evaluation_set__artefact")
    calibrations.perform(rows.get(pk=calibration_id))
    queue.call_for_more(Calibration)


@shared_task
def compare_successor(succession_id: int) -> None:
    """Compare a metric's scorer with the one that is to follow it."""
    succession.perform(Succession.objects.select_related("metric").get(pk=succession_id))
    queue.call_for_more(Succession)


@shared_task
def check_service(check_id: int) -> None:
    """Ask a service its control texts again, and act on the verdict."""
    service_checks.perform(ServiceCheck.objects.select_related("model").get(pk=check_id))
    queue.call_for_more(ServiceCheck)


@shared_task
def read_submission(reading_id: int) -> None:
    """Read an uploaded file."""
    reading.read_upload(Reading.objects.select_related("submission__submitter").get(pk=reading_id))
    conclude()
    queue.call_for_more(Reading)


@shared_task
def sweep() -> None:
    """Queue the work again that should be under way and is not."""
    queue.sweep()
    pulse("sweep")


@shared_task
@for_this_release
def watch() -> None:
    """Do what is due without being asked: retirements, rescorings after an upgrade, checks, publication, clearing up.

    Each step stands alone: one that fails is logged, and the others are done.
    """
    each_alone(
        do_step,
        (
            retirement.retire_ended_scorers,
            upgrade.catch_up_all,
            checks.request_due_checks,
            calibrations.request_missing,
            succession.compare_again,
            service_checks.request_due_service_checks,
            rescore.advance_all,
            publish.renew_all_ranges,
            reading.refuse_unreadable,
            reading.forget_unwanted,
            clear_storage,
            forget_expired_sessions,
            outbox.forget_old_messages,
            conclude,
            probe_due_scorers,
            export_if_due,
            refresh_index,
            storage_marks.renew_mark,
            note_watch,
        ),
    )


def note_watch() -> None:
    """Note that the watch was done."""
    pulse("watch")


def do_step(step: Callable[[], object]) -> None:
    """One step of the watch."""
    step()


def clear_storage() -> None:
    """Drop files that no row needs, unless the rows are of another time than the storage: an incident tells of that."""
    if not storage_marks.find_mismatch():
        each_alone(do_step, (shards.remove_stale, uploads.remove_unreferenced, reading.forget_refused_uploads))


def probe_due_scorers() -> None:
    """Have scorers tried that were not tried for a while."""
    if scorer_probes.due_probes():
        probe_scorers.delay()


def export_if_due() -> None:
    """Have the download of the whole board written anew, where it is time."""
    if board_exports.is_due():
        export_board.delay()


@shared_task
@for_this_release
def export_board() -> None:
    """Write the download of the whole board, if the board changed since the last one."""
    board_exports.renew()


@shared_task
def scrub_files() -> None:
    """Read a share of all stored files, and note which are lost."""
    scrub.scrub()


@shared_task
@for_this_release
def restore_file(artefact_id: int) -> None:
    """Make a lost file again from the outputs that it was computed from."""
    restore.restore(Artefact.objects.get(pk=artefact_id))


@shared_task
def look_up(key: str, hub_id: str, revision: str | None, patience: float) -> None:
    """Look into a model of the hub for a web server that has no engine."""
    look_ups.answer_look_up(key, hub_id, revision, patience)
