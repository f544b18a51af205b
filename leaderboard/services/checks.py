"""Control checks: score the frozen texts of a metric again, and act on a drift."""

import logging
from datetime import timedelta
from statistics import NormalDist
from typing import Any

import numpy as np
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from leaderboard.models import (
    Artefact,
    AuditVerb,
    ControlCheck,
    ControlSet,
    Metric,
    MetricVersion,
    Result,
    RetiredScorer,
    Scoring,
    Work,
    Worker,
)
from leaderboard.models.clock import database_now, from_now
from leaderboard.services import artefacts, scorers
from leaderboard.services.abilities import hosts_to_ask, note_ability, other_workers
from leaderboard.services.alone import each_alone
from leaderboard.services.audit import record
from leaderboard.services.control import instrument_environment, instrument_of, reported_by, scores_artefact
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.impact import impact_of
from leaderboard.services.leases import Deferred, Lease, LeaseLost, claim, give_back_if_unable
from leaderboard.services.locks import lock_metric
from leaderboard.services.openings import growing_pause, load_reference
from leaderboard.services.policies import policy_of, thresholds_of
from leaderboard.services.queue import PASS_SECONDS, enqueue
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.submission_log import say
from leaderboard.services.upgrade import catch_up
from leaderboard.services.versions import newest_version
from scoring.control_sets import stratum_of
from scoring.drift import (
    DriftReport,
    Reference,
    compare,
    confirm,
    equivalence_margin,
    rule,
    weigh,
    with_other_attributes,
    with_other_terms,
)
from scoring.language_models import ModelRefused
from scoring.metrics.formulas import attributes_of, slices_in_order
from scoring.metrics.instruments import Instrument
from scoring.refusals import Refused
from scoring.scorers import LexiconError, ScorerUnavailable, UndeclaredLabel, find_declaration
from scoring.statistics.auc import CONFIDENCE

log = logging.getLogger(__name__)

Trigger, Verdict = ControlCheck.Trigger, ControlCheck.Verdict
HALF_WIDTHS = 2 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # standard errors in the width of an interval
DAY = 86_400.0  # seconds
BRAKED_SECONDS = 300.0  # until entries of a metric whose scorer drifts again and again are looked at again
WAIT_SECONDS = 2.0  # for a check that another worker makes
ANSWERED = (Verdict.STABLE, Verdict.CHANGED)  # numbers may be published
NO_ANSWER = (
    LexiconError,
    ModelRefused,
    ScorerUnavailable,
    UndeclaredLabel,
)  # what instruments raise: an error is no score


class CheckImpossible(Exception):
    """The control set of a metric cannot be scored again: its files are lost, or it was measured by another rule."""


def request_check(metric: Metric, trigger: str, *, send: bool = True, user: User | None = None) -> ControlCheck:
    """Queue a check of `metric`, or return the one that is under way. Raises Refused."""
    control = control_of(metric)
    if control is None:
        raise Refused(f"{metric.slug} has no control set yet: it gets one with its first scoring")
    if not is_at_hand(control):
        states = {control.items.state, control.reference.state}
        reason = (
            "was imported without the files of its control set"
            if Artefact.State.ABSENT in states
            else "lost files of its control set, which a backup may have"
        )
        raise Refused(f"{metric.slug} {reason}: `manage.py rescore {metric.slug}` opens a version with one of its own")
    if not is_of_this_rule(control):
        raise Refused(
            f"{metric.slug}: its control set was measured for version {control.check_version} of the rule of checks; "
            f"`manage.py rescore {metric.slug}` opens a version with one for this rule"
        )
    with transaction.atomic():
        lock_metric(metric.pk)  # the second of two simultaneous requests finds the check of the first
        under_way = ControlCheck.objects.filter(metric=metric).unfinished().first()
        if under_way:
            return under_way
        # An upgrade is about the libraries of this host.
        environment = instrument_environment() if trigger == Trigger.UPGRADE else {}
        check = ControlCheck.objects.create(metric=metric, trigger=trigger, environment=environment)
        if trigger == Trigger.MANUAL:
            change = {"check": None}, {"check": check.state}
            record(AuditVerb.REQUEST_CONTROL_CHECK, f"metric {metric.slug}", {"check": check.pk}, user, change)
    if send:
        transaction.on_commit(lambda: enqueue(check))
    return check


def perform(check: ControlCheck) -> None:
    """Score the control set again and record the verdict; on a drift, open a new version and rescore all entries."""
    with claim(check) as lease:
        if lease is None:
            return
        control = control_of(check.metric)
        if control is None:  # a new version was opened since the request, and has no scores yet
            ControlCheck.objects.filter(lease=lease.id).cancel("the newest version has no control set yet")
            return
        if catch_up(check.metric) or not is_of_this_rule(control):
            reason = "the code computes or checks differently from when the control set was measured"
            ControlCheck.objects.filter(lease=lease.id).cancel(reason)
            return
        version = control.metric_version
        leave_to_another_host(check, version)
        lease.note(at_once=True, control_set=control, environment=instrument_environment())
        say(check, f"Control check of {check.metric.title}: its control texts are scored again, before any numbers.")
        scorers.look_again()
        try:
            with give_back_if_unable(ControlCheck, name_of_scorer(version.scorer)):
                instrument = instrument_of(version, check)
                report, scores = observe(check, control, instrument, lease)
        except NO_ANSWER as error:
            finish_unavailable(check, lease, control, str(error))
            return
        impact = estimated_impact(version, check) if report.verdict.value == Verdict.DRIFTED else None
        if impact is not None:
            report = weigh(report, impact["leaving"])
        if report.verdict.value == Verdict.DRIFTED:
            ask_another_host(check, version, report.decided_by)
        ids = artefacts.load(control.items)["id"].to_pylist()
        artefact = scores_artefact(ids, scores, instrument.attributes)
        with transaction.atomic():
            metric = lock_metric(check.metric_id)
            lease.finish(
                control_set=control,
                verdict=report.verdict.value,
                fingerprint=instrument.fingerprint,
                environment=instrument_environment(),
                statistics=report.as_json() | {"impact": impact},
                artefact=artefact,
                host=settings.HOST,
            )
            if check.verdict == Verdict.DRIFTED:
                detail = {"check": check.pk, "version": version.number, "reason": report.decided_by}
                record(AuditVerb.FIND_DRIFT, f"metric {metric.slug}", detail)
            # Where someone opened a version meanwhile, its entries are scored with the scorer as it is now.
            if check.verdict == Verdict.DRIFTED and newest_version(metric) == version:
                if must_brake(check, control):
                    detail = {"check": check.pk, "version": version.number, "drifts": metric.brake_after}
                    record(AuditVerb.HOLD_RESCORING_BACK, f"metric {metric.slug}", detail)
                else:
                    open_rescoring(metric, report.decided_by, check=check)
            if check.verdict in ANSWERED:
                if check.first_host not in ("", settings.HOST):
                    note_disagreement(check, version)
                scorings = version.scorings.filter(state=Work.State.QUEUED, waits_for=Work.WaitsFor.CHECK)
                scorings.update(not_before=None, reason="", waits_for="")
        say(check, f"Control check of {check.metric.title}: {check.get_verdict_display().lower()}.")
        scorers.forget_replies(check)
        log.info("%s: %s %s", check.metric, report.verdict.value, report.decided_by)


def leave_to_another_host(check: ControlCheck, version: MetricVersion) -> None:
    """Raise Deferred where another host should make the check and is alive."""
    if check.first_host == settings.HOST and (hosts := hosts_to_ask(check.kind.queue, name_of_scorer(version.scorer))):
        raise Deferred(PASS_SECONDS, f"{settings.HOST} found a drift: {' or '.join(hosts)} scores the texts, too")
    of_libraries = check.trigger == Trigger.UPGRADE and check.environment not in ({}, instrument_environment())
    if of_libraries and any(row.environment == check.environment for row in other_workers(check.kind.queue)):
        raise Deferred(PASS_SECONDS, "it is about the libraries of another host")


def ask_another_host(check: ControlCheck, version: MetricVersion, finding: str) -> None:
    """Raise Deferred where this host is the first to find a drift and another host can confirm it."""
    if check.first_host or not (hosts := hosts_to_ask(check.kind.queue, name_of_scorer(version.scorer))):
        return
    ControlCheck.objects.filter(pk=check.pk).update(first_host=settings.HOST, first_finding=finding)
    scorers.forget_replies(check)
    raise Deferred(PASS_SECONDS, f"{settings.HOST} found a drift: {' or '.join(hosts)} scores the texts, too")


def note_disagreement(check: ControlCheck, version: MetricVersion) -> None:
    """Record that the host is at fault, not the scorer: another host gets the scores of the reference."""
    problem = f"{check.first_host} found a drift that {settings.HOST} does not see: {check.first_finding}"
    log.error("%s: two hosts disagree: %s", check.metric, problem)
    record(AuditVerb.FIND_DISAGREEMENT, f"metric {check.metric.slug}", {"check": check.pk, "reason": problem})
    for row in Worker.objects.filter(host=check.first_host):
        note_ability(row.name, name_of_scorer(version.scorer), problem=problem)


def must_brake(check: ControlCheck, control: ControlSet) -> bool:
    """Whether the drift that `check` found opens no version by itself: because it is one of too many within a day, by
    the metric's policy, or nothing was opened after the one before."""
    limit = check.metric.brake_after
    day = ControlCheck.objects.filter(
        metric=check.metric_id, verdict=Verdict.DRIFTED, finished_at__gt=from_now(-86_400)
    )
    return bool(limit) and (is_braked(control, later_check=check) or day.count() >= limit)


def is_braked(control: ControlSet, later_check: ControlCheck | None = None) -> bool:
    """Whether the scorer drifted and no version was opened: an operator has to look, and to rescore."""
    checks = control.checks.filter(verdict__in=(*ANSWERED, Verdict.DRIFTED)).order_by("-finished_at", "-pk")
    last = (checks.exclude(pk=later_check.pk) if later_check else checks).first()
    return last is not None and last.verdict == Verdict.DRIFTED and not last.opened_versions.exists()


def estimated_impact(version: MetricVersion, check: ControlCheck) -> dict[str, Any] | None:
    """What the drift moves; None for likelihoods, and where the estimate fails: the drift counts all the same."""
    if not version.asked_scorer:
        return None
    try:
        return impact_of(version, scorers.scorer_of(version, check))
    except (LookupError, OSError, ScorerUnavailable, ValueError) as error:
        log.warning("%s: no estimate of the impact: %s", check.metric, error)
        return None


def control_of(metric: Metric) -> ControlSet | None:
    """The control set that checks of `metric` score: that of its newest version; None where it has none yet."""
    version = newest_version(metric)
    controls = ControlSet.objects.select_related("metric_version__metric", "items", "reference")
    return controls.filter(metric_version=version).first() if version else None


def is_at_hand(control: ControlSet) -> bool:
    """Whether its files are stored here: an imported board lacks them."""
    return artefacts.is_stored(control.items) and artefacts.is_stored(control.reference)


def is_of_this_rule(control: ControlSet) -> bool:
    """Whether it was measured for the rule of checks that this code has."""
    return control.check_version == rule.CHECK_VERSION


def observe(
    check: ControlCheck, control: ControlSet, instrument: Instrument, lease: Lease
) -> tuple[DriftReport, np.ndarray]:
    """The report on the control set, confirmed by a second scoring where the first is material; and the medians now.

    The noise of the reference decides how often texts are scored: once where there is none.
    """
    version = control.metric_version
    items, frozen = artefacts.load(control.items), load_reference(control, instrument.rounding)
    texts = items["text"].to_pylist()
    old_names, new_names = attributes_of(artefacts.load(control.reference)), instrument.attributes
    all_names = [*old_names, *(name for name in new_names if name not in old_names)]
    measures = reported_by(version, items, all_names, instrument.declared)
    policy = policy_of(version.metric, instrument.declared)
    number = 1 + control.checks.filter(state=Work.State.DONE).exclude(verdict=Verdict.UNAVAILABLE).count()
    lease.note(at_once=True, total=len(texts) * frozen.scorings, done=0)

    def score() -> np.ndarray:
        scorings: list[np.ndarray] = []
        for number in range(frozen.scorings):
            if number:
                scorers.forget_replies(check)  # an answer of its own, not the echo of the one before
            scorings.append(np.asarray(instrument_of(version, check).score(texts), dtype=np.float64))
            lease.note(done=len(texts) * len(scorings))
        return np.stack(scorings)

    def report_of(scorings: np.ndarray) -> DriftReport:
        # An attribute that one of the two scorings lacks has not moved: its absence is a finding of its own.
        old_scores = dict(zip(old_names, np.moveaxis(frozen.replicates, 2, 0), strict=True))
        new_scores = dict(zip(new_names, np.moveaxis(scorings, 2, 0), strict=True))
        old_columns = {
            name: np.broadcast_to(frozen.centre[:, number], scorings.shape[:2]) for number, name in enumerate(old_names)
        }
        new_columns = {
            name: np.broadcast_to(column[:1], frozen.replicates.shape[:2]) for name, column in new_scores.items()
        }
        report = compare(
            Reference(
                np.stack([old_scores[name] if name in old_scores else new_columns[name] for name in all_names], axis=2),
                instrument.rounding,
            ),
            np.stack([new_scores[name] if name in new_scores else old_columns[name] for name in all_names], axis=2),
            all_names,
            [tuple(names) for names in items["demographics"].to_pylist()],
            measures,
            (control.fingerprint, instrument.fingerprint),
            margins_of(version),
            number,
            policy,
            thresholds_of(version.metric, instrument.declared),
            [stratum_of(identifier) for identifier in items["id"].to_pylist()],
        )
        changed_attributes = sum(name not in old_names or name not in new_names for name in all_names)
        if changed_attributes:
            return with_other_attributes(report, changed_attributes)
        # A lexicon is nothing but its terms: with others its numbers mean something else, whatever control texts say.
        declaration = find_declaration(version.asked_scorer)
        is_exact = declaration is not None and declaration.exact
        return with_other_terms(report) if is_exact and report.fingerprint_changed else report

    first = score()
    report = report_of(first)
    if report.needs_confirmation:
        scorers.forget_replies(check)
        report = confirm(report, report_of(score()))
    return report, np.median(first, axis=0).astype(np.float32)


def finish_unavailable(check: ControlCheck, lease: Lease, control: ControlSet, reason: str) -> None:
    """Record that the scorer did not answer: there is no verdict, and nothing is published until there is one."""
    log.warning("%s: unavailable: %s", check.metric, reason)
    say(
        check,
        f"Control check of {check.metric.title}: its scorer is unavailable. The check is tried again automatically.",
    )
    scorers.forget_replies(check)
    statistics = {"decided_by": reason, "verdict": Verdict.UNAVAILABLE.value}
    lease.finish(
        control_set=control, verdict=Verdict.UNAVAILABLE, environment=instrument_environment(), statistics=statistics
    )


def margins_of(version: MetricVersion) -> dict[str, float]:
    """How much each measure may change and still count as the same, from its standard errors on the first slice."""
    errors: dict[str, dict[str, list[float]]] = {}
    results = Result.objects.filter(
        scoring__metric_version=version,
        scoring__state=Work.State.DONE,
        measure__in=[measure.key for measure in version.metric.formula.ranked],
        ci_low__isnull=False,
        ci_high__isnull=False,
    ).annotate(width=F("ci_high") - F("ci_low"))
    for measure, place, width in results.values_list("measure", "slice", "width"):
        errors.setdefault(measure, {}).setdefault(place, []).append(width / HALF_WIDTHS)
    measures = version.metric.formula.measures
    return {
        key: equivalence_margin(np.array(slices[slices_in_order(slices, version.declared)[0]]), measures[key].largest)
        for key, slices in errors.items()
    }


def require_check(scoring: Scoring, fingerprint: str = "") -> None:
    """Have the control set of the scoring's version checked before its numbers are published.

    A check that was made since the scoring began, of the scorer with this `fingerprint` where one is given, will do.
    Raises Deferred while another worker makes one, and where there was no answer, until the next one is due; LeaseLost
    where the scorer drifted and the scoring moved on to the new version; CheckImpossible.
    """
    if not was_checked(scoring, fingerprint):
        wait_for_answer(scoring)
        try:
            check = request_check(scoring.metric_version.metric, Trigger.SUBMISSION, send=False)
        except Refused as error:
            raise CheckImpossible(str(error)) from error
        perform(check)
        check.refresh_from_db()
        if check.state in (Work.State.QUEUED, Work.State.RUNNING, Work.State.CANCELLED):
            seconds = (check.not_before - database_now()).total_seconds() if check.not_before else 0.0
            raise Deferred(max(WAIT_SECONDS, seconds), check.reason, Work.WaitsFor.CHECK if check.reason else "")
        wait_for_answer(scoring)
    scoring.refresh_from_db()
    if scoring.state != Work.State.RUNNING:
        raise LeaseLost


def wait_for_answer(scoring: Scoring) -> None:
    """Raise Deferred where the last check of the scoring's version had no answer, and the next is not due yet."""
    control = ControlSet.objects.select_related("metric_version__metric").get(metric_version=scoring.metric_version_id)
    if is_braked(control):
        slug = control.metric_version.metric.slug
        raise Deferred(
            BRAKED_SECONDS,
            f"{slug} drifts again and again, and nothing is scored again by itself. Look at its checks, then "
            f"`manage.py rescore {slug}`",
            Work.WaitsFor.CHECK,
        )
    checks = last_checks(control)
    if not checks or checks[0].verdict in (*ANSWERED, Verdict.DRIFTED) or not checks[0].finished_at:
        return
    seconds = (checks[0].finished_at + pause_after(checks) - database_now()).total_seconds()
    if seconds > 0:
        reason = checks[0].reason or checks[0].statistics.get("decided_by", "")
        raise Deferred(seconds, reason, Work.WaitsFor.CHECK)


def was_checked(scoring: Scoring, fingerprint: str = "") -> bool:
    """Whether a check made since the scoring began says that its numbers may stand beside the version's others."""
    checks = ControlCheck.objects.filter(
        control_set__metric_version=scoring.metric_version_id,
        verdict__in=ANSWERED,
        started_at__gte=scoring.started_at,
    )
    return (checks.filter(fingerprint=fingerprint) if fingerprint else checks).exists()


def request_due_checks() -> int:
    """Queue the checks that are due: on schedule, after another version of a library, and after an unanswered one.

    Retired scorers are not checked.
    """
    checks = []

    def request(metric: Metric) -> None:
        if trigger := due_trigger(metric):
            checks.append(request_check(metric, trigger))

    each_alone(request, Metric.objects.exclude(scorer__in=RetiredScorer.objects.values("name")))
    return len(checks)


def due_trigger(metric: Metric) -> str | None:
    """Why a check of `metric` is due now; None where it is not."""
    control = control_of(metric)
    if control is None or not (is_at_hand(control) and is_of_this_rule(control)):
        return None
    if ControlCheck.objects.filter(metric=metric).unfinished().exists():
        return None
    checks = last_checks(control)
    last = checks[0] if checks else None
    own = next((check for check in checks if check.host in ("", settings.HOST)), None)
    if (own.environment if own else control.environment) != instrument_environment():
        return Trigger.UPGRADE
    last_end = last.finished_at if last else control.created_at
    return Trigger.SCHEDULE if last_end and database_now() - last_end >= pause_after(checks) else None


def last_checks(control: ControlSet) -> list[ControlCheck]:
    """The finished checks of a control set, the newest first; as many as a pause can depend on."""
    checks = control.checks.filter(state__in=[Work.State.DONE, Work.State.FAILED])
    return list(checks.order_by("-finished_at", "-pk")[:12])


def pause_after(checks: list[ControlCheck]) -> timedelta:
    """The pause before the next check, after these `checks`, newest first. A failed check had no answer either."""
    failures = 0
    while failures < len(checks) and checks[failures].verdict in ("", Verdict.UNAVAILABLE):
        failures += 1
    return growing_pause(failures) if failures else timedelta(seconds=settings.CHECK_SECONDS)
