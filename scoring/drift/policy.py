"""What counts as material, and at which level tests are made."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.refusals import Refused

LARGEST_MARGIN = 0.005  # as a share of a measure's scale
ERROR_SHARE = 0.25  # of an entry's standard error: 95% intervals that are off by as much still cover 94.3%
FAR = 1e-4  # a text moved far where noise moves it as far less often than this
POWER = 0.99  # at which a change is called detectable


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of a metric's drift checks; every field is a plain number that JSON can hold.

    threshold: a text is labelled where its score is strictly above; None where scores are not probabilities, as
        log-perplexities are not, and then no label flips.
    least_flips, flip_share: so many label flips of texts that moved beyond their noise are material, or that share of
        the texts where it is more.
    mean_difference: a mean shift by more is material. Of log-perplexities, 0.005 is a perplexity that moved by half a
        percent.
    confidence: of the interval of a reported measure's change, which is to lie within the margin of equivalence.
    alpha: the false-alarm rate of all checks of a metric version together, of the tests that have one.
    Raises Refused, naming the field, where a value is out of its range.
    """

    threshold: float | None = 0.5
    least_flips: int = 2
    flip_share: float = 0.01
    mean_difference: float = 0.005
    confidence: float = 0.90
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise Refused.of_field("threshold", f"{self.threshold} is not finite; give a score, or None for no labels")
        if self.least_flips < 1:
            raise Refused.of_field("least_flips", f"{self.least_flips} is below 1; give the flips that are material")
        if not self.mean_difference > 0:
            raise Refused.of_field(
                "mean_difference", f"{self.mean_difference} is not above 0; give a difference of scores"
            )
        for name in ("flip_share", "confidence", "alpha"):
            if not 0 < getattr(self, name) < 1:
                raise Refused.of_field(name, f"{getattr(self, name)} does not lie between 0 and 1; give a share")

    def material_flips(self, n: int) -> int:
        """The number of label flips among `n` texts from which on they are material."""
        return max(self.least_flips, math.ceil(round(self.flip_share * n, 9)))  # 0.01 * 700 is a little above 7


def alpha_of_check(alpha: float, check: int) -> float:
    """What the check with this number, from 1, may spend of `alpha`: 6 alpha / (pi^2 check^2), which add up to alpha.

    Raises ValueError where the number is below 1.
    """
    if check < 1:
        raise ValueError(f"check: {check} is below 1; number the checks of a metric version from 1")
    return 6 * alpha / (math.pi * check) ** 2


def equivalence_margin(standard_errors: NDArray[np.float64], largest: float = 1.0) -> float:
    """How much a measure may change and still be called the same, from the standard errors of the board's entries.

    A quarter of their median, at most 0.005 of the scale, which runs from 0 to `largest`. A shift that is small beside
    what is known of an entry misleads nobody, however many entries there are: an interval of 95% that is off by a
    quarter of its standard error covers 94.3%. Without entries it is the most. Raises ValueError where a standard error
    is not a number from 0 on.
    """
    if not np.isfinite(standard_errors).all() or (standard_errors < 0).any():
        raise ValueError("standard_errors: one is not a number from 0 on; leave out entries without an interval")
    most = LARGEST_MARGIN * largest
    return min(most, ERROR_SHARE * float(np.median(standard_errors))) if len(standard_errors) else most
