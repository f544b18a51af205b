"""Read uploads in a worker: a file is taken whole, or refused with a report and deleted."""

import hashlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.template.defaultfilters import filesizeformat

from leaderboard.models import Artefact, AuditVerb, Protocol, Reading, Submission, SubmissionLine, Work
from leaderboard.models.clock import from_now
from leaderboard.services import artefacts, cages, failures
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate, MetricUnavailable
from leaderboard.services.leases import Deferred, Lease, LeaseLost, claim
from leaderboard.services.locks import lock_submission
from leaderboard.services.queue import enqueue
from leaderboard.storage import board_storage
from leaderboard.submissions.services import lifecycle, outputs, tool, uploads
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.upload_contents import UploadContents
from scoring.cage import FileReader
from scoring.contributed import ContributionRefused

log = logging.getLogger(__name__)

READS: dict[str, Callable[[Submission, Protocol, FileReader], UploadContents]] = {
    Submission.Form.OUTPUTS: outputs.read_outputs,
    Submission.Form.TOOL: tool.read_log,
}
State = Submission.State
MOST_READINGS = 3  # after so many failed attempts the file is refused, and kept
KEPT_DAYS = 7  # for which such a file can be read again
READING_GAVE_UP = (
    f"The file could not be read: {MOST_READINGS} attempts ended without a result. It is kept for {KEPT_DAYS} days: "
    "retry it. If that ends in the same way, send a smaller one, or ask the people who run this board."
)
PIECE = 2**20


def request(submission: Submission) -> Reading:
    """Queue the reading of a submission's upload. In the caller's transaction."""
    size = submission.payload["file"]["size"]
    reading = Reading.objects.create(submission=submission, total=size)
    say(submission, f"Received {submission.payload['file']['name']}, {filesizeformat(size)}; it waits to be read.")
    transaction.on_commit(partial(enqueue, reading))
    return reading


def say(submission: Submission, text: str) -> None:
    """Write a line to the log that the submitter reads."""
    SubmissionLine.objects.create(submission=submission, text=text[:500])


def read_upload(reading: Reading) -> None:
    """Read the upload of a submission; then continue with the submission, or refuse it.

    Safe to call twice, late, or from two workers: one claims the reading, and the others return at once.
    """
    with claim(reading) as lease:
        if lease is None:
            return
        submission, previous_attempts = reading.submission, reading.attempts - 1
        if previous_attempts >= MOST_READINGS:
            refuse_and_keep(submission, lease, READING_GAVE_UP)
            return
        if not previous_attempts:
            say(submission, "A worker reads the file.")
        try:
            _read_contents(submission, lease)
        except ContributionRefused as refused:
            report = refused.report
            reason = f"The file has {report.total:,} problem{'s' if report.total != 1 else ''}: see the report."
            refuse(submission, lease, reason, report.as_dict() | {"total": report.total})
        except SubmissionRefused as error:
            refuse(submission, lease, str(error))
        except MetricUnavailable:
            raise
        except CannotEvaluate as error:  # no change of the file would help
            refuse_and_keep(submission, lease, str(error))
    refuse_unreadable()


def _read_contents(submission: Submission, lease: Lease) -> None:
    """Read the upload, store its contents, and continue. Raises the reason if the upload cannot be taken."""
    protocol = Protocol.objects.select_related("evaluation_set__artefact").get(sha256=submission.payload["protocol"])
    name = str(submission.upload.name)
    with TemporaryDirectory(prefix="plumbline-upload-") as folder:
        path = Path(folder) / "upload"
        sha256 = _copy_upload(name, path, lease)
        with cages.open_upload(path, lease) as reader:
            contents = READS[submission.form](submission, protocol, reader)
    lease.check()
    artefact = artefacts.store(contents.table, contents.kind)
    try:
        with transaction.atomic():
            lease.finish(done=lease.work.total)
            submission = lock_submission(submission.pk)
            if submission.state == State.CHECKING:
                _accept(submission, contents, artefact, sha256)
            else:  # withdrawn meanwhile
                transaction.on_commit(partial(artefacts.forget, artefact))
            Submission.objects.filter(pk=submission.pk).update(upload="")
    except (CannotEvaluate, IntegrityError) as error:
        artefacts.forget(artefact)
        if isinstance(error, CannotEvaluate):
            raise
        raise Deferred(1.0) from error  # somebody entered a model of that name meanwhile: look again
    uploads.drop(name)
    log.info("%s: %d rows read", submission, contents.table.num_rows)


def _accept(submission: Submission, contents: UploadContents, artefact: Artefact, sha256: str) -> None:
    """Record the contents, and continue. In the caller's transaction."""
    payload = submission.payload | contents.payload
    file = {"file": payload["file"]["name"], "file_sha256": sha256}
    payload["provenance"] = contents.provenance | file
    submission.payload, submission.report, submission.artefact = payload, contents.report, artefact
    submission.save(update_fields=["payload", "report", "artefact"])
    tool_words = [contents.provenance[name] for name in ("tool", "tool_version") if name in contents.provenance]
    say(
        submission,
        f"The file is good: {contents.table.num_rows:,} rows{' of ' + ' '.join(tool_words) if tool_words else ''}.",
    )
    lifecycle.take(submission)


def refuse(submission: Submission, lease: Lease, reason: str, report: dict[str, Any] | None = None) -> None:
    """Refuse the submission and delete its upload. Raises LeaseLost."""
    name = submission.upload.name
    with transaction.atomic():
        lease.finish()
        _refuse(submission, reason, report or {})
    uploads.drop(name)


def refuse_and_keep(submission: Submission, lease: Lease, reason: str) -> None:
    """Refuse the submission and keep its upload for KEPT_DAYS: it may be sound and can be read again."""
    with transaction.atomic():
        if not lease.work.release(lease.id, Work.State.FAILED, reason=reason[:1000], fault=failures.NOT_READ):
            raise LeaseLost
        _refuse(submission, reason, {}, keep=True)


def _refuse(submission: Submission, reason: str, report: dict[str, Any], *, keep: bool = False) -> None:
    if submission.move(State.REFUSED, reason=reason, report=report, ended_at=Now()):
        record(AuditVerb.REFUSE_SUBMISSION, str(submission), {"reason": reason, "problems": report.get("counts", {})})
    if not keep:
        Submission.objects.filter(pk=submission.pk).update(upload="")


def refuse_unreadable() -> None:
    """Refuse the submissions whose reading failed for a reason outside the file.

    The uploads stay, so their submitters can retry.
    """
    each_alone(_refuse_unread, Reading.objects.filter(state=Work.State.FAILED, submission__state=State.CHECKING))


@transaction.atomic
def _refuse_unread(reading: Reading) -> None:
    submission = lock_submission(reading.submission_id)
    reading.refresh_from_db()
    if reading.state == Work.State.FAILED:  # else its submitter has retried it
        reason = f"{READING_GAVE_UP} What happened: {failures.redact(reading.reason)}"
        _refuse(submission, reason[:1000], {}, keep=True)


def forget_unwanted() -> None:
    """Delete the outputs of submissions that were refused or withdrawn before their model was entered."""
    unwanted_rows = Submission.objects.filter(state__in=[State.REFUSED, State.WITHDRAWN], model=None)

    def forget_outputs(submission: Submission) -> None:
        artefact = submission.artefact
        is_unwanted = unwanted_rows.filter(pk=submission.pk).update(artefact=None)
        if artefact and is_unwanted:  # else its submitter has retried it
            artefacts.forget(artefact)

    each_alone(forget_outputs, unwanted_rows.exclude(artefact=None).select_related("artefact"))


def forget_refused_uploads() -> None:
    """Delete the uploads that were refused and kept, once they are withdrawn, or nobody retried them for KEPT_DAYS."""
    is_old = Q(state=State.REFUSED, ended_at__lt=from_now(-86_400 * KEPT_DAYS))
    old_rows = Submission.objects.filter(is_old | Q(state=State.WITHDRAWN)).exclude(upload="")

    def forget_upload(submission: Submission) -> None:
        name = submission.upload.name
        if old_rows.filter(pk=submission.pk).update(upload=""):  # else its submitter has retried it
            say(submission, "Its file, which was kept for a retry, is deleted.")
            uploads.drop(name)

    each_alone(forget_upload, old_rows.filter(reading__state=Work.State.FAILED))


def _copy_upload(name: str, path: Path, lease: Lease) -> str:
    """Copy a stored file to `path`, where a cage may read it; returns its sha256 in hex digits."""
    digest = hashlib.sha256()
    with board_storage().open(name, "rb") as source, path.open("wb") as target:
        while piece := source.read(PIECE):
            lease.check()
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()
