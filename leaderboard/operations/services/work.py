"""Retry failed or cancelled work, and cancel work that is under way."""

from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, LanguageModel, MetricVersion, Rescoring, Run, Scoring, Work
from leaderboard.services import downloads
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics
from leaderboard.services.queue import enqueue
from leaderboard.services.rescore import advance
from leaderboard.services.scorers import problem_with
from leaderboard.services.versions import hold_paused_work
from scoring.refusals import Refused

OPEN = (MetricVersion.Status.CANDIDATE, MetricVersion.Status.CURRENT)
GONE = (Work.State.FAILED, Work.State.CANCELLED)
UNDER_WAY = (Work.State.QUEUED, Work.State.RUNNING)
RETRIES = {Run: AuditVerb.RETRY_RUN, Scoring: AuditVerb.RETRY_SCORING}
CANCELS = {Run: AuditVerb.CANCEL_RUN, Scoring: AuditVerb.CANCEL_SCORING}


def name_of(work: Run | Scoring) -> str:
    """Return the name of the work in the audit trail, as in `run 12` and `scoring 7`."""
    return f"{work.kind.key} {work.pk}"


@transaction.atomic
def retry(work: Run | Scoring, user: User | None = None) -> None:
    """Queue failed or cancelled work again, from its last checkpoint. Raises Refused.

    A scoring whose outputs were not collected either takes its run along.
    """
    metrics = {version.metric_id for version in _versions(work)}
    lock_metrics(metrics)  # or a version might close meanwhile
    work.refresh_from_db()
    if work.state not in GONE:
        state = work.get_state_display().lower()
        raise Refused(f"{name_of(work)} is {state}: only failed or cancelled work is tried again")
    run = work if isinstance(work, Run) else work.run
    if run is None:
        raise Refused(f"{name_of(work)} is of figures from a paper: there is nothing to score again")
    _check(work, run)
    pieces: list[Run | Scoring] = [run] if work is run else [run, work]
    for piece in pieces:
        old_values = {"state": piece.state, "reason": piece.reason}
        if piece.queue_again():
            change = old_values, {"state": piece.state, "reason": ""}
            record(RETRIES[type(piece)], name_of(piece), _describe_work(piece), user, change)
    hold_paused_work(_versions(work))
    next_work = work if run.state == Work.State.DONE else run
    transaction.on_commit(lambda: enqueue(next_work))


def _versions(work: Run | Scoring) -> list[MetricVersion]:
    """List the metric versions that wait for the work."""
    if isinstance(work, Scoring):
        return [MetricVersion.objects.select_related("metric").get(pk=work.metric_version_id)]
    scorings = work.scorings.filter(state__in=UNDER_WAY).select_related("metric_version__metric")
    return [scoring.metric_version for scoring in scorings]


def _check(work: Run | Scoring, run: Run) -> None:
    """Raise Refused if a retry would be in vain."""
    versions = [version for version in _versions(work) if version.status in OPEN]
    if not versions:
        advice = "retry its scoring, which takes the run along, or " if work is run else ""
        raise Refused(
            f"{name_of(work)}: no metric version that is open waits for it; {advice}evaluate {work.model.slug} anew, "
            "which scores it under the newest version"
        )
    if work.model.access == LanguageModel.Access.WITHDRAWN:
        raise Refused(f"{work.model.slug} is withdrawn: open it again first")
    if run.state != Work.State.DONE and not LanguageModel.objects.evaluable().filter(pk=run.model_id).exists():
        raise Refused(f"{run.model.slug} is {run.model.access}: nothing is collected from it; open it again first")
    for version in versions if isinstance(work, Scoring) else []:
        if version.asked_scorer and (problem := problem_with(version.scorer)):
            raise Refused(f"the scorer of {version} is {problem.state}: {problem}")


@transaction.atomic
def cancel_work(work: Run | Scoring, user: User | None = None) -> None:
    """Cancel waiting or running work: its worker stops at the next batch. It can be retried. Raises Refused.

    A rescoring goes on without the entry, which is outdated under its new version.
    """
    old_values = {"state": work.state}
    person = user.get_username() if user else "the terminal"
    count = type(work).objects.filter(pk=work.pk).cancel(f"cancelled by {person}", by_person=True)
    work.refresh_from_db()
    if not count:
        state = work.get_state_display().lower()
        raise Refused(f"{name_of(work)} is {state}: only waiting or running work is cancelled")
    record(CANCELS[type(work)], name_of(work), _describe_work(work), user, (old_values, {"state": work.state}))
    downloads.drop_unwanted()
    for rescoring in Rescoring.objects.filter(state=Rescoring.State.RUNNING, to_version__in=_versions(work)):
        transaction.on_commit(partial(advance, rescoring))


def _describe_work(work: Run | Scoring) -> dict[str, Any]:
    """Return the details of the work for the audit trail."""
    details: dict[str, Any] = (
        {"evaluation_set": str(work.protocol.evaluation_set)}
        if isinstance(work, Run)
        else {"metric": work.metric_version.metric.slug, "version": work.metric_version.number}
    )
    return {"model": work.model.slug, **details}
