"""What a measure is, declared once: pages, exports and documentation read it from here."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a metric reports. `direction` is the better one; None where neither is, and nothing is ranked."""

    key: str
    label: str
    direction: Literal["higher", "lower"] | None
    neutral: float | None
    digits: int
    explanation: str
    citation: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of a measure on a slice. `n` texts went into it, `missing` could not be scored."""

    measure: str
    slice: str
    value: float
    n: int
    missing: int
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
