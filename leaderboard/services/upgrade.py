"""Boards follow the code: where it computes or checks otherwise than a metric's newest version, all is scored again.

Nobody has to ask. The sweep looks at every metric, and so does a worker before it scores; whoever looks first opens the
rescoring, in one transaction, and the others find nothing left to do. Versions that are closed and figures from papers
stay as they are.
"""

import logging
from dataclasses import dataclass

from django.db import transaction

from leaderboard.models import ControlSet, Metric, MetricVersion, Provenance, Rescoring
from leaderboard.services.locks import lock_metric
from leaderboard.services.metrics import CannotDeclare, check_labels
from leaderboard.services.rescore import open_rescoring, pause, queue_entries, send
from leaderboard.services.scorers import problem_with
from leaderboard.services.submission_log import say_to_version
from leaderboard.services.versions import UNFINISHED, newest_version, open_first_version
from scoring.drift import rule
from scoring.scorers import is_scorer

log = logging.getLogger(__name__)

Status = MetricVersion.Status


@dataclass(frozen=True)
class Lag:
    """What the code does otherwise than `version`, in words; and why that is not scored again by itself, if so."""

    version: MetricVersion
    reason: str
    obstacle: str

    @property
    def of_older_formula(self) -> bool:
        """Whether its numbers are computed otherwise now; else only the check of its scorer is."""
        return self.version.formula_version < self.version.metric.formula.version


def find_lag(metric: Metric) -> Lag | None:
    """In what the newest measured version of `metric` is behind the code; None where it is not, or there is none."""
    candidates = metric.versions.filter(status=Status.CANDIDATE, provenance=Provenance.MEASURED)
    version = newest_version(metric) or candidates.order_by("number").first()
    return lag_of(version) if version else None


def lag_of(version: MetricVersion) -> Lag | None:
    """In what `version`, the newest of its metric, is behind the code; None where it is not."""
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
    if not version.metric.formula.asks_scorer:
        return ""
    if not is_scorer(version.scorer):
        return f"{version.scorer} is no scorer that is known here"
    problem = problem_with(version.scorer)
    if problem:
        return f"{version.scorer} is {problem.state}: {problem}"
    try:
        check_labels(version.scorer, version.metric.labels)
    except CannotDeclare as error:
        return str(error)
    return ""


def describe_lag(version: MetricVersion) -> str:
    """What this code computes and checks otherwise than it did when `version` was opened; empty where nothing."""
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
    """Have all entries of `metric` scored again where its newest version is behind the code; says whether it was.

    Once only: a rescoring that was given up is not opened again, and none is opened that the scorer is not there for.
    """
    lag = find_lag(metric)
    if lag is None or lag.obstacle:
        return False
    with transaction.atomic():
        metric = lock_metric(metric.pk)
        lag = find_lag(metric)  # another worker may have been quicker
        if lag is None or lag.obstacle:
            return False
        active = Rescoring.objects.active().filter(metric=metric).first()
        if lag.version.status == Status.CANDIDATE and active is None:
            replace_first_version(lag)
        else:
            rescoring = open_rescoring(
                metric, lag.reason, scorer=lag.version.scorer if metric.formula.asks_scorer else "", by_upgrade=True
            )
            if active and active.state == Rescoring.State.PAUSED:
                pause(rescoring)
        log.info("%s: %s", metric, lag.reason)
    return True


def replace_first_version(lag: Lag) -> None:
    """Retire a first version that nothing was published under, and queue what waits for it under another one."""
    stale = lag.version
    stale.metric.versions.filter(pk=stale.pk).update(status=Status.RETIRED)
    if not stale.scorings.filter(state__in=UNFINISHED).exists():
        return
    version = open_first_version(stale.metric)
    queue_entries(version, [stale], lag.reason)
    say_to_version(version, f"{lag.reason} Version {version.number} of {version.metric.title} takes over.")
    transaction.on_commit(lambda: send(version))


def catch_up_all() -> list[Metric]:
    """Have every metric that is behind the code scored again; returns those for which this was the call that did."""
    return [metric for metric in Metric.objects.order_by("position", "slug") if catch_up(metric)]
