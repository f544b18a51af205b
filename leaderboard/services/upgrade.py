"""Upgrades: where new code computes or checks differently from a metric's newest version, all entries are rescored.

This needs no request. The sweep looks at every metric, and so does a worker before it scores; the first of them opens
the rescoring in one transaction, and the others find nothing to do. Closed versions and figures from papers stay as
they are.
"""

import logging
from dataclasses import dataclass

from django.db import transaction

from leaderboard.models import ControlSet, Metric, MetricVersion, Provenance, Rescoring
from leaderboard.services.alone import each_alone
from leaderboard.services.locks import lock_metric
from leaderboard.services.metrics import check_labels
from leaderboard.services.rescore import open_rescoring, pause, queue_entries, send
from leaderboard.services.scorers import problem_with
from leaderboard.services.submission_log import say_to_version
from leaderboard.services.versions import UNFINISHED, find_rescoring, newest_version, open_first_version
from scoring.drift import rule
from scoring.refusals import Refused
from scoring.scorers import is_scorer

log = logging.getLogger(__name__)

Status = MetricVersion.Status


@dataclass(frozen=True)
class Lag:
    """What the code does differently from `version`, in words, and the obstacle to rescoring it, if any."""

    version: MetricVersion
    reason: str
    obstacle: str

    @property
    def of_older_formula(self) -> bool:
        """Whether its numbers are computed differently now; otherwise only the check of its scorer is."""
        return self.version.formula_version < self.version.metric.formula.version


def find_lag(metric: Metric) -> Lag | None:
    """How the newest measured version of `metric` lags behind the code; None where it does not, or there is none."""
    candidates = metric.versions.filter(status=Status.CANDIDATE, provenance=Provenance.MEASURED)
    version = newest_version(metric) or candidates.order_by("number").first()
    return lag_of(version) if version else None


def lag_of(version: MetricVersion) -> Lag | None:
    """How `version`, the newest of its metric, lags behind the code; None where it does not."""
    reason = describe_lag(version)
    if not reason:
        return None
    given_up = Rescoring.objects.filter(
        from_version=version, state=Rescoring.State.CANCELLED, by_upgrade=True, reason=reason
    ).first()
    if given_up:
        return Lag(version, reason, f"the rescoring to version {given_up.to_version.number} was given up")
    return Lag(version, reason, describe_missing_scorer(version))


def describe_missing_scorer(version: MetricVersion) -> str:
    """Why entries cannot be scored with the scorer of `version` now; empty where they can."""
    if not version.asked_scorer:
        return ""
    if not is_scorer(version.scorer):
        return f"{version.scorer} is not a scorer that is known here"
    problem = problem_with(version.scorer)
    if problem:
        return f"{version.scorer} is {problem.state}: {problem}"
    try:
        check_labels(version.scorer, version.metric.labels)
    except Refused as error:
        return str(error)
    return ""


def describe_lag(version: MetricVersion) -> str:
    """What the code computes and checks differently since `version` was opened; empty where nothing."""
    formula = version.metric.formula
    sentences = []
    if version.formula_version < formula.version:
        sentences.append(
            f"The formula {formula.title} rose from version {version.formula_version} to {formula.version}: "
            f"{formula.describe_changes(version.formula_version)}"
        )
    control: ControlSet | None = getattr(version, "control_set", None)
    if control and control.check_version < rule.CHECK_VERSION:
        sentences.append(
            f"The rule of control checks rose from version {control.check_version} to {rule.CHECK_VERSION}: "
            f"{rule.describe_rule_changes(control.check_version)}"
        )
    return " ".join(sentences)


def catch_up(metric: Metric) -> bool:
    """Rescore `metric` where its newest version lags behind the code; returns whether it did.

    Once only: a cancelled rescoring is not opened again, and none is opened without its scorer.
    """
    lag = find_lag(metric)
    if lag is None or lag.obstacle:
        return False
    with transaction.atomic():
        metric = lock_metric(metric.pk)
        lag = find_lag(metric)  # another worker may have been quicker
        if lag is None or lag.obstacle:
            return False
        active = find_rescoring(metric)
        if lag.version.status == Status.CANDIDATE and active is None:
            replace_first_version(lag)
        else:
            rescoring = open_rescoring(metric, lag.reason, scorer=lag.version.asked_scorer, by_upgrade=True)
            if active and active.state == Rescoring.State.PAUSED:
                pause(rescoring)
        log.info("%s: %s", metric, lag.reason)
    return True


def replace_first_version(lag: Lag) -> None:
    """Retire a first version that was never published, and queue its waiting work under a new one."""
    stale = lag.version
    stale.metric.versions.filter(pk=stale.pk).update(status=Status.RETIRED)
    if not stale.scorings.filter(state__in=UNFINISHED).exists():
        return
    version = open_first_version(stale.metric)
    queue_entries(version, [stale], lag.reason)
    say_to_version(version, f"{lag.reason} Version {version.number} of {version.metric.title} takes over.")
    transaction.on_commit(lambda: send(version))


def catch_up_all() -> list[Metric]:
    """Rescore every metric that lags behind the code; returns those that this call rescores."""
    metrics = []

    def look_at(metric: Metric) -> None:
        if catch_up(metric):
            metrics.append(metric)

    each_alone(look_at, Metric.objects.order_by("position", "slug"))
    return metrics
