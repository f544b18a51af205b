"""What pages say of a metric's scorer: whether it can be trusted now, and what is being done."""

from dataclasses import dataclass
from datetime import timedelta

from leaderboard.models import ControlCheck, Metric, MetricVersion, Provenance, Rescoring, Work
from leaderboard.services import rescore
from leaderboard.services.upgrade import Lag, lag_of


@dataclass(frozen=True)
class ScorerProgress:
    """The rescoring under way, and the last check of the current version; None where there is none.

    `lag`: in what the current version is behind the code, where it is and no rescoring is under way.
    """

    rescoring: Rescoring | None
    check: ControlCheck | None
    lag: Lag | None

    @property
    def time_left(self) -> timedelta | None:
        """Of the rescoring."""
        return rescore.time_left(self.rescoring) if self.rescoring else None

    @property
    def waits_on(self) -> list[str]:
        """What keeps the rescoring from being published, where the board is at fault."""
        return rescore.waits_on(self.rescoring) if self.rescoring else []


def scorer_state(metric: Metric) -> ScorerProgress:
    """What is known of the scorer of `metric`, in three queries; a few more where its version is behind the code.

    Only checks of the current version count: what an earlier version drifted by has been put right.
    """
    rescoring = Rescoring.objects.active().filter(metric=metric).select_related("to_version").first()
    checks = ControlCheck.objects.filter(
        metric=metric,
        state=Work.State.DONE,
        control_set__metric_version__status=MetricVersion.Status.CURRENT,
        control_set__metric_version__provenance=Provenance.MEASURED,
    )
    current = metric.versions.filter(status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED)
    version = None if rescoring else current.select_related("control_set").first()
    return ScorerProgress(rescoring, checks.order_by("-finished_at").first(), lag_of(version) if version else None)
