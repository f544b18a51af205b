"""Steering single pieces of work: trying again what failed or was cancelled, and giving up what is under way."""

from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from leaderboard.models import LanguageModel, MetricVersion, Rescoring, Run, Scoring, Work
from leaderboard.services import downloads
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics
from leaderboard.services.queue import enqueue
from leaderboard.services.rescore import advance
from leaderboard.services.scorers import problem_with

OPEN = (MetricVersion.Status.CANDIDATE, MetricVersion.Status.CURRENT)
GONE = (Work.State.FAILED, Work.State.CANCELLED)
UNDER_WAY = (Work.State.QUEUED, Work.State.RUNNING)


class CannotSteer(ValueError):
    """The work cannot be retried or cancelled now; the message says why and what to do."""


def name_of(work: Run | Scoring) -> str:
    """What the audit trail calls it, as in `run 12` and `scoring 7`."""
    return f"{work._meta.model_name} {work.pk}"


@transaction.atomic
def retry(work: Run | Scoring, user: User | None = None) -> None:
    """Queue again what failed or was cancelled, from its last checkpoint. Raises CannotSteer.

    A scoring whose outputs were not collected either takes its run along.
    """
    metrics = {version.metric_id for version in _versions(work)}
    lock_metrics(metrics)  # or a version might close meanwhile
    work.refresh_from_db()
    if work.state not in GONE:
        state = work.get_state_display().lower()
        raise CannotSteer(f"{name_of(work)} is {state}: only failed or cancelled work is tried again")
    run = work if isinstance(work, Run) else work.run
    if run is None:
        raise CannotSteer(f"{name_of(work)} is of figures from a paper: there is nothing to score again")
    _check(work, run)
    pieces: list[Run | Scoring] = [run] if work is run else [run, work]
    for piece in pieces:
        before = {"state": piece.state, "reason": piece.reason}
        if piece.queue_again():
            change = before, {"state": piece.state, "reason": ""}
            record(f"retry {piece._meta.model_name}", name_of(piece), _about(piece), user, change)
    waiting = work if run.state == Work.State.DONE else run
    transaction.on_commit(lambda: enqueue(waiting))


def _versions(work: Run | Scoring) -> list[MetricVersion]:
    """The metric versions that wait for the work."""
    if isinstance(work, Scoring):
        return [MetricVersion.objects.select_related("metric").get(pk=work.metric_version_id)]
    waiting = work.scorings.filter(state__in=UNDER_WAY).select_related("metric_version__metric")
    return [scoring.metric_version for scoring in waiting]


def _check(work: Run | Scoring, run: Run) -> None:
    """Raise CannotSteer where trying again would come to nothing."""
    versions = [version for version in _versions(work) if version.status in OPEN]
    if not versions:
        what = "retry its scoring, which takes the run along, or " if work is run else ""
        raise CannotSteer(
            f"{name_of(work)}: no metric version that is open waits for it; {what}evaluate {work.model.slug} anew, "
            "which scores it under the newest version"
        )
    if work.model.access == LanguageModel.Access.WITHDRAWN:
        raise CannotSteer(f"{work.model.slug} is withdrawn: open it again first")
    if run.state != Work.State.DONE and not LanguageModel.objects.evaluable().filter(pk=run.model_id).exists():
        raise CannotSteer(f"{run.model.slug} is {run.model.access}: nothing is collected from it; open it again first")
    for version in versions if isinstance(work, Scoring) else []:
        if version.metric.formula.asks_scorer and (problem := problem_with(version.scorer)):
            raise CannotSteer(f"the scorer of {version} is {problem.state}: {problem}")


@transaction.atomic
def cancel_work(work: Run | Scoring, user: User | None = None) -> None:
    """Give up what waits or runs: its worker stops at the next batch. It can be retried. Raises CannotSteer.

    A rescoring goes on without the entry, which is outdated under its new version.
    """
    before = {"state": work.state}
    by = user.get_username() if user else "the terminal"
    if not work.move(
        Work.State.CANCELLED,
        lease=None,
        lease_expires_at=None,
        held=False,
        not_before=None,
        reason=f"cancelled by {by}",
        fault=Work.CANCELLED_BY_SOMEBODY,
        finished_at=timezone.now(),
    ):
        state = work.get_state_display().lower()
        raise CannotSteer(f"{name_of(work)} is {state}: only waiting or running work is cancelled")
    record(f"cancel {work._meta.model_name}", name_of(work), _about(work), user, (before, {"state": work.state}))
    downloads.drop_unwanted()
    for rescoring in Rescoring.objects.filter(state=Rescoring.State.RUNNING, to_version__in=_versions(work)):
        transaction.on_commit(partial(advance, rescoring))


def _about(work: Run | Scoring) -> dict[str, Any]:
    """What the record says of the work beside its number."""
    what: dict[str, Any] = (
        {"evaluation_set": str(work.protocol.evaluation_set)}
        if isinstance(work, Run)
        else {"metric": work.metric_version.metric.slug, "version": work.metric_version.number}
    )
    return {"model": work.model.slug, **what}
