"""The area under the ROC curve as a Mann-Whitney statistic, with DeLong's variance.

DeLong, DeLong & Clarke-Pearson 1988 (Biometrics 44:837); logit interval: Pepe 2003, section 5.2.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
CONFIDENCE = 0.95
# Values that differ by no more are equal: more than the rounding of logarithms, and less than two different sums of
# float32 likelihoods ever differ.
TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Area:
    """U / (n m), with the placement of every value in the other sample (DeLong's structural components)."""

    value: float
    positive_placements: Array  # [n]: share of the negatives below each positive, ties counting half
    negative_placements: Array  # [m]: share of the positives above each negative, ties counting half

    @property
    def variance(self) -> float:
        """DeLong's variance; needs two values of each sample, else it is not a number."""
        if min(len(self.positive_placements), len(self.negative_placements)) < 2:
            return math.nan
        return float(
            self.positive_placements.var(ddof=1) / len(self.positive_placements)
            + self.negative_placements.var(ddof=1) / len(self.negative_placements)
        )


def area(positive: Array, negative: Array) -> Area:
    """Probability that a positive value exceeds a negative one, a tie counting 1/2, in O((n + m) log(n + m)).

    Raises ValueError when a sample is empty or holds a non-number.
    """
    if not len(positive) or not len(negative):
        raise ValueError("an area under the curve needs at least one value of each sample")
    if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
        raise ValueError("an area under the curve is of finite values only")
    ordered_negative, ordered_positive = np.sort(negative), np.sort(positive)
    below = np.searchsorted(ordered_negative, positive, "left") + np.searchsorted(ordered_negative, positive, "right")
    above = np.searchsorted(ordered_positive, negative, "left") + np.searchsorted(ordered_positive, negative, "right")
    positive_placements = below / (2 * len(negative))
    value = int(below.sum()) / (2 * len(positive) * len(negative))
    return Area(value, positive_placements, 1 - above / (2 * len(positive)))


def level_ties(values: Array) -> Array:
    """The same values [n], those within TIE of their neighbour made equal, so that ties do not hang on rounding.

    What is not a number stays so.
    """
    finite = np.isfinite(values)
    order = np.argsort(values[finite])
    ordered = values[finite][order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > TIE)
    level = np.empty_like(ordered)
    level[order] = np.repeat(ordered[starts], np.diff(np.append(starts, len(ordered))))
    levelled = values.copy()
    levelled[finite] = level
    return levelled


def interval(of: Area, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two-sided interval for an area, DeLong's variance on the logit scale, so that it stays within 0..1.

    At complete separation (0 or 1) and wherever the variance is 0 the normal approximation says nothing: there the
    bound is Clopper and Pearson's for min(n, m) independent pairs that all fell on one side.
    """
    tail = (1 - confidence) / 2
    if is_degenerate(of):
        pairs = min(len(of.positive_placements), len(of.negative_placements))
        successes = of.value * pairs
        low = scipy.stats.beta.ppf(tail, successes, pairs - successes + 1) if successes > 0 else 0.0
        high = scipy.stats.beta.ppf(1 - tail, successes + 1, pairs - successes) if successes < pairs else 1.0
        return float(low), float(high)
    centre = math.log(of.value / (1 - of.value))
    spread = scipy.stats.norm.ppf(1 - tail) * math.sqrt(of.variance) / (of.value * (1 - of.value))
    return 1 / (1 + math.exp(spread - centre)), 1 / (1 + math.exp(-spread - centre))


def delong_p(of: Area, null: float = 0.5) -> float:
    """Two-sided p that the area is `null`, strictly between 0 and 1: the test whose interval is `interval`.

    Unlike Mann and Whitney's, it does not take the two samples to be of one distribution: where their spreads differ it
    still rejects a true null about as often as it says.
    """
    if is_degenerate(of):
        pairs = min(len(of.positive_placements), len(of.negative_placements))
        successes = of.value * pairs
        most = scipy.stats.beta.cdf(null, successes, pairs - successes + 1) if successes > 0 else 1.0
        least = scipy.stats.beta.sf(null, successes + 1, pairs - successes) if successes < pairs else 1.0
        return float(min(1.0, 2 * min(most, least)))
    distance = math.log(of.value / (1 - of.value)) - math.log(null / (1 - null))
    return math.erfc(abs(distance) * of.value * (1 - of.value) / math.sqrt(2 * of.variance))


def is_degenerate(of: Area) -> bool:
    """Whether the normal approximation says nothing of it: complete separation, or no variance."""
    return of.value in (0.0, 1.0) or not of.variance > 0


def mann_whitney_p(of: Area, positive: Array, negative: Array) -> float:
    """Two-sided p that neither sample tends to exceed the other: asymptotic, corrected for ties and continuity.

    As scipy.stats.mannwhitneyu(method="asymptotic"), from an area that is already known: a board asks for thousands.
    """
    n, m = len(positive), len(negative)
    tied = np.unique(np.concatenate([positive, negative]), return_counts=True)[1].astype(np.float64)
    total = n + m
    spread = math.sqrt(n * m / 12 * ((total + 1) - float((tied**3 - tied).sum()) / (total * (total - 1))))
    if spread == 0:  # all values are equal
        return 1.0
    distance = abs(of.value - 0.5) * n * m - 0.5
    return min(1.0, math.erfc(distance / spread / math.sqrt(2)))


def holm(p_values: Array) -> Array:
    """Holm's step-down adjusted p-values, in the order given (Holm 1979, Scand. J. Statist. 6:65)."""
    order = np.argsort(p_values)
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
