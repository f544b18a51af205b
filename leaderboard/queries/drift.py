"""Can the scorers be trusted today? The state of every metric's scorer, and the checks that it is known by."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import groupby
from typing import NamedTuple

from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, F, OuterRef, Window
from django.db.models.functions import RowNumber

from leaderboard.models import (
    ControlCheck,
    ControlSet,
    Metric,
    MetricVersion,
    Opening,
    Provenance,
    Rescoring,
    RetiredScorer,
    Work,
)
from leaderboard.services import rescore
from leaderboard.services.checks import pause_after
from scoring.scorers import Caveat, find_declaration

CHECKS_A_PAGE = 30
MOST_UNANSWERED = 12  # as many checks back as a pause between two can depend on
ENDED = (Work.State.DONE, Work.State.FAILED)


class Condition(Enum):
    """What is known of a scorer, in a word, with the shape that says it too."""

    STABLE = "stable", "Stable", "●"
    CHANGED = "changed", "Changed", "▲"
    DRIFTED = "drifted", "Drifted", "◆"
    RIGHTED = "righted", "Changed; all models rescored", "◇"
    UNAVAILABLE = "unavailable", "Unavailable", "✕"
    NEVER = "never", "Never checked", "○"
    RETIRED = "retired", "Retired", "■"

    def __init__(self, key: str, label: str, shape: str) -> None:
        self.key, self.label, self.shape = key, label, shape

    @classmethod
    def of(cls, verdict: str) -> "Condition":
        """Of one check; one that failed had no answer either."""
        return next((condition for condition in cls if condition.key == verdict), cls.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class EndedCheck:
    """A check that came to an end, without its statistics."""

    pk: int
    metric: int
    control_set: int | None
    version: int | None
    epoch: int | None
    trigger: str
    verdict: str
    reason: str
    finished_at: datetime | None

    @property
    def condition(self) -> Condition:
        """What it says."""
        return Condition.of(self.verdict)

    @property
    def because(self) -> str:
        """What set it off."""
        return ControlCheck.Trigger(self.trigger).label


CHECK = (
    *("pk", "metric", "control_set", "control_set__metric_version__number", "control_set__metric_version__epoch"),
    *("trigger", "verdict", "reason"),
)


@dataclass(frozen=True, slots=True)
class WatchedScorer:
    """A metric's scorer: what is known of it, by which check, and what comes next.

    `version`: the one that readers see. `next_due`: when the next check is due at the latest; None where there is
    nothing to check yet, or a check is `under_way`. `opening`: of the newest version, until its control set is frozen;
    it has `made` scorings of those wanted. `is_retired`: the scorer is checked no more.
    """

    metric: Metric
    version: MetricVersion | None
    condition: Condition
    last: EndedCheck | None
    decided_by: str
    rescoring: Rescoring | None
    next_due: datetime | None
    under_way: bool
    opening: Opening | None
    is_retired: bool

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What the name of the scorer does not fix."""
        declaration = find_declaration(self.metric.asked_scorer)
        return declaration.caveats_of(self.metric.asked_scorer) if declaration else ()

    @property
    def time_left(self) -> timedelta | None:
        """Of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None

    @property
    def waits_on(self) -> list[str]:
        """What keeps the rescoring from being published, where the board is at fault."""
        return rescore.waits_on(self.rescoring) if self.rescoring else []


def list_watched_scorers() -> list[WatchedScorer]:
    """Every metric, in the order of the tabs, in six queries."""
    unfinished_checks = ControlCheck.objects.unfinished().filter(metric=OuterRef("pk"))
    retirements = RetiredScorer.objects.filter(name=OuterRef("scorer"))
    metrics = Metric.objects.select_related("protocol__evaluation_set").annotate(
        under_way=Exists(unfinished_checks), is_retired=Exists(retirements)
    )
    current: dict[int, MetricVersion] = {
        version.metric_id: version
        for version in MetricVersion.objects.filter(
            status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED
        ).select_related("metric", "control_set")
    }
    active = {
        rescoring.metric_id: rescoring
        for rescoring in Rescoring.objects.active().select_related("to_version__control_set")
    }
    newest = current | {metric: rescoring.to_version for metric, rescoring in active.items()}
    checks = recent_checks()
    lasts = ControlCheck.objects.filter(pk__in=[rows[0].pk for rows in checks.values()])
    decisions = dict(lasts.values_list("pk", "statistics__decided_by"))
    # A worker that died may have left one of a version that was opened meanwhile.
    openings_to_come = Opening.objects.filter(metric_version__control_set=None)
    openings = {
        opening.metric_version.metric_id: opening
        for opening in openings_to_come.exclude(metric_version__status__in=MetricVersion.CLOSED)
        .select_related("metric_version")
        .annotate(made=Count("replicates"))
    }
    rows = []
    for metric in metrics:
        ended_checks = checks.get(metric.pk, [])
        last = ended_checks[0] if ended_checks else None
        decided_by = decisions[last.pk] if last else ""
        control = getattr(newest.get(metric.pk), "control_set", None)
        rows.append(
            WatchedScorer(
                metric=metric,
                version=current.get(metric.pk),
                condition=Condition.RETIRED if metric.is_retired else condition_of(last, current.get(metric.pk)),
                last=last,
                decided_by=decided_by or (last.reason if last else ""),
                rescoring=active.get(metric.pk),
                next_due=None if metric.under_way or metric.is_retired else next_due(control, ended_checks),
                under_way=metric.under_way,
                opening=openings.get(metric.pk),
                is_retired=metric.is_retired,
            )
        )
    return rows


class LastCheck(NamedTuple):
    """What the last check of a metric's scorer says of it today."""

    condition: Condition
    finished_at: datetime | None


def list_last_checks() -> list[LastCheck]:
    """The last check of every metric that was ever checked, in three queries; in one where none was."""
    lasts = {metric: ended_checks[0] for metric, ended_checks in recent_checks().items()}
    if not lasts:
        return []
    versions = MetricVersion.objects.filter(
        metric__in=lasts, status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED
    )
    current = {version.metric_id: version for version in versions.select_related("metric")}
    without_scorer = Metric.objects.filter(pk__in=lasts, scorer__in=RetiredScorer.objects.values("name"))
    retired_metrics = set(without_scorer.values_list("pk", flat=True))
    conditions = {
        metric: Condition.RETIRED if metric in retired_metrics else condition_of(last, current.get(metric))
        for metric, last in lasts.items()
    }
    return [LastCheck(conditions[metric], last.finished_at) for metric, last in lasts.items()]


def describe_day(scorers: Sequence[WatchedScorer]) -> str:
    """The verdict of the day on all scorers, in a sentence or two."""
    checked_scorers = [scorer for scorer in scorers if scorer.last and not scorer.is_retired]
    count = len(checked_scorers)
    if not count:
        return "Nobody knows yet: no scorer has been checked. The first check comes with the first model measured here."
    unstable_scorers = [scorer for scorer in checked_scorers if scorer.condition is not Condition.STABLE]
    if unstable_scorers:
        states = "; ".join(f"{scorer.metric.title}: {scorer.condition.label.lower()}" for scorer in unstable_scorers)
        return f"{count - len(unstable_scorers)} of {count} scorers that have been checked are stable. {states}."
    if count == 1:
        return (
            "Yes: the one scorer that has been checked still gives the scores that it gave when its version was opened."
        )
    return (
        f"Yes: all {count} scorers that have been checked still give the scores they gave when their versions opened."
    )


def condition_of(last: EndedCheck | None, current: MetricVersion | None) -> Condition:
    """By the last check of a metric, and by the measured version that its readers see, with its metric."""
    if last is None:
        return Condition.NEVER
    is_righted = last.condition is Condition.DRIFTED and current is not None and settles(current, last)
    return Condition.RIGHTED if is_righted else last.condition


def settles(version: MetricVersion, check: EndedCheck) -> bool:
    """Whether `version` was made with the scorer as the check found it, whoever had it opened.

    Where likelihoods drifted only outputs that were collected anew are, which are of a later epoch.
    """
    if check.version is None or check.epoch is None:
        return False
    if version.metric.formula.recollects:
        return version.epoch > check.epoch
    return version.number > check.version


def recent_checks() -> dict[int, list[EndedCheck]]:
    """The last checks of each metric that came to an end, the newest first, in one query."""
    newest_first = [F("checks__finished_at").desc(), F("checks__pk").desc()]
    # Numbered from the side of metrics, so that the long statistics of checks, before which a database may have to read
    # to reach their metric, stay where they are.
    numbered_metrics = Metric.objects.order_by().filter(checks__state__in=ENDED, checks__finished_at__isnull=False)
    newest = numbered_metrics.annotate(place=Window(RowNumber(), partition_by=[F("pk")], order_by=newest_first)).filter(
        place__lte=MOST_UNANSWERED
    )
    rows = (
        ControlCheck.objects.filter(pk__in=newest.values("checks__pk"))
        .order_by("metric", "-finished_at", "-pk")
        .values_list(*CHECK, "finished_at")
    )
    return {
        metric: list(metric_checks)
        for metric, metric_checks in groupby((EndedCheck(*row) for row in rows), key=lambda check: check.metric)
    }


def recent_checks_of(control: ControlSet) -> list[EndedCheck]:
    """The last checks of a control set that came to an end, the newest first, in one query."""
    rows = ControlCheck.objects.filter(control_set=control, state__in=ENDED, finished_at__isnull=False)
    return [
        EndedCheck(*row)
        for row in rows.order_by("-finished_at", "-pk").values_list(*CHECK, "finished_at")[:MOST_UNANSWERED]
    ]


def next_due(control: ControlSet | None, ended_checks: Sequence[EndedCheck]) -> datetime | None:
    """When the control set is due to be scored again; `ended_checks` are the metric's, the newest first."""
    if control is None:
        return None
    own = [check for check in ended_checks if check.control_set == control.pk]
    last = own[0].finished_at if own else None
    return (last or control.created_at) + pause_after([ControlCheck(verdict=check.verdict) for check in own])


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check among others: what decided it, and how far scores had moved, of the attribute that moved most.

    `overall` is that of `scoring.drift.DriftReport`; of a check without an answer it is empty. Checks by rule 1 have
    the mean absolute difference instead of the mean shift, which was no larger, and do not know what noise explains.
    `opened`: number of the version that it opened.
    """

    check: EndedCheck
    decided_by: str
    overall: dict[str, float | None]
    opened: int | None


def checks_page(metric: Metric, number: int) -> "tuple[Page[int], list[CheckRow]]":
    """A page of the checks of `metric` that came to an end, the newest first, in four queries."""
    ended_checks = ControlCheck.objects.filter(metric=metric, state__in=ENDED).order_by("-finished_at", "-pk")
    page = Paginator(ended_checks.values_list("pk", flat=True), CHECKS_A_PAGE).get_page(number)
    page_checks = ended_checks.filter(
        pk__in=list(page.object_list)
    )  # statistics are long: those of a page are read, not of all
    check_rows = [
        (EndedCheck(*row[:-2]), row[-2], row[-1])
        for row in page_checks.values_list(*CHECK, "finished_at", "statistics__decided_by", "statistics__overall")
    ]
    opened_versions = dict(
        MetricVersion.objects.filter(opened_because__in=[check.pk for check, _, _ in check_rows]).values_list(
            "opened_because", "number"
        )
    )
    return page, [
        CheckRow(check, decided_by or check.reason, of_any_schema(overall or {}), opened_versions.get(check.pk))
        for check, decided_by, overall in check_rows
    ]


def of_any_schema(overall: dict[str, float | None]) -> dict[str, float | None]:
    """What a chart shows of a check, of rule 1 too."""
    return overall if "mean_shift" in overall else overall | {"mean_shift": overall.get("mean_abs")}
