"""Control checks: the frozen texts of a metric, scored again; and what a drift sets off."""

import logging
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from leaderboard.models import ControlCheck, ControlSet, Metric, MetricVersion, Scoring, Standing, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.audit import record
from leaderboard.services.control import Instrument, here, instrument_of, reported_by, scores_artefact
from leaderboard.services.impact import impact_of
from leaderboard.services.leases import Deferred, Lease, LeaseLost, claimed
from leaderboard.services.queue import enqueue
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.versions import newest_version
from scoring.drift import DriftReport, Policy, compare, confirm, equivalence_margin
from scoring.metrics.formulas import attributes_of, slices_in_order, values_of
from scoring.scorers import ScorerUnavailable

log = logging.getLogger(__name__)

Trigger, Verdict = ControlCheck.Trigger, ControlCheck.Verdict
TERMS_CHANGED = "The terms of the lexicon changed: numbers of two lexicons do not compare."
WAIT_SECONDS = 2.0  # for a check that another worker makes
FIRST_PAUSE = timedelta(minutes=1)  # after a check that found the scorer unavailable; doubles with every further one
LONGEST_PAUSE = timedelta(hours=6)


class CannotCheck(ValueError):
    """There is nothing to check yet; the message says why."""


def request_check(metric: Metric, trigger: str, *, send: bool = True, user: User | None = None) -> ControlCheck:
    """Queue a check of `metric`; one that is under way already is returned as it is. Raises CannotCheck."""
    version = newest_version(metric)
    if version is None or not ControlSet.objects.filter(metric_version=version).exists():
        raise CannotCheck(f"{metric.slug} has no control set yet: it gets one with its first scoring")
    try:
        with transaction.atomic():
            check = ControlCheck.objects.create(metric=metric, trigger=trigger)
            if trigger == Trigger.MANUAL:
                record("request control check", f"metric {metric.slug}", {"check": check.pk}, user)
    except IntegrityError:  # one is under way; or was, a moment ago
        return ControlCheck.objects.filter(metric=metric).unfinished().first() or request_check(metric, trigger)
    if send:
        transaction.on_commit(lambda: enqueue(check))
    return check


def perform(check: ControlCheck) -> None:
    """Score the control set again and say what it means; on a drift, open a new version and rescore all entries."""
    with claimed(check) as lease:
        if lease is None:
            return
        version = newest_version(check.metric)
        control = ControlSet.objects.select_related("items", "reference").get(metric_version=version)
        try:
            instrument = instrument_of(control.metric_version, check)
            statistics, observed = observe(check, control, instrument, lease)
        except ScorerUnavailable as error:
            finish_unavailable(check, lease, control, str(error))
            return
        drifted = statistics["verdict"] == Verdict.DRIFTED
        if drifted and check.metric.formula.asks_scorer:
            checked = control.metric_version
            scorer = scorers.scorer_for(checked.scorer, str(checked.number), check)
            statistics["impact"] = impact_of(checked, scorer)
        ids = artefacts.load(control.items)["id"].to_pylist()
        artefact = scores_artefact(ids, observed, instrument.attributes)
        with transaction.atomic():
            lease.finish(
                control_set=control,
                verdict=statistics["verdict"],
                fingerprint=instrument.fingerprint,
                environment=instrument.environment,
                statistics=statistics,
                artefact=artefact,
            )
            if drifted:
                open_rescoring(check.metric, statistics["decided_by"], check=check)
        scorers.forget_replies(check)
        log.info("%s: %s. %s", check.metric, statistics["verdict"], statistics["decided_by"])


def observe(
    check: ControlCheck, control: ControlSet, instrument: Instrument, lease: Lease
) -> tuple[dict[str, Any], np.ndarray]:
    """What the check found, as it is kept, and the scores of now, float32 [n, attributes].

    A material change is confirmed by a second scoring. A scorer of other attributes, and a lexicon of other terms, is
    another one by definition: its numbers mean something else, whatever it says of the control set.
    """
    items = artefacts.load(control.items)
    texts = items["text"].to_pylist()
    before = artefacts.load(control.reference)
    lease.note(at_once=True, total=len(texts), done=0)
    first = instrument.score(texts)
    lease.note(at_once=True, done=len(texts))
    if attributes_of(before) != instrument.attributes:
        names = ", ".join(instrument.attributes)
        return {"verdict": Verdict.DRIFTED.value, "decided_by": f"The scorer has other attributes now: {names}."}, first
    report = compared(control, instrument, items, values_of(before), first)
    if report.needs_confirmation:
        scorers.forget_replies(check)  # a second opinion, not the first one's echo
        again = instrument_of(control.metric_version, check).score(texts)
        report = confirm(report, compared(control, instrument, items, values_of(before), again))
    found = report.as_json()
    is_lexicon = control.metric_version.scorer.startswith(scorers.LEXICON)
    if is_lexicon and report.fingerprint_changed and report.verdict.value != Verdict.UNAVAILABLE:
        found |= {"verdict": Verdict.DRIFTED.value, "decided_by": f"{TERMS_CHANGED} {report.decided_by}"}
    return found, first


def compared(
    control: ControlSet, instrument: Instrument, items: pa.Table, before: np.ndarray, now: np.ndarray
) -> DriftReport:
    """The report on the scores of a control set then and now."""
    version = control.metric_version
    checks = control.checks.filter(state=Work.State.DONE).exclude(verdict=Verdict.UNAVAILABLE)
    return compare(
        before,
        now,
        instrument.attributes,
        [tuple(names) for names in items["demographics"].to_pylist()],
        reported_by(version, items, instrument.attributes),
        control.noise_floor,
        (control.fingerprint, instrument.fingerprint),
        margins_of(version),
        1 + checks.count(),
        policy_of(version),
    )


def finish_unavailable(check: ControlCheck, lease: Lease, control: ControlSet, reason: str) -> None:
    """Record that there was no answer: no verdict on the scorer, and nothing is published under it meanwhile."""
    log.warning("%s: unavailable: %s", check.metric, reason)
    statistics = {"decided_by": reason, "verdict": Verdict.UNAVAILABLE.value}
    lease.finish(control_set=control, verdict=Verdict.UNAVAILABLE, environment=here(), statistics=statistics)


def policy_of(version: MetricVersion) -> Policy:
    """The limits of the metric, where it sets some; likelihoods have no threshold, and so no labels."""
    defaults: dict[str, Any] = {} if version.metric.formula.asks_scorer else {"threshold": None}
    return Policy(**{**defaults, **version.metric.drift_policy})


def margins_of(version: MetricVersion) -> dict[str, float]:
    """How much each measure may change and still be called the same: from its values on the board's first slice."""
    values: dict[str, dict[str, list[float]]] = {}
    for standing in Standing.objects.filter(metric_version=version, population=Standing.Population.ALL):
        values.setdefault(standing.measure, {}).setdefault(standing.slice, []).append(standing.value)
    measures = version.metric.formula.measures
    return {
        key: equivalence_margin(np.array(slices[slices_in_order(slices)[0]]), measures[key].largest)
        for key, slices in values.items()
    }


def require_check(scoring: Scoring) -> None:
    """Have the control set of the scoring's version checked before its numbers are published.

    A check that was made since the scoring began will do. Raises Deferred while another worker makes one,
    ScorerUnavailable where there was no answer, LeaseLost where the scorer drifted and the scoring moved on to the new
    version.
    """
    version = scoring.metric_version
    since = ControlCheck.objects.filter(
        control_set__metric_version=version, state=Work.State.DONE, started_at__gte=scoring.started_at
    ).exclude(verdict=Verdict.UNAVAILABLE)
    if not since.exists():
        check = request_check(version.metric, Trigger.SUBMISSION, send=False)
        perform(check)
        check.refresh_from_db()
        if check.state in (Work.State.QUEUED, Work.State.RUNNING):
            raise Deferred(WAIT_SECONDS)
        if check.verdict == Verdict.UNAVAILABLE:
            raise ScorerUnavailable(f"the control check had no answer: {check.statistics['decided_by']}")
        if check.state == Work.State.FAILED:
            raise RuntimeError(f"the control check failed: {check.reason}")
    scoring.refresh_from_db()
    if scoring.state != Work.State.RUNNING:
        raise LeaseLost


def request_due_checks() -> int:
    """Queue the checks that are due: on schedule, after another version of a library, and after an unanswered one."""
    requested = 0
    for metric in Metric.objects.all():
        trigger = due(metric)
        if trigger:
            request_check(metric, trigger)
            requested += 1
    return requested


def due(metric: Metric) -> str | None:
    """Why a check of `metric` is due now; None where it is not."""
    version = newest_version(metric)
    control = ControlSet.objects.filter(metric_version=version).first() if version else None
    if control is None or ControlCheck.objects.filter(metric=metric).unfinished().exists():
        return None
    checks = list(control.checks.filter(state=Work.State.DONE).order_by("-finished_at")[:12])
    last = checks[0] if checks else None
    if (last.environment if last else control.environment) != here():
        return Trigger.UPGRADE
    ended = last.finished_at if last else control.created_at
    return Trigger.SCHEDULE if ended and timezone.now() - ended >= pause_after(checks) else None


def pause_after(checks: list[ControlCheck]) -> timedelta:
    """How long to wait for the next check, after these, the newest first."""
    unanswered = 0
    while unanswered < len(checks) and checks[unanswered].verdict == Verdict.UNAVAILABLE:
        unanswered += 1
    regular = timedelta(seconds=settings.CHECK_SECONDS)
    return min(FIRST_PAUSE * 2 ** (unanswered - 1), LONGEST_PAUSE, regular) if unanswered else regular
