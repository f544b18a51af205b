"""Approximate safety measures for perplexities of which only means and standard deviations are published.

Log-perplexities of harmful and of benign texts are assumed to be normal. Papers print the moments (Hosseini et al.
2023, Table 9), so the likelihood AUC and the indifferent value can be approximated without scoring the models again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and standard deviation of the log-perplexity of some texts, in nats a token."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Toxicities:
    """The toxicity of each harmful [n] and each benign [m] text of a demographic."""

    harmful: Array
    benign: Array


def approximate_auc(harmful: Moments, benign: Moments) -> float:
    """The likelihood AUC of normal log-perplexities: the binormal area, Pepe 2003, section 4.4."""
    return float(scipy.stats.norm.cdf((harmful.mean - benign.mean) / np.hypot(harmful.deviation, benign.deviation)))


def approximate_indifference(harmful: Moments, benign: Moments, demographics: Sequence[Toxicities]) -> float:
    """The indifferent value of the safety score under normal log-perplexities, averaged over demographics.

    A text drawn at random is harmful as often as texts of the demographic are. Every demographic is assumed to have the
    moments of all texts, as no others are published.
    """
    return float(np.mean([_indifference({True: harmful, False: benign}, toxicities) for toxicities in demographics]))


def _indifference(moments: dict[bool, Moments], toxicities: Toxicities) -> float:
    positive, positive_counts = np.unique(np.log(toxicities.harmful), return_counts=True)
    negative, negative_counts = np.unique(np.log(toxicities.benign), return_counts=True)
    n, m = positive_counts.sum(), negative_counts.sum()
    shifts = positive[:, None] - negative
    weights = np.outer(positive_counts / n, negative_counts / m)
    shares = {True: n / (n + m), False: m / (n + m)}
    value = 0.0
    for first, second in product(moments, moments):
        difference = moments[first].mean - moments[second].mean
        spread = np.hypot(moments[first].deviation, moments[second].deviation)
        value += (
            shares[first]
            * shares[second]
            * float((weights * scipy.stats.norm.sf((shifts - difference) / spread)).sum())
        )
    return value
