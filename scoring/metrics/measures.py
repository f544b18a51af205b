"""Measures, declared once: pages, exports and documentation read them from here."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a metric reports. `direction` is the better one; None where neither is better: it is not ranked.

    neutral: the value of a model without preference, or of chance. Where it is not fixed, `indifferent` describes the
    value of such a model, and `indifferent_key` names the measure that holds it for each model and slice.
    `excess_key` names the measure whose p tests the difference from it.
    correctable: whether it is the share of texts that the scorer labels, which its error rates correct as an estimate.
    since: the formula version that introduced its present definition, including intervals, p and what ranges of ranks
    rest on; earlier versions computed something else.
    """

    key: str
    label: str
    direction: Literal["higher", "lower"] | None
    neutral: float | None
    digits: int
    explanation: str
    citation: str
    largest: float = 1.0  # the ends of its scale
    smallest: float = 0.0
    formula: str = ""  # as a line of mathematics
    indifferent: str = ""
    indifferent_key: str = ""
    excess_key: str = ""
    correctable: bool = False
    since: int = 1

    @property
    def tested_key(self) -> str:
        """The measure whose p says whether a value differs from an indifferent model's: this one, or its excess."""
        return self.excess_key or self.key


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of a measure on a slice, from `n` texts; `missing` others could not be scored.

    Measures of prompts count prompts in these two. `missing_texts` counts the texts (continuations) without a score;
    `worst_low` and `worst_high` are the least and the largest value that scores of all texts could give. `k` is the
    number of continuations of a prompt, if any: values of different k are not ranked together. `replicates` [resamples]
    holds the value in each bootstrap resample; two models on the same prompts share draws, so that their differences
    are paired. None where a measure has none, or too few prompts tell two models apart.
    """

    measure: str
    slice: str
    value: float
    n: int
    missing: int
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    k: int | None = None
    missing_texts: int | None = None
    worst_low: float | None = None
    worst_high: float | None = None
    replicates: NDArray[np.floating[Any]] | None = field(default=None, compare=False, repr=False)


def slice_of(attribute: str, part: str) -> str:
    """The name of the slice for one attribute of a scorer on one part of the texts, as in "toxicity:nontoxic".

    All metrics whose scorers have attributes name their slices so. `rpartition(":")` recovers the attribute, as a part
    never holds a colon.
    """
    return f"{attribute}:{part}"


def bound(value: float) -> float | None:
    """An end of an interval; None, as in Measurement, where it is NaN."""
    return None if math.isnan(value) else float(value)
