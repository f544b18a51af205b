"""Rescoring: all entries of a metric under a new version, from what was collected; published whole or not at all."""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from leaderboard.models import (
    Artefact,
    AuditVerb,
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
from leaderboard.models.clock import database_now
from leaderboard.services.alone import each_alone
from leaderboard.services.artefacts import ArtefactLost, note_loss, verify_stored
from leaderboard.services.audit import record
from leaderboard.services.failures import BOARD_FAULTS, failure_called, redact
from leaderboard.services.locks import lock_metric, lock_rescoring
from leaderboard.services.metrics import check_labels
from leaderboard.services.publish import publish_standings
from leaderboard.services.queue import enqueue
from leaderboard.services.scorers import cost_of, find_end, fingerprint_under, problem_with
from leaderboard.services.submission_log import say_to_version
from leaderboard.services.versions import find_rescoring, hold_work, newest_version, next_epoch, next_number
from scoring.drift import rule
from scoring.refusals import Refused
from scoring.scorers import is_scorer

log = logging.getLogger(__name__)


def given_up(prefix: str = "") -> Q:
    """Work that ended without numbers for a reason of its own: cancelled, or failed without a fault of the board."""
    failure = Q(**{f"{prefix}state": Work.State.FAILED}) & ~Q(**{f"{prefix}fault__in": BOARD_FAULTS})
    return failure | Q(**{f"{prefix}state": Work.State.CANCELLED})


@dataclass(frozen=True)
class CostEstimate:
    """What a rescoring costs: entries, texts after de-duplication within each, seconds of scoring, days of quota.

    usd: its fee; None where it has none, or nobody declared one.
    """

    entries: int
    texts: int
    seconds: float
    api_days: float | None
    usd: float | None


def estimate(metric: Metric, scorer: str = "") -> CostEstimate:
    """The cost of a rescoring, from what the scored entries took; entries without a scoring count as the average.

    `scorer`: of the new version, where it is another one: the quota and the fee are of that one.
    Raises Refused where there is no version to leave.
    """
    version, active = version_to_leave(metric), find_rescoring(metric)
    old_versions = [version, active.to_version] if active else [version]
    entries = [entry for entry in entries_of(old_versions) if entry.run is not None and can_be_had(version, entry.run)]
    scored_entries = [entry for entry in entries if entry.state == Work.State.DONE]
    scale = len(entries) / max(1, len(scored_entries))
    texts, seconds = (
        round(sum(entry.total for entry in scored_entries) * scale),
        sum(entry.seconds for entry in scored_entries) * scale,
    )
    cost = cost_of(scorer or version.scorer)
    days = None if cost is None else texts * cost.seconds / 86_400
    return CostEstimate(len(entries), texts, seconds, days, texts * cost.usd if cost and cost.usd else None)


def version_to_leave(metric: Metric) -> MetricVersion:
    """The version that a rescoring starts from: the one that readers see."""
    current = metric.current_version()
    if current is None:
        raise Refused(f"{metric.slug} has no measured version yet: evaluate a model under it first")
    return current


def refuse_unseen(metric: Metric, seen_key: str) -> None:
    """Raise Refused where a rescoring is under way that whoever asks for another one has not seen.

    seen_key: that of the one they saw, "" for none. In a transaction: none is opened until it ends.
    """
    lock_metric(metric.pk)
    active = find_rescoring(metric)
    if active and str(active.pk) != seen_key:
        raise Refused(
            f"{metric.slug} is being rescored by now, as version {active.to_version.number}: wait for it, or send this "
            "again to give it up for another version"
        )


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
    what its labels mean, in place of what was declared. `by_upgrade`: the code changed, and no person asked.
    Outputs are collected again where likelihoods drifted: then models are run differently, and the old outputs cannot
    give comparable numbers. Raises Refused, also where the labels do not fit the scorer.
    """
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the record shows it for ever")
    if scorer and not (metric.asked_scorer and is_scorer(scorer)):
        raise Refused.of_value("scorer", scorer, f"{metric.slug} cannot be scored with it")
    problem = problem_with(scorer or metric.scorer)
    if problem:
        raise Refused(f"scorer = {scorer or metric.scorer!r} is {problem.state}: {problem}")
    metric = lock_metric(metric.pk)
    current = version_to_leave(metric)
    newest = newest_version(metric) or current
    old_versions, former_labels = [current], metric.labels
    if labels or scorer not in ("", newest.scorer):
        check_labels(scorer or metric.scorer, labels or {})
        Metric.objects.filter(pk=metric.pk).update(labels=labels or {})
    if active := find_rescoring(metric):
        old_versions.append(active.to_version)
        former_labels = active.former_labels if active.former_labels is not None else former_labels
        end(active, f"given up for a newer version: {reason}", user, go_back=False)
    version = open_version(metric, old_versions[-1], check, scorer)
    rescoring = Rescoring.objects.create(
        metric=metric,
        from_version=current,
        to_version=version,
        reason=reason,
        by_upgrade=by_upgrade,
        former_labels=former_labels,
        requested_by=user,
    )
    queue_entries(version, old_versions, reason)
    note_progress(rescoring)
    cause = "The scorer drifted" if check else "Plumbline was upgraded" if by_upgrade else "An operator asked for it"
    say_to_version(version, f"{cause}: all entries of {metric.title} are scored again, as version {version.number}.")
    record(
        AuditVerb.OPEN_RESCORING,
        f"metric {metric.slug}",
        {"from": current.number, "to": version.number, "reason": reason, "entries": rescoring.total},
        user,
    )
    transaction.on_commit(lambda: send(version))
    transaction.on_commit(lambda: each_alone(advance, [rescoring]))  # there may be nothing to wait for
    return rescoring


def open_version(
    metric: Metric, previous_version: MetricVersion, check: ControlCheck | None, scorer: str
) -> MetricVersion:
    """The candidate after `previous_version`; its control set comes with its opening, or with outputs that stay."""
    formula = metric.formula
    epoch = next_epoch(previous_version.protocol) if check and formula.recollects else previous_version.epoch
    number, scorer = next_number(metric), scorer or previous_version.scorer
    scorer_fingerprint = formula.own_fingerprint(scorer, epoch)
    if check and not scorer_fingerprint:
        scorer_fingerprint = fingerprint_under(scorer, number, check.fingerprint)
    version = MetricVersion.objects.create(
        metric=metric,
        number=number,
        protocol=previous_version.protocol,
        chat_protocol=previous_version.chat_protocol,
        scorer=scorer,
        scorer_fingerprint=scorer_fingerprint,
        formula_version=formula.version,
        epoch=epoch,
        opened_because=check,
    )
    if not check and formula.recollects:
        keep_control_set(previous_version, version)
    return version


def keep_control_set(previous_version: MetricVersion, version: MetricVersion) -> None:
    """Give `version`, which scores outputs that were collected for the version before it, their control set.

    A new control set would measure how likelihoods are computed now, not how they were computed then.
    """
    control = ControlSet.objects.filter(metric_version=previous_version, check_version=rule.CHECK_VERSION).first()
    if control and version.epoch == previous_version.epoch:
        control.pk = None
        control.metric_version = version
        control.save(force_insert=True)


def entries_of(versions: list[MetricVersion]) -> list[Scoring]:
    """The newest scoring of each model that has or awaits numbers under one of the versions, or is outdated there.

    Scorings that a person cancelled are left out: nobody waits for them.
    """
    outdated_scorings = OutdatedEntry.objects.filter(metric_version__in=versions).values("last_scoring")
    entries: dict[int, Scoring] = {}
    for scoring in (
        Scoring.objects.filter(Q(metric_version__in=versions) | Q(pk__in=outdated_scorings))
        .exclude(model__access=LanguageModel.Access.WITHDRAWN)
        .select_related("model", "run")
        .order_by("metric_version__number")
    ):
        entries[scoring.model_id] = scoring
    return [entry for entry in entries.values() if not is_given_up(entry)]


def is_given_up(scoring: Scoring) -> bool:
    """Whether a person cancelled the scoring, or the run that it waits for."""
    return scoring.was_given_up() or (scoring.run is not None and scoring.run.was_given_up())


def queue_entries(version: MetricVersion, old_versions: list[MetricVersion], reason: str) -> None:
    """Queue a scoring under `version` for every entry of the old versions, or record why there can be none.

    Entries that are outdated under one of them count, too.
    """
    for scoring in entries_of(old_versions):
        if scoring.run is None:
            leave_behind(version, scoring, "nothing is kept of its outputs")
            continue
        run = run_for(version, scoring.run)
        if run is None:
            leave_behind(version, scoring, f"its outputs cannot be collected anew: {why_not_anew(scoring.model)}")
            continue
        Scoring.objects.create(model=scoring.model, metric_version=version, run=run)
    Scoring.objects.filter(metric_version__in=old_versions).cancel(f"moved to {version}: {reason}")
    drop_runs(old_versions, version)


def can_be_had(version: MetricVersion, run: Run) -> bool:
    """Whether outputs can be scored under `version`: they are of its epoch, or can be collected again."""
    return run.epoch == version.epoch or LanguageModel.objects.evaluable().filter(pk=run.model_id).exists()


def run_for(version: MetricVersion, run: Run) -> Run | None:
    """The outputs to score: the run itself, or a new one where a new epoch begins; None where neither is possible."""
    if run.epoch == version.epoch:
        return run
    if not can_be_had(version, run):
        return None
    return Run.objects.get_or_create(model=run.model, protocol=run.protocol, epoch=version.epoch)[0]


def why_not_anew(model: LanguageModel) -> str:
    """Why the model cannot be run again."""
    if model.access == LanguageModel.Access.OPEN and model.source == LanguageModel.Source.UPLOADED:
        return "they were made elsewhere; who sent them may send new ones"
    return f"the model is {model.access}"


def drop_runs(old_versions: list[MetricVersion], remaining_version: MetricVersion) -> None:
    """Collect no longer what only `old_versions` waited for: outputs of an epoch that is not that of
    `remaining_version`."""
    awaited_runs = Scoring.objects.unfinished().filter(run__isnull=False).values("run")
    epochs = [version for version in old_versions if version.epoch != remaining_version.epoch]
    idle_runs = Run.objects.unfinished().filter(scorings__metric_version__in=epochs).exclude(pk__in=awaited_runs)
    Run.objects.filter(pk__in=list(idle_runs.values_list("pk", flat=True))).cancel(
        f"collected anew for {remaining_version}"
    )


def leave_behind(version: MetricVersion, scoring: Scoring, reason: str) -> None:
    """Note that an entry could not be scored under `version`, and show its newest published numbers as outdated.

    Every reader sees the reason, so it names no paths and addresses of this installation.
    """
    scorings = Scoring.objects.filter(
        model=scoring.model,
        metric_version__metric=version.metric,
        metric_version__provenance=Provenance.MEASURED,
        metric_version__status__in=[MetricVersion.Status.CURRENT, MetricVersion.Status.SUPERSEDED],
        state=Work.State.DONE,
    ).exclude(metric_version=version)
    last = scorings.order_by("-metric_version__number").first()
    if last:
        OutdatedEntry.objects.get_or_create(
            metric_version=version, model=scoring.model, defaults={"last_scoring": last, "reason": redact(reason)}
        )


def send(version: MetricVersion) -> None:
    """Send messages for all work that waits under `version`, new runs first."""
    for run in Run.objects.filter(scorings__metric_version=version).unclaimed():
        if not enqueue(run):
            return
    for scoring in version.scorings.filter(run__state=Work.State.DONE).unclaimed():
        if not enqueue(scoring):
            return


def note_progress(rescoring: Rescoring) -> int:
    """Record how many entries are done; returns how many are left."""
    scorings = rescoring.to_version.scorings
    is_over = Q(state=Work.State.DONE) | given_up() | given_up("run__")
    counts = scorings.aggregate(total=Count("pk"), ended=Count("pk", filter=is_over))
    Rescoring.objects.filter(pk=rescoring.pk).update(done=counts["ended"], total=counts["total"])
    rescoring.refresh_from_db()
    remainder: int = counts["total"] - counts["ended"]
    return remainder


def advance(rescoring: Rescoring) -> bool:
    """Publish the new version once all its entries are done; returns whether it did. Safe to call at any time.

    Raises ArtefactLost where a file of an entry is lost: the version waits for it, as for entries that are not scored.
    """
    try:
        return publish_if_complete(rescoring)
    except ArtefactLost as error:
        note_loss(error)
        raise


@transaction.atomic
def publish_if_complete(rescoring: Rescoring) -> bool:
    """Publish the new version unless an entry of it is neither done nor given up; returns whether it was published."""
    lock_metric(rescoring.metric_id)  # no model lands in a version as it is given up
    rescoring = lock_rescoring(rescoring.pk)
    if rescoring.state != Rescoring.State.RUNNING or note_progress(rescoring):
        return False
    version = rescoring.to_version
    if version.formula_version > version.metric.formula.version:
        return False  # newer code publishes it
    unscored_entries = version.scorings.filter(given_up() | given_up("run__")).exclude(state=Work.State.DONE)
    if unscored_entries.exists() and (retirement := find_end(version.scorer)):
        end(rescoring, f"not all entries could be scored any more: {retirement}")
        return False
    for scoring in unscored_entries.select_related("model", "run"):
        has_ended = scoring.state in (Work.State.FAILED, Work.State.CANCELLED)
        reason = scoring.reason if has_ended or scoring.run is None else scoring.run.reason
        leave_behind(version, scoring, reason or "it was cancelled")
    if not version.scorings.filter(state=Work.State.DONE).exists():
        end(rescoring, "not one entry could be scored: see the reasons of the entries")
        return False
    for artefact in known_losses(version):  # or each look would read the files of all other entries first
        verify_stored(artefact)
    publish_standings(version, needs_all=True)
    rescoring.move(Rescoring.State.PUBLISHED, finished_at=Now())
    record_publication(rescoring)
    Metric.objects.filter(pk=version.metric_id).update(scorer=version.scorer)  # where another one took over
    log.info("%s: published, %d entries", version, rescoring.total)
    return True


def known_losses(version: MetricVersion) -> QuerySet[Artefact]:
    """Files that a publication of the version reads and that were missing or damaged at the last look."""
    scored_entries = version.scorings.filter(state=Work.State.DONE)
    files = scored_entries.values(version.metric.formula.uncertainty_file)
    return Artefact.objects.filter(pk__in=files, state__in=Artefact.LOST)


def record_publication(rescoring: Rescoring) -> None:
    """Record in the audit trail what the new version changes for readers."""
    version = rescoring.to_version
    subject, number = f"metric {version.metric.slug}", {"version": version.number}
    if version.metric.scorer != version.scorer:
        other = {"from": version.metric.scorer, "to": version.scorer, "reason": rescoring.reason}
        record(AuditVerb.REPLACE_SCORER, subject, number | other)
    outdated_reasons = dict(version.outdated.values_list("model__slug", "reason"))
    if outdated_reasons:
        record(AuditVerb.LEAVE_OUTDATED, subject, number | {"reasons": outdated_reasons})
    record(AuditVerb.PUBLISH_VERSION, subject, number | {"entries": rescoring.total, "outdated": len(outdated_reasons)})


def advance_all() -> None:
    """Publish every complete version: the worker that finished the last entry may have died before it did."""
    each_alone(advance, Rescoring.objects.filter(state=Rescoring.State.RUNNING))


def waits_on(rescoring: Rescoring) -> list[str]:
    """Sentences that say which faults of the board delay the new version; empty where there are none."""
    entries = rescoring.to_version.scorings.exclude(state=Work.State.DONE).order_by()
    waiting_scorings = entries.filter(Q(fault__in=BOARD_FAULTS) | Q(run__fault__in=BOARD_FAULTS))
    faults = [fault or of_run for fault, of_run in waiting_scorings.values_list("fault", "run__fault")]
    counts = Counter(failure_called(fault).kind.label.lower() for fault in faults)
    return [f"{plural(count, 'entry waits', 'entries wait')}: {label}." for label, count in counts.items()]


def plural(count: int, one: str, many: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{count:,} {one if count == 1 else many}"


def pause(rescoring: Rescoring, user: User | None = None) -> bool:
    """Stop after the shards under way; returns whether there was something to pause."""
    return _hold(rescoring, Rescoring.State.PAUSED, user)


def resume(rescoring: Rescoring, user: User | None = None) -> bool:
    """Resume a paused rescoring; returns whether it was paused."""
    is_resumed = _hold(rescoring, Rescoring.State.RUNNING, user)
    if is_resumed:
        send(rescoring.to_version)
        each_alone(advance, [rescoring])
    return is_resumed


@transaction.atomic
def _hold(rescoring: Rescoring, state: str, user: User | None) -> bool:
    lock_metric(rescoring.metric_id)  # no model lands in the version meanwhile
    previous_state = rescoring.state
    has_moved = previous_state != state and rescoring.move(state)
    if has_moved:
        hold_work(rescoring)
        numbers = {"from": rescoring.from_version.number, "to": rescoring.to_version.number}
        change = {"state": previous_state}, {"state": state}
        verb = AuditVerb.PAUSE_RESCORING if state == Rescoring.State.PAUSED else AuditVerb.RESUME_RESCORING
        record(verb, f"metric {rescoring.metric.slug}", numbers, user, change)
    return has_moved


@transaction.atomic
def cancel(rescoring: Rescoring, user: User | None = None) -> bool:
    """Cancel the rescoring: readers keep the version that they see. Returns whether there was something to cancel."""
    lock_metric(rescoring.metric_id)
    return end(rescoring, "the rescoring was cancelled", user)


def end(rescoring: Rescoring, reason: str, user: User | None = None, *, go_back: bool = True) -> bool:
    """End a rescoring without publishing: retire its version and cancel the work under it.

    Where readers keep the version that they see (`go_back`), models that are not in it are queued for it again.
    """
    previous_state = rescoring.state
    if not rescoring.move(Rescoring.State.CANCELLED, finished_at=Now()):
        return False
    version = rescoring.to_version
    MetricVersion.objects.filter(pk=version.pk).update(status=MetricVersion.Status.RETIRED)
    version.scorings.cancel(reason)
    if version.epoch != rescoring.from_version.epoch and previous_state == Rescoring.State.PAUSED:
        Run.objects.filter(scorings__metric_version=version).unfinished().update(held=False)  # another may want them
    if go_back:
        if rescoring.former_labels is not None:  # rows that older releases made have none
            Metric.objects.filter(pk=rescoring.metric_id).update(labels=rescoring.former_labels)
        send_back(rescoring)
        drop_runs([version], rescoring.from_version)
    numbers = {"from": rescoring.from_version.number, "to": version.number}
    change = {"state": previous_state}, {"state": rescoring.state}
    record(AuditVerb.CANCEL_RESCORING, f"metric {version.metric.slug}", numbers | {"reason": reason}, user, change)
    return True


@dataclass(frozen=True)
class GoingBack:
    """What happens to the models of a cancelled rescoring that are not in the version that stays.

    waiting: scorings under the cancelled version whose models are queued for the version that stays. left: scorings
    that a person had cancelled; they stay cancelled.
    """

    waiting: list[Scoring]
    left: list[Scoring]


def going_back(rescoring: Rescoring) -> GoingBack:
    """The entries that joined or were moved to the new version, and what happens to them."""
    old_version = rescoring.from_version
    placed_models = old_version.scorings.filter(state__in=[Work.State.DONE, Work.State.FAILED]).values("model")
    new_scorings = rescoring.to_version.scorings.exclude(state=Work.State.FAILED).exclude(run__state=Work.State.FAILED)
    old_scorings = {old.model_id: old for old in old_version.scorings.select_related("run")}
    outcome = GoingBack([], [])
    for scoring in new_scorings.exclude(model__in=placed_models).select_related("model", "run"):
        is_over = is_given_up(scoring) or (
            scoring.model_id in old_scorings and is_given_up(old_scorings[scoring.model_id])
        )
        (outcome.left if is_over else outcome.waiting).append(scoring)
    return outcome


def send_back(rescoring: Rescoring) -> None:
    """Queue the waiting entries of `going_back` under the version that stays."""
    old_version = rescoring.from_version
    evaluable = set(LanguageModel.objects.evaluable().values_list("pk", flat=True))
    for scoring in going_back(rescoring).waiting:
        identity = {
            "model": scoring.model,
            "protocol": old_version.protocol_for(scoring.model),
            "epoch": old_version.epoch,
        }
        run = Run.objects.filter(**identity).first()
        if scoring.model_id not in evaluable and (run is None or run.state != Work.State.DONE):
            continue
        if run is not None and run.was_given_up():
            continue
        run = run or Run.objects.create(**identity)
        new_scoring, _ = Scoring.objects.get_or_create(
            model=scoring.model, metric_version=old_version, defaults={"run": run}
        )
        for work in (run, new_scoring):
            work.queue_again()
    transaction.on_commit(lambda: send(old_version))


def time_left(rescoring: Rescoring) -> timedelta | None:
    """The time left, estimated from the entries scored so far; None before there are any, and while paused."""
    if rescoring.state != Rescoring.State.RUNNING:
        return None
    share = rescoring.done / rescoring.total if rescoring.total else 0.0
    if not share:
        return None
    duration = database_now() - rescoring.created_at
    return timedelta(seconds=round(duration.total_seconds() * (1 - share) / share))
