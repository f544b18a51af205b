"""A share of labelled texts, corrected for the error rates of who labels, with an interval that carries both samples.

Rogan & Gladen 1978 (Am. J. Epidemiol. 107:71) for the estimate, Lang & Reiczigel 2014 (Prev. Vet. Med. 113:13) for the
interval. Both take the error rates to be those of the texts in question: they cannot know of rates that differ there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from scoring.statistics.auc import CONFIDENCE

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """What a sample of texts of known labels says of who labels.

    sensitivity: the share of the `harmful` texts that is labelled; specificity: the share of the `benign` ones that is
    not. `harmful` and `benign` are numbers of texts.
    """

    sensitivity: float
    specificity: float
    harmful: int
    benign: int

    @property
    def youden(self) -> float:
        """Youden's J: sensitivity + specificity - 1; 0 is chance, 1 is without error."""
        return self.sensitivity + self.specificity - 1

    def youden_low(self, confidence: float = CONFIDENCE) -> float:
        """The lower end of the interval of J, by Wald's after one text of each answer is added to both samples."""
        rates, sizes = _smooth(self)
        spread = np.sqrt((rates * (1 - rates) / sizes).sum())
        return float(rates.sum() - 1 - _quantile(confidence) * spread)


@dataclass(frozen=True, slots=True)
class CorrectedShare:
    """The estimate with its interval, both within 0..1."""

    value: float
    low: float
    high: float


class Uncorrectable(ValueError):
    """A share that these error rates do not correct; the message says why, without a subject to name."""


def correct_shares(shares: ArrayLike, rates: ErrorRates) -> Array:
    """(share + specificity - 1) / (sensitivity + specificity - 1), within 0..1. Raises Uncorrectable where J <= 0."""
    if rates.youden <= 0:
        raise Uncorrectable("sensitivity and specificity together are no better than chance")
    estimates = (np.asarray(shares, dtype=np.float64) + rates.specificity - 1) / rates.youden
    return np.asarray(np.clip(estimates, 0, 1), dtype=np.float64)


def corrected_intervals(
    shares: ArrayLike, trials: ArrayLike, rates: ErrorRates, confidence: float = CONFIDENCE
) -> tuple[Array, Array]:
    """Lang & Reiczigel's intervals of corrected shares of `trials` independent texts, not yet cut to 0..1.

    z² / 2 texts of either label are added to the share's own sample, and one to each sample of known labels; the delta
    method then gives the spread, and a term of the second order moves the centre. Bounds are NaN where J <= 0 with
    these texts added.
    """
    z = _quantile(confidence)
    (sensitivity, specificity), (harmful, benign) = _smooth(rates)
    youden = sensitivity + specificity - 1
    n = np.asarray(trials, dtype=np.float64) + z**2
    share = (np.asarray(shares, dtype=np.float64) * (n - z**2) + z**2 / 2) / n
    if youden <= 0:
        return np.full_like(share, np.nan), np.full_like(share, np.nan)
    centre = (share + specificity - 1) / youden
    errors = sensitivity * (1 - sensitivity) / harmful, specificity * (1 - specificity) / benign
    shift = 2 * z**2 * (centre * errors[0] - (1 - centre) * errors[1])
    variance = share * (1 - share) / n + centre**2 * errors[0] + (1 - centre) ** 2 * errors[1]
    half = z * np.sqrt(variance) / youden
    return centre + shift - half, centre + shift + half


def effective_trials(share: float, low: float, high: float, confidence: float = CONFIDENCE) -> float:
    """How many independent texts would know a share as well as its interval low..high says, whatever it was made by.

    Texts of one prompt resemble one another: their number alone would promise too much. On the logit scale, where the
    intervals of shares are symmetric, half of the interval is z standard errors; at 0 and 1 Wilson's interval is turned
    around. Raises Uncorrectable for an interval of no width, or that does not hold the share.
    """
    z = _quantile(confidence)
    if not (low <= share <= high and low < high):
        raise Uncorrectable("its own interval has no width")
    if share in (0, 1):
        width = high if share == 0 else 1 - low
        return z**2 * (1 - width) / width
    half = (scipy.special.logit(high) - scipy.special.logit(low)) / 2
    return float(z**2 / (half**2 * share * (1 - share))) if np.isfinite(half) else 0.0


def correct_share(
    share: float, low: float, high: float, rates: ErrorRates, confidence: float = CONFIDENCE
) -> CorrectedShare:
    """A share with its interval low..high, corrected. Raises Uncorrectable where that says nothing, or is nonsense."""
    if rates.youden_low(confidence) <= 0:
        raise Uncorrectable("sensitivity and specificity together cannot be told from chance")
    value = float(correct_shares(share, rates))
    trials = effective_trials(share, low, high, confidence)
    lower, upper = (float(end) for end in corrected_intervals(share, trials, rates, confidence))
    if upper < 0:
        raise Uncorrectable(
            "fewer of its texts are labelled than of the benign ones: these error rates cannot be those of its texts"
        )
    if lower > 1:
        raise Uncorrectable(
            "more of its texts are labelled than of the harmful ones: these error rates cannot be those of its texts"
        )
    if lower <= 0 and upper >= 1:
        raise Uncorrectable("anything from 0 to 1 is possible")
    return CorrectedShare(value, min(value, max(0.0, lower)), max(value, min(1.0, upper)))


def _smooth(rates: ErrorRates) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """Sensitivity and specificity, and the sizes of their samples, with one text of each answer added."""
    sizes = np.array([rates.harmful, rates.benign], dtype=np.float64)
    return (np.array([rates.sensitivity, rates.specificity]) * sizes + 1) / (sizes + 2), sizes + 2


def _quantile(confidence: float) -> float:
    return float(scipy.stats.norm.ppf((1 + confidence) / 2))
