"""Rescoring: all entries of a metric under a new version, from what was collected; published whole or not at all."""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from leaderboard.models import (
    ControlCheck,
    ControlSet,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Rescoring,
    Run,
    Scoring,
    Work,
)
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.failure_kinds import BOARD_FAULTS, kind_of
from leaderboard.services.failures import shown
from leaderboard.services.locks import lock_metric, lock_rescoring
from leaderboard.services.metrics import check_labels
from leaderboard.services.publish import publish_standings
from leaderboard.services.queue import enqueue
from leaderboard.services.scorers import cost_of, fingerprint_under, problem_with
from leaderboard.services.submission_log import say_to_version
from leaderboard.services.versions import known_fingerprint, newest_version, next_epoch, next_number
from scoring.drift import rule
from scoring.scorers import is_scorer

log = logging.getLogger(__name__)


def given_up(prefix: str = "") -> Q:
    """Work that comes to nothing for reasons of its own: cancelled, or failed for what is no failure of the board."""
    failed = Q(**{f"{prefix}state": Work.State.FAILED}) & ~Q(**{f"{prefix}fault__in": BOARD_FAULTS})
    return failed | Q(**{f"{prefix}state": Work.State.CANCELLED})


class CannotRescore(ValueError):
    """The request makes no sense now; the message says why and what to do."""


@dataclass(frozen=True)
class Estimate:
    """What a rescoring costs: entries, texts after de-duplication within each, seconds of scoring, days of quota."""

    entries: int
    texts: int
    seconds: float
    api_days: float | None


def estimate(metric: Metric) -> Estimate:
    """Of all that a rescoring would score, from what scoring it took; what was not scored yet takes what others took.

    Raises CannotRescore where there is no version to leave.
    """
    version = version_to_leave(metric)
    left = [version, *(of.to_version for of in Rescoring.objects.active().filter(metric=metric))]
    chosen = [of for of in entries_of(left) if of.run is not None and can_be_had(version, of.run)]
    scored = [of for of in chosen if of.state == Work.State.DONE]
    others = len(chosen) / len(scored) if scored else 0.0
    texts, seconds = round(sum(of.total for of in scored) * others), sum(of.seconds for of in scored) * others
    cost = cost_of(version.scorer)
    return Estimate(len(chosen), texts, seconds, None if cost is None else texts * cost.seconds / 86_400)


def version_to_leave(metric: Metric) -> MetricVersion:
    """The version that a rescoring starts from: the one that readers see."""
    current = metric.current_version()
    if current is None:
        raise CannotRescore(f"{metric.slug} has no measured version yet: evaluate a model under it first")
    return current


@transaction.atomic
def open_rescoring(
    metric: Metric,
    reason: str,
    *,
    check: ControlCheck | None = None,
    user: User | None = None,
    scorer: str = "",
    labels: dict[str, str] | None = None,
    by_upgrade: bool = False,
) -> Rescoring:
    """Open a new version of `metric` and queue all entries under it; a rescoring under way is given up for this one.

    `check`: the control check that found the drift. `scorer`: of the new version, where it is another one; `labels`:
    what its labels mean, in place of what was declared. `by_upgrade`: it is the code that changed, and nobody asked.
    Outputs are collected anew where it is likelihoods that drifted: then what changed is how models are run, and what
    was collected before cannot be scored into comparable numbers. Raises CannotRescore; CannotDeclare where the labels
    do not fit the scorer.
    """
    if not reason.strip():
        raise CannotRescore("reason: it is empty; say why, the record shows it for ever")
    if scorer and not (metric.formula.asks_scorer and is_scorer(scorer)):
        raise CannotRescore(f"scorer = {scorer!r}: {metric.slug} cannot be scored with it")
    problem = problem_with(scorer or metric.scorer)
    if problem:
        raise CannotRescore(f"scorer = {scorer or metric.scorer!r} is {problem.state}: {problem}")
    metric = lock_metric(metric.pk)
    current = version_to_leave(metric)
    before = newest_version(metric) or current
    if labels or scorer not in ("", before.scorer):
        check_labels(scorer or metric.scorer, labels or {})
        Metric.objects.filter(pk=metric.pk).update(labels=labels or {})
    left = [current]
    for active in Rescoring.objects.active().filter(metric=metric).select_related("to_version"):
        left.append(active.to_version)
        end(active, f"given up for a newer version: {reason}", user, go_back=False)
    version = open_version(metric, left[-1], check, scorer)
    rescoring = Rescoring.objects.create(
        metric=metric,
        from_version=current,
        to_version=version,
        reason=reason,
        by_upgrade=by_upgrade,
        requested_by=user,
    )
    queue_entries(version, left, reason)
    note_progress(rescoring)
    cause = "The scorer drifted" if check else "Plumbline was upgraded" if by_upgrade else "An operator asked for it"
    say_to_version(version, f"{cause}: all entries of {metric.title} are scored again, as version {version.number}.")
    record(
        "open rescoring",
        f"metric {metric.slug}",
        {"from": current.number, "to": version.number, "reason": reason, "entries": rescoring.total},
        user,
    )
    transaction.on_commit(lambda: send(version))
    transaction.on_commit(lambda: advance(rescoring))  # there may be nothing to wait for
    return rescoring


def open_version(metric: Metric, before: MetricVersion, check: ControlCheck | None, scorer: str) -> MetricVersion:
    """The candidate after `before`; its control set comes with its opening, or with outputs that stay."""
    formula = metric.formula
    epoch = next_epoch(before.protocol) if check and not formula.asks_scorer else before.epoch
    number, scorer = next_number(metric), scorer or before.scorer
    found = fingerprint_under(scorer, number, check.fingerprint) if check and formula.asks_scorer else ""
    version = MetricVersion.objects.create(
        metric=metric,
        number=number,
        protocol=before.protocol,
        scorer=scorer,
        scorer_fingerprint=found if formula.asks_scorer else known_fingerprint(scorer, formula, epoch),
        formula_version=formula.version,
        epoch=epoch,
        opened_because=check,
    )
    if not check and not formula.asks_scorer:
        keep_control_set(before, version)
    return version


def keep_control_set(before: MetricVersion, version: MetricVersion) -> None:
    """Give `version`, which scores outputs that were collected for `before`, the control set that they were made with.

    A new one would take how likelihoods are computed now for how they were computed then.
    """
    control = ControlSet.objects.filter(metric_version=before, check_version=rule.CHECK_VERSION).first()
    if control and version.epoch == before.epoch:
        control.pk = None
        control.metric_version = version
        control.save(force_insert=True)


def entries_of(left: list[MetricVersion]) -> list[Scoring]:
    """The newest scoring of each model that has or awaits numbers under one of the versions, or is outdated there.

    What a person cancelled is none: nobody waits for it.
    """
    outdated = OutdatedEntry.objects.filter(metric_version__in=left).values("last_scoring")
    entries: dict[int, Scoring] = {}
    for scoring in (
        Scoring.objects.filter(Q(metric_version__in=left) | Q(pk__in=outdated))
        .exclude(model__access=LanguageModel.Access.WITHDRAWN)
        .select_related("model", "run")
        .order_by("metric_version__number")
    ):
        entries[scoring.model_id] = scoring
    return [of for of in entries.values() if not is_given_up(of)]


def is_given_up(scoring: Scoring) -> bool:
    """Whether a person cancelled the scoring, or the run that it waits for."""
    return scoring.was_given_up() or (scoring.run is not None and scoring.run.was_given_up())


def queue_entries(version: MetricVersion, left: list[MetricVersion], reason: str) -> None:
    """A scoring under `version` for every entry of the versions that are left, or why there cannot be one.

    Entries that are outdated under one of them are entries still.
    """
    for scoring in entries_of(left):
        if scoring.run is None:
            leave_behind(version, scoring, "nothing is kept of its outputs")
            continue
        run = run_for(version, scoring.run)
        if run is None:
            leave_behind(version, scoring, f"its outputs cannot be collected anew: {why_not_anew(scoring.model)}")
            continue
        Scoring.objects.create(model=scoring.model, metric_version=version, run=run)
    unfinished = Scoring.objects.filter(metric_version__in=left).unfinished()
    unfinished.update(
        state=Work.State.CANCELLED,
        lease=None,
        lease_expires_at=None,
        reason=f"moved to {version}: {reason}"[:500],
        finished_at=timezone.now(),
    )
    drop_runs(left, version)


def can_be_had(version: MetricVersion, run: Run) -> bool:
    """Whether outputs can be scored under `version`: they are of its epoch, or can be collected anew."""
    return run.epoch == version.epoch or LanguageModel.objects.evaluable().filter(pk=run.model_id).exists()


def run_for(version: MetricVersion, run: Run) -> Run | None:
    """The outputs to score: those there are, or a new run where a new epoch begins; None if none can be had."""
    if run.epoch == version.epoch:
        return run
    if not can_be_had(version, run):
        return None
    return Run.objects.get_or_create(model=run.model, protocol=version.protocol, epoch=version.epoch)[0]


def why_not_anew(model: LanguageModel) -> str:
    """Why no run of the model can be had."""
    if model.access == LanguageModel.Access.OPEN and model.source == LanguageModel.Source.UPLOADED:
        return "they were made elsewhere; who sent them may send new ones"
    return f"the model is {model.access}"


def drop_runs(left: list[MetricVersion], stays: MetricVersion) -> None:
    """Collect no longer what only the versions that are `left` waited for: outputs of an epoch that is not that of
    `stays`."""
    wanted = Scoring.objects.unfinished().filter(run__isnull=False).values("run")
    epochs = [version for version in left if version.epoch != stays.epoch]
    unwanted = Run.objects.unfinished().filter(scorings__metric_version__in=epochs).exclude(pk__in=wanted)
    Run.objects.unfinished().filter(pk__in=list(unwanted.values_list("pk", flat=True))).update(
        state=Work.State.CANCELLED,
        lease=None,
        lease_expires_at=None,
        held=False,
        reason=f"collected anew for {stays}",
        finished_at=timezone.now(),
    )


def leave_behind(version: MetricVersion, scoring: Scoring, reason: str) -> None:
    """Note that an entry could not be scored under `version`, and show its newest published numbers as outdated.

    Every reader sees the reason: it goes without paths and addresses of this installation.
    """
    finished = Scoring.objects.filter(
        model=scoring.model,
        metric_version__metric=version.metric,
        metric_version__provenance=Provenance.MEASURED,
        metric_version__status__in=[MetricVersion.Status.CURRENT, MetricVersion.Status.SUPERSEDED],
        state=Work.State.DONE,
    ).exclude(metric_version=version)
    last = finished.order_by("-metric_version__number").first()
    if last:
        OutdatedEntry.objects.get_or_create(
            metric_version=version, model=scoring.model, defaults={"last_scoring": last, "reason": shown(reason)}
        )


def send(version: MetricVersion) -> None:
    """Tell the workers of all that waits under `version`: runs first, where there are new ones."""
    for run in Run.objects.filter(scorings__metric_version=version).unclaimed():
        if not enqueue(run):
            return
    for scoring in version.scorings.filter(run__state=Work.State.DONE).unclaimed():
        if not enqueue(scoring):
            return


def note_progress(rescoring: Rescoring) -> int:
    """Write how many entries are done; returns how many are still to come."""
    scorings = rescoring.to_version.scorings
    ended = Q(state=Work.State.DONE) | given_up() | given_up("run__")
    counted = scorings.aggregate(total=Count("pk"), ended=Count("pk", filter=ended))
    Rescoring.objects.filter(pk=rescoring.pk).update(done=counted["ended"], total=counted["total"])
    rescoring.refresh_from_db()
    left: int = counted["total"] - counted["ended"]
    return left


def advance(rescoring: Rescoring) -> bool:
    """Publish the new version if nothing of it is still to come; says whether it did. Safe to call at any time."""
    with transaction.atomic():
        lock_metric(rescoring.metric_id)  # no model lands in a version as it is given up
        rescoring = lock_rescoring(rescoring.pk)
        if rescoring.state != Rescoring.State.RUNNING or note_progress(rescoring):
            return False
        version = rescoring.to_version
        if version.formula_version > version.metric.formula.version:
            return False  # newer code publishes it
        missing = version.scorings.filter(given_up() | given_up("run__")).exclude(state=Work.State.DONE)
        for scoring in missing.select_related("model", "run"):
            ended = scoring.state in (Work.State.FAILED, Work.State.CANCELLED)
            reason = scoring.reason if ended or scoring.run is None else scoring.run.reason
            leave_behind(version, scoring, reason or "it was cancelled")
        if not version.scorings.filter(state=Work.State.DONE).exists():
            end(rescoring, "not one entry could be scored: see the reasons of the entries")
            return False
        publish_standings(version)
        rescoring.move(Rescoring.State.PUBLISHED, finished_at=timezone.now())
        record_publication(rescoring)
        Metric.objects.filter(pk=version.metric_id).update(scorer=version.scorer)  # where another one took over
        log.info("%s: published, %d entries", version, rescoring.total)
    return True


def record_publication(rescoring: Rescoring) -> None:
    """Write into the audit trail what readers see change with the new version."""
    version = rescoring.to_version
    subject, number = f"metric {version.metric.slug}", {"version": version.number}
    if version.metric.scorer != version.scorer:
        other = {"from": version.metric.scorer, "to": version.scorer, "reason": rescoring.reason}
        record("replace scorer", subject, number | other)
    outdated = dict(version.outdated.values_list("model__slug", "reason"))
    if outdated:
        record("leave outdated", subject, number | {"reasons": outdated})
    record("publish version", subject, number | {"entries": rescoring.total, "outdated": len(outdated)})


def advance_all() -> None:
    """Publish what is complete: for when the worker that finished the last entry died on the way."""
    each_alone(advance, Rescoring.objects.filter(state=Rescoring.State.RUNNING))


def waits_on(rescoring: Rescoring) -> list[str]:
    """What keeps the new version from being published though the board is at fault, in sentences; empty if nothing."""
    entries = rescoring.to_version.scorings.exclude(state=Work.State.DONE).order_by()
    waiting = entries.filter(Q(fault__in=BOARD_FAULTS) | Q(run__fault__in=BOARD_FAULTS))
    faults = [fault or of_run for fault, of_run in waiting.values_list("fault", "run__fault")]
    blocked = Counter(kind_of(fault).label.lower() for fault in faults)
    return [f"{plural(count, 'entry waits', 'entries wait')}: {label}." for label, count in blocked.items()]


def plural(count: int, one: str, many: str) -> str:
    """A number with the word for so many."""
    return f"{count:,} {one if count == 1 else many}"


def pause(rescoring: Rescoring, user: User | None = None) -> bool:
    """Stop after the shards under way; says whether there was something to pause."""
    return _hold(rescoring, Rescoring.State.PAUSED, user)


def resume(rescoring: Rescoring, user: User | None = None) -> bool:
    """Go on where a pause began."""
    resumed = _hold(rescoring, Rescoring.State.RUNNING, user)
    if resumed:
        send(rescoring.to_version)
        advance(rescoring)
    return resumed


@transaction.atomic
def _hold(rescoring: Rescoring, state: str, user: User | None) -> bool:
    before = rescoring.state
    moved = before != state and rescoring.move(state)
    if moved:
        held = state == Rescoring.State.PAUSED
        rescoring.to_version.scorings.unfinished().update(held=held)
        if rescoring.to_version.epoch != rescoring.from_version.epoch:  # else runs may be for other metrics too
            Run.objects.filter(scorings__metric_version=rescoring.to_version).unfinished().update(held=held)
        numbers = {"from": rescoring.from_version.number, "to": rescoring.to_version.number}
        change = {"state": before}, {"state": state}
        verb = "pause rescoring" if held else "resume rescoring"
        record(verb, f"metric {rescoring.metric.slug}", numbers, user, change)
    return moved


@transaction.atomic
def cancel(rescoring: Rescoring, user: User | None = None) -> bool:
    """Give the rescoring up: readers keep the version they see. Says whether there was something to cancel."""
    lock_metric(rescoring.metric_id)
    return end(rescoring, "the rescoring was cancelled", user)


def end(rescoring: Rescoring, reason: str, user: User | None = None, *, go_back: bool = True) -> bool:
    """End a rescoring without publishing: its version is retired, and what waits under it is cancelled.

    Where readers keep the version they see (`go_back`), models that are not in it wait for their place there again.
    """
    before = rescoring.state
    if not rescoring.move(Rescoring.State.CANCELLED, finished_at=timezone.now()):
        return False
    version = rescoring.to_version
    MetricVersion.objects.filter(pk=version.pk).update(status=MetricVersion.Status.RETIRED)
    version.scorings.unfinished().update(
        state=Work.State.CANCELLED,
        lease=None,
        lease_expires_at=None,
        held=False,
        reason=reason[:500],
        finished_at=timezone.now(),
    )
    if go_back:
        send_back(rescoring)
        drop_runs([version], rescoring.from_version)
    numbers = {"from": rescoring.from_version.number, "to": version.number}
    change = {"state": before}, {"state": rescoring.state}
    record("cancel rescoring", f"metric {version.metric.slug}", numbers | {"reason": reason}, user, change)
    return True


@dataclass(frozen=True)
class GoingBack:
    """What giving a rescoring up means for the models that are not in the version that stays.

    waiting: scorings under the version given up, of models that wait for a place in the one that stays. left: of
    models that somebody had cancelled, which stay cancelled.
    """

    waiting: list[Scoring]
    left: list[Scoring]


def going_back(rescoring: Rescoring) -> GoingBack:
    """Which entries came to the new version while it was new, or were moved there, and what becomes of them."""
    stays = rescoring.from_version
    placed = stays.scorings.filter(state__in=[Work.State.DONE, Work.State.FAILED]).values("model")
    arrived = rescoring.to_version.scorings.exclude(state=Work.State.FAILED).exclude(run__state=Work.State.FAILED)
    before = {of.model_id: of for of in stays.scorings.select_related("run")}
    found = GoingBack([], [])
    for scoring in arrived.exclude(model__in=placed).select_related("model", "run"):
        given_up = is_given_up(scoring) or (scoring.model_id in before and is_given_up(before[scoring.model_id]))
        (found.left if given_up else found.waiting).append(scoring)
    return found


def send_back(rescoring: Rescoring) -> None:
    """Queue, under the version that stays, what `going_back` says waits for it."""
    stays = rescoring.from_version
    evaluable = set(LanguageModel.objects.evaluable().values_list("pk", flat=True))
    for scoring in going_back(rescoring).waiting:
        run = Run.objects.filter(model=scoring.model, protocol=stays.protocol, epoch=stays.epoch).first()
        if scoring.model_id not in evaluable and (run is None or run.state != Work.State.DONE):
            continue
        if run is not None and run.was_given_up():
            continue
        run = run or Run.objects.create(model=scoring.model, protocol=stays.protocol, epoch=stays.epoch)
        again, _ = Scoring.objects.get_or_create(model=scoring.model, metric_version=stays, defaults={"run": run})
        for work in (run, again):
            work.queue_again()
    transaction.on_commit(lambda: send(stays))


def time_left(rescoring: Rescoring) -> timedelta | None:
    """Estimated from the entries scored so far; None before there is a pace, and when it does not run."""
    if rescoring.state != Rescoring.State.RUNNING:
        return None
    share = rescoring.done / rescoring.total if rescoring.total else 0.0
    if not share:
        return None
    elapsed = timezone.now() - rescoring.created_at
    return timedelta(seconds=round(elapsed.total_seconds() * (1 - share) / share))
