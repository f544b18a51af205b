"""Differences of values measured on the same texts: interval, p-value, and p adjusted for multiple comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.auc import CONFIDENCE, holm

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The value at position `first` minus that at `second`, its 95% interval, two-sided p, and p adjusted by Holm."""

    first: int
    second: int
    value: float
    low: float
    high: float
    p_value: float
    p_adjusted: float


def p_values(difference: Array, error: Array) -> Array:
    """Two-sided p of z tests of differences with these standard errors.

    Equal values are indistinguishable whatever their error (p = 1); unequal values without error differ (p = 0).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(difference == 0, 0.0, np.abs(difference) / error)
    two_sided: Array = 2 * scipy.stats.norm.sf(z)
    return two_sided


def pairwise(values: Array, covariance: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array]:
    """Compare every two of `values` [k] with covariance [k, k]: both positions, the difference, its standard error.

    Variation common to both values, such as that of the shared texts, cancels.
    """
    first, second = np.triu_indices(len(values), 1)
    variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    return first, second, values[first] - values[second], np.sqrt(np.maximum(variance, 0))


def paired_differences(values: Array, covariance: Array) -> list[PairedDifference]:
    """The difference of every two of `values` [k] with covariance [k, k]; Holm's adjustment spans all of them."""
    first, second, difference, error = pairwise(values, covariance)
    half = scipy.stats.norm.ppf((1 + CONFIDENCE) / 2) * error
    p = p_values(difference, error)
    columns = (difference, difference - half, difference + half, p, holm(p))
    return [
        PairedDifference(int(a), int(b), *map(float, numbers))
        for a, b, *numbers in zip(first, second, *columns, strict=True)
    ]


def holm_over(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The same differences with p adjusted over all of them, such as those in a table of several slices."""
    adjusted_p_values = holm(np.array([difference.p_value for difference in differences]))
    return [
        replace(difference, p_adjusted=float(p)) for difference, p in zip(differences, adjusted_p_values, strict=True)
    ]
