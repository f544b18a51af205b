"""Scales that numbers are drawn on: of whiskers, and of shades on either side of where indifference would be."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.metrics.measures import Measure

LEVELS = 4  # shades on either side of the anchor
ROUND = (1, 2, 2.5, 5, 10)  # steps that read well, times a power of ten
STEPS = 4  # about as many round steps in a scale of whiskers


@dataclass(frozen=True, slots=True)
class WhiskerScale:
    """From `start` to `end`, both round numbers."""

    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the scale; beyond its ends at the nearer one."""
        share = (value - self.start) / (self.end - self.start)
        return round(100 * min(max(share, 0.0), 1.0), 1)


def whole_scale(measure: Measure) -> WhiskerScale:
    """The scale of all values that a measure can have."""
    return WhiskerScale(-measure.largest if measure.smallest < 0 else 0.0, measure.largest)


def fit_scale(measure: Measure, values: Iterable[float]) -> WhiskerScale:
    """The shortest scale with round ends that holds `values` and the measure's neutral value; its whole one for none.

    That of a measure whose values may be negative has 0 in its middle.

    values: all that is to be drawn, ends of intervals and indifferent values among it.
    """
    places = list(values)
    if not places:
        return whole_scale(measure)
    if measure.neutral is not None:
        places.append(measure.neutral)
    low, high = min(places), max(places)
    if measure.smallest < 0:  # its zero stays in the middle
        low, high = min(low, -high), max(high, -low)
    step = round_up((high - low) / STEPS) if high > low else round_up(abs(high) / STEPS)
    whole = whole_scale(measure)
    # Rounded, lest 0.30000000000000004 be the end of a scale.
    start = round(max(math.floor(low / step + 1e-9) * step, whole.start), 9)
    end = round(min(math.ceil(high / step - 1e-9) * step, whole.end), 9)
    return WhiskerScale(start, end) if end > start else whole


def round_up(step: float) -> float:
    """The next number that reads well."""
    if step <= 0:
        return 0.01
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in ROUND if times * power >= step * (1 - 1e-9))


@dataclass(frozen=True, slots=True)
class Shades:
    """Which shade a value has: `step` wide each, LEVELS on either side of the one round the anchor.

    best: 1 where higher values are better, else -1. typical: whether the anchor is but the median of what is shown, for
    want of a neutral value. own: whether it is what each model would have if it were indifferent; then shades, and
    `anchor`, 0, are of differences from that.
    """

    anchor: float
    step: float
    typical: bool
    best: float
    own: bool = False
    low: float = -math.inf  # the least and the largest value that there can be
    high: float = math.inf

    def level(self, value: float, indifferent: float | None = None) -> int:
        """From -LEVELS, the worst, to LEVELS. indifferent: the model's own indifferent value there, where it has one.

        0 where shades are of differences from that and it is not known.
        """
        middle = indifferent if self.own else self.anchor
        if middle is None:
            return 0
        difference = value - middle
        return min(LEVELS, math.floor(abs(difference) / self.step + 0.5)) * (1 if difference * self.best > 0 else -1)

    @property
    def legend(self) -> list[tuple[int, float]]:
        """Each level that a value can have, the worst first, and the value in its middle, as far as there can be it."""
        middles = [(level, self.anchor + self.best * level * self.step) for level in range(-LEVELS, LEVELS + 1)]
        reach = (0.5 + 1e-6) * self.step
        return [
            (level, min(max(middle, self.low), self.high))
            for level, middle in middles
            if self.low - reach <= middle <= self.high + reach
        ]


def fit_shades(measure: Measure, values: Sequence[float], indifferent: Sequence[float | None]) -> Shades:
    """The shades of values of one measure, anchored at its neutral value.

    indifferent: the model's own of each value, None where it is not known. A measure whose models have such values is
    anchored at each of these; one that has none at the median.
    """
    best = -1.0 if measure.direction == "lower" else 1.0
    distances = [abs(value - own) for value, own in zip(values, indifferent, strict=True) if own is not None]
    if distances:
        # Four of these steps lead no farther than the largest difference that there can be.
        return Shades(0.0, round_up(max(distances) / (LEVELS + 0.5)), False, best, own=True)
    neutral = measure.neutral
    anchor = float(np.median(values)) if neutral is None and len(values) else neutral or 0.0
    farthest = float(np.abs(np.asarray(values) - anchor).max()) if len(values) else 0.0
    step = round_up(farthest / (LEVELS + 0.5))
    return Shades(anchor, step, neutral is None, best, low=measure.smallest, high=measure.largest)
