"""Reading what was sent, in a worker: a file is taken whole, or refused with a report and nothing else left of it."""

import hashlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from leaderboard.models import Artefact, Protocol, Reading, Submission, SubmissionLine, Work
from leaderboard.services import artefacts, cages
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate, MetricUnavailable
from leaderboard.services.failures import shown
from leaderboard.services.leases import Deferred, Lease, LeaseLost, claimed
from leaderboard.services.locks import lock_submission
from leaderboard.services.queue import enqueue
from leaderboard.services.submissions import lifecycle, outputs, tool, uploads
from leaderboard.services.submissions.refusals import SubmissionRefused
from leaderboard.services.submissions.taken import Taken
from scoring.cage import FileReader
from scoring.contributed import ContributionRefused

log = logging.getLogger(__name__)

READS: dict[str, Callable[[Submission, Protocol, FileReader], Taken]] = {
    Submission.Form.OUTPUTS: outputs.read,
    Submission.Form.TOOL: tool.read,
}
MOST_READINGS = 3  # a file that ends its worker, or fails it, so many times is refused, and kept
NOT_READ = (
    f"The file could not be read: {MOST_READINGS} attempts ended without a result. It is kept: retry it. If that ends "
    "in the same way, send a smaller one, or ask the people who run this board."
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
    """Write a line into the log that the submitter reads."""
    SubmissionLine.objects.create(submission=submission, text=text[:500])


def read(reading: Reading) -> None:
    """Read the upload of a submission, and go on with it, or refuse it.

    Safe to call twice, late, or from two workers: one claims the reading, the others return at once.
    """
    with claimed(reading) as lease:
        if lease is None:
            return
        submission, before = reading.submission, reading.attempts - 1
        if before >= MOST_READINGS:
            refuse_and_keep(submission, lease, NOT_READ)
            return
        if not before:
            say(submission, "A worker reads the file.")
        try:
            _read(submission, lease)
        except ContributionRefused as refused:
            found = refused.report
            reason = f"The file has {found.total:,} problem{'s' if found.total != 1 else ''}: see the report."
            refuse(submission, lease, reason, found.as_dict() | {"total": found.total})
        except SubmissionRefused as error:
            refuse(submission, lease, str(error))
        except MetricUnavailable:
            raise
        except CannotEvaluate as error:  # which is not for the file to mend
            refuse_and_keep(submission, lease, str(error))
    refuse_unreadable()


def _read(submission: Submission, lease: Lease) -> None:
    """Read the upload, keep what is in it, and go on. Raises what keeps it from being taken."""
    protocol = Protocol.objects.select_related("evaluation_set__artefact").get(sha256=submission.payload["protocol"])
    name = str(submission.upload.name)
    with TemporaryDirectory(prefix="plumbline-upload-") as folder:
        path = Path(folder) / "upload"
        sha256 = _copy(name, path, lease)
        with cages.open_upload(path, lease) as reader:
            taken = READS[submission.form](submission, protocol, reader)
    lease.check()
    artefact = artefacts.store(taken.table, taken.kind)
    try:
        with transaction.atomic():
            lease.finish(done=lease.work.total)
            submission = lock_submission(submission.pk)
            if submission.state == Submission.State.CHECKING:
                _take(submission, taken, artefact, sha256)
            else:  # withdrawn meanwhile
                transaction.on_commit(partial(forget, artefact))
            Submission.objects.filter(pk=submission.pk).update(upload="")
    except (CannotEvaluate, IntegrityError) as error:
        forget(artefact)
        if isinstance(error, CannotEvaluate):
            raise
        raise Deferred(1.0) from error  # somebody entered a model of that name at this moment: look again
    uploads.drop(name)
    log.info("%s: %d rows read", submission, taken.table.num_rows)


def _take(submission: Submission, taken: Taken, artefact: Artefact, sha256: str) -> None:
    """Note what was taken, and go on. In the caller's transaction."""
    payload = submission.payload | taken.payload
    file = {"file": payload["file"]["name"], "file_sha256": sha256}
    payload["provenance"] = taken.provenance | file
    submission.payload, submission.report, submission.artefact = payload, taken.report, artefact
    submission.save(update_fields=["payload", "report", "artefact"])
    said = [taken.provenance[name] for name in ("tool", "tool_version") if name in taken.provenance]
    say(submission, f"The file is good: {taken.table.num_rows:,} rows{' of ' + ' '.join(said) if said else ''}.")
    lifecycle.take(submission)


def refuse(submission: Submission, lease: Lease, reason: str, report: dict[str, Any] | None = None) -> None:
    """Refuse what was sent; the upload is deleted. Raises LeaseLost."""
    name = submission.upload.name
    with transaction.atomic():
        lease.finish()
        _refuse(submission, reason, report or {})
    uploads.drop(name)


def refuse_and_keep(submission: Submission, lease: Lease, reason: str) -> None:
    """Refuse what was sent though nothing is known to be wrong with it: the upload stays, and can be read again."""
    with transaction.atomic():
        if not lease.work.release(lease.id, Work.State.FAILED, reason=reason[:1000], fault="NotRead"):
            raise LeaseLost
        _refuse(submission, reason, {}, keep=True)


def _refuse(submission: Submission, reason: str, report: dict[str, Any], *, keep: bool = False) -> None:
    if submission.move(Submission.State.REFUSED, reason=reason, report=report, ended_at=timezone.now()):
        record("refuse submission", str(submission), {"reason": reason, "problems": report.get("counts", {})})
    if not keep:
        Submission.objects.filter(pk=submission.pk).update(upload="")


def refuse_unreadable() -> None:
    """Refuse what no worker could read, where something failed for good, or too often, that is not the file.

    The uploads stay: their submitters can retry.
    """
    gone = Reading.objects.filter(state=Work.State.FAILED, submission__state=Submission.State.CHECKING)
    each_alone(_refuse_unread, gone.select_related("submission__submitter"))


def _refuse_unread(reading: Reading) -> None:
    with transaction.atomic():
        _refuse(reading.submission, f"{NOT_READ} What happened: {shown(reading.reason)}"[:1000], {}, keep=True)


def forget_unwanted() -> None:
    """Delete outputs whose submission ended before the model was entered: refused by a moderator, or withdrawn."""
    ended = Submission.objects.filter(state__in=[Submission.State.REFUSED, Submission.State.WITHDRAWN], model=None)
    each_alone(_forget_outputs, ended.exclude(artefact=None).select_related("artefact"))


def _forget_outputs(submission: Submission) -> None:
    artefact = submission.artefact
    Submission.objects.filter(pk=submission.pk).update(artefact=None)
    if artefact:
        forget(artefact)


def forget(artefact: Artefact) -> None:
    """Delete outputs that nothing refers to."""
    try:
        with transaction.atomic():
            artefact.delete()
    except (ProtectedError, IntegrityError):
        return
    default_storage.delete(artefact.storage_name)


def _copy(name: str, path: Path, lease: Lease) -> str:
    """Copy a stored file to where a cage may read it; returns its sha256 in hex digits."""
    digest = hashlib.sha256()
    with default_storage.open(name, "rb") as stored, path.open("wb") as copy:
        while piece := stored.read(PIECE):
            lease.check()
            digest.update(piece)
            copy.write(piece)
    return digest.hexdigest()
