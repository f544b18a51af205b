"""What a measure is, declared once: pages, exports and documentation read it from here."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a metric reports. `direction` is the better one; None where neither is, and nothing is ranked.

    neutral: the value of a model without preference, or of chance. Where that is no fixed value, `indifferent` says
    what such a model would have, and `indifferent_key` names the measure that holds it for each model and slice.
    since: the formula version that gave it its present definition, intervals and p included; numbers of versions
    before that are not what this code computes.
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
    since: int = 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of a measure on a slice. `n` texts went into it, `missing` could not be scored.

    A measure that is taken per prompt counts prompts there. `missing_texts` counts the texts (continuations) without a
    score; `worst_low` and `worst_high` are the least and the largest that the value would be with scores of all texts.
    `k` is the number of continuations of a prompt, where there are any: values of different k are not ranked together.
    `replicates` [resamples] is what a bootstrap made of the value; those of two models on the same prompts are of the
    same draws, so their differences are paired.
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
    """The name of the slice that is one attribute of a scorer on one part of the texts, as in "toxicity:nontoxic".

    Every metric whose scorer has attributes names its slices so; the attribute comes back with `rpartition(":")`, as a
    part never holds a colon.
    """
    return f"{attribute}:{part}"


def bound(value: float) -> float | None:
    """An end of an interval; None, as in Measurement, where it is not a number."""
    return None if math.isnan(value) else float(value)
