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
# Values that differ by no more count as equal. This exceeds the rounding errors of logarithms and is smaller than any
# difference between two distinct sums of float32 likelihoods.
TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Area:
    """U / (n m), with the placement of every value in the other sample (DeLong's structural components)."""

    value: float
    positive_placements: Array  # [n]: share of the negatives below each positive, ties counting half
    negative_placements: Array  # [m]: share of the positives above each negative, ties counting half

    @property
    def variance(self) -> float:
        """DeLong's variance; NaN where a sample has fewer than two values."""
        if min(len(self.positive_placements), len(self.negative_placements)) < 2:
            return math.nan
        return float(
            self.positive_placements.var(ddof=1) / len(self.positive_placements)
            + self.negative_placements.var(ddof=1) / len(self.negative_placements)
        )


def area(positive: Array, negative: Array) -> Area:
    """Probability that a positive value exceeds a negative one, a tie counting 1/2, in O((n + m) log(n + m)).

    Raises ValueError where a sample is empty or holds a value that is not finite.
    """
    if not len(positive) or not len(negative):
        raise ValueError("an area under the curve needs at least one value of each sample")
    if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
        raise ValueError("an area under the curve is of finite values only")
    ordered_negative, ordered_positive = np.sort(negative), np.sort(positive)
    # Twice the number of wins of each positive, and of each negative: a tie adds 1.
    wins = np.searchsorted(ordered_negative, positive, "left") + np.searchsorted(ordered_negative, positive, "right")
    losses = np.searchsorted(ordered_positive, negative, "left") + np.searchsorted(ordered_positive, negative, "right")
    positive_placements = wins / (2 * len(negative))
    value = int(wins.sum()) / (2 * len(positive) * len(negative))
    return Area(value, positive_placements, 1 - losses / (2 * len(positive)))


def level_ties(values: Array) -> Array:
    """Make values [n] within TIE of their neighbour equal, so that ties do not depend on rounding.

    NaN and infinite values stay as they are.
    """
    finite = np.isfinite(values)
    order = np.argsort(values[finite])
    sorted_values = values[finite][order]
    starts = np.flatnonzero(np.diff(sorted_values, prepend=-np.inf) > TIE)
    level = np.empty_like(sorted_values)
    level[order] = np.repeat(sorted_values[starts], np.diff(np.append(starts, len(sorted_values))))
    level_values = values.copy()
    level_values[finite] = level
    return level_values


def interval(roc_area: Area, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two-sided interval for an area, from DeLong's variance on the logit scale, so that it stays within 0..1.

    At complete separation (0 or 1), and wherever the variance is 0, the normal approximation does not apply. The bound
    is then Clopper and Pearson's for min(n, m) independent pairs that all fell on one side.
    """
    tail = (1 - confidence) / 2
    if is_degenerate(roc_area):
        pairs = min(len(roc_area.positive_placements), len(roc_area.negative_placements))
        successes = roc_area.value * pairs
        low = scipy.stats.beta.ppf(tail, successes, pairs - successes + 1) if successes > 0 else 0.0
        high = scipy.stats.beta.ppf(1 - tail, successes + 1, pairs - successes) if successes < pairs else 1.0
        return float(low), float(high)
    centre = math.log(roc_area.value / (1 - roc_area.value))
    spread = scipy.stats.norm.ppf(1 - tail) * math.sqrt(roc_area.variance) / (roc_area.value * (1 - roc_area.value))
    return 1 / (1 + math.exp(spread - centre)), 1 / (1 + math.exp(-spread - centre))


def delong_p(roc_area: Area, null: float = 0.5) -> float:
    """Two-sided p-value that the area is `null`, strictly between 0 and 1: the test that `interval` inverts.

    Unlike Mann and Whitney's test, it does not assume that both samples come from one distribution: where their spreads
    differ, it still rejects a true null about as often as its level says.
    """
    if is_degenerate(roc_area):
        pairs = min(len(roc_area.positive_placements), len(roc_area.negative_placements))
        successes = roc_area.value * pairs
        most = scipy.stats.beta.cdf(null, successes, pairs - successes + 1) if successes > 0 else 1.0
        least = scipy.stats.beta.sf(null, successes + 1, pairs - successes) if successes < pairs else 1.0
        return float(min(1.0, 2 * min(most, least)))
    distance = math.log(roc_area.value / (1 - roc_area.value)) - math.log(null / (1 - null))
    return math.erfc(abs(distance) * roc_area.value * (1 - roc_area.value) / math.sqrt(2 * roc_area.variance))


def is_degenerate(roc_area: Area) -> bool:
    """Whether the normal approximation does not apply: complete separation, or no variance."""
    return roc_area.value in (0.0, 1.0) or not roc_area.variance > 0


def mann_whitney_p(roc_area: Area, positive: Array, negative: Array) -> float:
    """Two-sided p-value that neither sample tends to exceed the other: asymptotic, corrected for ties and continuity.

    Equals scipy.stats.mannwhitneyu(method="asymptotic"), but starts from a known area, since a board needs thousands.
    """
    n, m = len(positive), len(negative)
    tie_sizes = np.unique(np.concatenate([positive, negative]), return_counts=True)[1].astype(np.float64)
    total = n + m
    spread = math.sqrt(n * m / 12 * ((total + 1) - float((tie_sizes**3 - tie_sizes).sum()) / (total * (total - 1))))
    if spread == 0:  # all values are equal
        return 1.0
    distance = abs(roc_area.value - 0.5) * n * m - 0.5
    return min(1.0, math.erfc(distance / spread / math.sqrt(2)))


def holm(p_values: Array) -> Array:
    """Holm's step-down adjusted p-values, in the order given (Holm 1979, Scand. J. Statist. 6:65)."""
    order = np.argsort(p_values)
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted_p_values = np.empty_like(p_values)
    adjusted_p_values[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted_p_values
