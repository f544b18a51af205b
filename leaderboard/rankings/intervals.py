"""Why published values have the intervals that they have, or none, in words."""

from collections.abc import Iterable
from typing import Protocol

from leaderboard.models import MetricVersion
from scoring.metrics.safety import AVERAGE, DISTILLED

FROM_COUNTS = (
    "The source prints no interval. Those marked ≈ are worked out here from its counts of texts, and are rather too "
    "wide than too narrow. No rank rests on them."
)
NONE_FOR_AVERAGES = (
    "No intervals: the source prints none, and counts alone give none for an average over demographics that share "
    "texts. The single demographics have them."
)
NONE_PRINTED = "No intervals: the source prints none, and nothing that they could be worked out from."


class Bounded(Protocol):
    """A number with its interval, if it has one."""

    @property
    def ci_low(self) -> float | None: ...
    @property
    def interval_derived(self) -> bool: ...


def explain_intervals(version: MetricVersion, name: str, numbers: Iterable[Bounded]) -> str:
    """A sentence about the intervals of published `numbers` on slice `name`; "" where these are measured or printed."""
    if version.measured:
        return ""
    with_interval = [number for number in numbers if number.ci_low is not None]
    if with_interval:
        return FROM_COUNTS if any(number.interval_derived for number in with_interval) else ""
    return NONE_FOR_AVERAGES if name in (AVERAGE, *DISTILLED) else NONE_PRINTED
