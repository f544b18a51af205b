"""What pages say of a metric's scorer: whether it can be trusted now, and what is being done."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from leaderboard.models import ControlCheck, Metric, MetricVersion, Provenance, Rescoring, Work
from leaderboard.queries.drift import next_due, recent_checks_of
from leaderboard.services import rescore
from leaderboard.services.upgrade import Lag, lag_of
from leaderboard.services.versions import find_rescoring


@dataclass(frozen=True)
class ScorerProgress:
    """The rescoring under way, and the last check of the current version; None where there is none.

    version: the current one, unless a rescoring is under way. lag: how it lags behind the code, where it does.
    """

    rescoring: Rescoring | None
    check: ControlCheck | None
    version: MetricVersion | None
    lag: Lag | None

    @property
    def time_left(self) -> timedelta | None:
        """Of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None

    @property
    def next_check(self) -> datetime | None:
        """When the scorer is checked again at the latest, in one query; None where there is nothing to check."""
        control = getattr(self.version, "control_set", None)
        return next_due(control, recent_checks_of(control)) if control else None

    @property
    def waits_on(self) -> list[str]:
        """What keeps the rescoring from being published, where the board is at fault."""
        return rescore.waits_on(self.rescoring) if self.rescoring else []


def scorer_state(metric: Metric) -> ScorerProgress:
    """The state of the scorer of `metric`, in three queries; a few more where its version is behind the code.

    Only checks of the current version count: the rescoring that opened it settled what earlier ones found.
    """
    rescoring = find_rescoring(metric)
    checks = ControlCheck.objects.filter(
        metric=metric,
        state=Work.State.DONE,
        control_set__metric_version__status=MetricVersion.Status.CURRENT,
        control_set__metric_version__provenance=Provenance.MEASURED,
    )
    current = metric.versions.filter(status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED)
    version = None if rescoring else current.select_related("control_set").first()
    return ScorerProgress(
        rescoring,
        checks.only("verdict", "finished_at", "statistics").order_by("-finished_at").first(),
        version,
        lag_of(version) if version else None,
    )
