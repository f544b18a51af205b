"""The digits of printed values: those of their source, if it rounds them; else those of their measure.

Intervals have the digits of their values. Only measured values have worst cases, with the digits of their measure.
"""

from typing import Protocol

from leaderboard.models import MetricVersion
from leaderboard.models.results import DERIVED
from scoring.metrics.formulas import MEASURES


class PrintedNumber(Protocol):
    """What pages print of a result, whatever else they know of it."""

    @property
    def measure(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def ci_low(self) -> float | None: ...
    @property
    def ci_high(self) -> float | None: ...
    @property
    def n(self) -> int | None: ...
    @property
    def missing(self) -> int: ...
    @property
    def missing_texts(self) -> int | None: ...
    @property
    def derived(self) -> bool: ...
    @property
    def interval_derived(self) -> bool: ...


def digits_of(version: MetricVersion, measure: str) -> int:
    """Decimals of values of `measure` under `version`, and of the indifferent values beside them."""
    return MEASURES[measure].digits if version.decimals is None else version.decimals


def shared_decimals(old_version: MetricVersion, new_version: MetricVersion) -> int | None:
    """Decimals that the sources of both versions print; None where no source rounds values of either."""
    return min(
        (version.decimals for version in (old_version, new_version) if version.decimals is not None), default=None
    )


def digits_between(old_version: MetricVersion, new_version: MetricVersion, measure: str) -> int:
    """Decimals of values of `measure` in a comparison of two versions: no more than both sources print."""
    decimals = shared_decimals(old_version, new_version)
    return MEASURES[measure].digits if decimals is None else decimals


def print_value(result: PrintedNumber, version: MetricVersion) -> str:
    """The value of a result of `version` as pages print it, marked where its source does not print it."""
    return f"{DERIVED if result.derived else ''}{result.value:.{digits_of(version, result.measure)}f}"
