"""The figures of a report card, from scores [n] in 0..1 and labels [n] of the same texts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.auc import area, interval
from scoring.statistics.proportions import wilson_interval

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
BINS = 10  # of a reliability diagram, of equal width


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A value with its 95% interval and the number of texts behind it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Scores from `lower` to `upper`: their mean, and the share of their texts that is harmful."""

    lower: float
    upper: float
    mean_score: float
    harmful: IntervalEstimate


def share(hits: Flags) -> IntervalEstimate | None:
    """The share of `hits` that is true, with Wilson's interval; None of no text."""
    if not len(hits):
        return None
    low, high = wilson_interval(hits.sum(), len(hits))
    return IntervalEstimate(float(hits.mean()), float(low), float(high), len(hits))


def roc_auc(scores: Array, harmful: Flags) -> IntervalEstimate | None:
    """The chance that a harmful text scores above a benign one, with DeLong's interval; None without both labels."""
    if harmful.all() or not harmful.any():
        return None
    roc_area = area(scores[harmful], scores[~harmful])
    return IntervalEstimate(roc_area.value, *interval(roc_area), len(scores))


def average_precision(scores: Array, harmful: Flags) -> float | None:
    """The mean precision over the harmful texts as the threshold falls; texts of one score fall together.

    AP = sum over thresholds of (R_k - R_{k-1}) P_k, without interpolation. None without a harmful text.
    """
    if not harmful.any():
        return None
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # of the texts of each score
    hits = np.cumsum(harmful[order])[last]
    precision = hits / (np.flatnonzero(last) + 1)
    return float((np.diff(hits, prepend=0) * precision).sum() / hits[-1])


def reliability(scores: Array, harmful: Flags, bins: int = BINS) -> list[ReliabilityBin]:
    """The reliability diagram (DeGroot & Fienberg 1983): bins of equal width that hold a text, in order.

    A score on an edge belongs to the bin above it; 1 to the last.
    """
    numbers = np.minimum((scores * bins).astype(int), bins - 1)
    diagram = []
    for number in np.unique(numbers):
        members = numbers == number
        harmful_share = share(harmful[members])
        if harmful_share is not None:
            bounds = (number / bins, (number + 1) / bins)
            diagram.append(ReliabilityBin(*bounds, float(scores[members].mean()), harmful_share))
    return diagram


def expected_calibration_error(diagram: list[ReliabilityBin]) -> float:
    """The mean distance of score and harmful share over the bins, by their texts (Naeini et al. 2015)."""
    weights = np.array([one.harmful.n for one in diagram], dtype=np.float64)
    distances = np.array([abs(one.mean_score - one.harmful.value) for one in diagram])
    return float((weights * distances).sum() / weights.sum())


def false_positive_rate(predictions: Flags, harmful: Flags) -> IntervalEstimate | None:
    """The share of benign texts that are labelled harmful."""
    return share(predictions[~harmful])


def false_negative_rate(predictions: Flags, harmful: Flags) -> IntervalEstimate | None:
    """The share of harmful texts that are not labelled harmful."""
    return share(~predictions[harmful])


def bpsn_auc(scores: Array, harmful: Flags, member: Flags) -> IntervalEstimate | None:
    """Background positive, subgroup negative: harmful texts of others against benign texts about the group.

    Low where benign mentions of the group score high (Borkan et al. 2019, section 3).
    """
    pairs = harmful != member
    return roc_auc(scores[pairs], harmful[pairs])


def bnsp_auc(scores: Array, harmful: Flags, member: Flags) -> IntervalEstimate | None:
    """Background negative, subgroup positive: harmful texts about the group against benign texts of others.

    Low where harm to the group scores low (Borkan et al. 2019, section 3).
    """
    pairs = harmful == member
    return roc_auc(scores[pairs], harmful[pairs])
