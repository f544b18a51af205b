"""The mapping of a successor's scores to those of the scorer before it: isotonic, fitted on one half of the texts.

Isotonic regression (Barlow et al. 1972; pooled adjacent violators) finds the non-decreasing function of the successor's
scores with the least squared error. It supposes nothing of the shape, and it changes no order but into a tie.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.attributes import is_above
from scoring.metrics.agreement import LabelAgreement, label_agreement

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

SEED = 20271  # of the split: any fixed number
FEWEST_TEXTS = 20  # in either half; a mapping of fewer says nothing


@dataclass(frozen=True, slots=True)
class ScoreMapping:
    """A non-decreasing function of scores: straight lines between the knots (x, y), constant outside them."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def apply(self, scores: NDArray[np.floating[Any]]) -> Array:
        """The scores [n] on the scale of the scorer before; NaN stays NaN."""
        mapped_scores: Array = np.interp(scores, self.x, self.y)
        return mapped_scores

    def find_threshold(self, threshold: float) -> float | None:
        """The successor's score above which the mapped score is above `threshold`; None where it never is, or always.

        A text has the old label by its mapped score exactly where its own score is above this one. The threshold counts
        as float32, as in `is_above`.
        """
        threshold = float(np.float32(threshold))
        if self.y[-1] <= threshold or self.y[0] > threshold:
            return None
        last = int(np.searchsorted(self.y, threshold, side="right")) - 1
        rise = self.y[last + 1] - self.y[last]
        return self.x[last] + (self.x[last + 1] - self.x[last]) * (threshold - self.y[last]) / rise


@dataclass(frozen=True, slots=True)
class MappingError:
    """How far mapped scores are from those of the scorer before, on n texts that the mapping was not fitted on.

    raw_mae, raw_rmse: the same of the successor's own scores. labels: above the old threshold by the old score, and by
    the mapped one.
    """

    n: int
    fitted_n: int
    mae: float
    rmse: float
    raw_mae: float
    raw_rmse: float
    labels: LabelAgreement

    def as_json(self) -> dict[str, Any]:
        """The error as values that JSON can hold."""
        return asdict(self)


def split_groups(groups: NDArray[Any], seed: int = SEED) -> Flags:
    """Which texts [n] the mapping is fitted on: those of half of the groups, drawn by `seed`.

    Texts of one group, as the continuations of one prompt, resemble each other and stay on one side.
    """
    names, numbers = np.unique(groups, return_inverse=True)
    drawn_groups = np.zeros(len(names), dtype=bool)
    drawn_groups[np.random.default_rng(seed).permutation(len(names))[: (len(names) + 1) // 2]] = True
    return drawn_groups[numbers]


def fit_mapping(successor: Array, old: Array) -> ScoreMapping:
    """The isotonic regression of `old` scores [n] on those of the `successor`; texts of one score are averaged first.

    Raises ValueError for no text, and for scores that are not finite.
    """
    if not len(successor) or successor.shape != old.shape or not np.isfinite([successor, old]).all():
        raise ValueError(f"scores: give as many finite ones of both, not {len(successor)} and {len(old)}")
    x, numbers, counts = np.unique(successor, return_inverse=True, return_counts=True)
    means = np.bincount(numbers, weights=old) / counts
    y = scipy.optimize.isotonic_regression(means, weights=counts.astype(np.float64)).x
    # Only the ends of each level stretch are knots: what lies between them is on the line anyway.
    is_knot = np.ones(len(x), dtype=bool)
    is_knot[1:-1] = (y[1:-1] != y[:-2]) | (y[1:-1] != y[2:])
    return ScoreMapping(tuple(x[is_knot].tolist()), tuple(y[is_knot].tolist()))


def judge_mapping(mapping: ScoreMapping, successor: Array, old: Array, threshold: float, fitted_n: int) -> MappingError:
    """The error of a mapping on texts [n, 1 or more] that it was not fitted on; threshold: of the old scorer."""
    mapped_scores = mapping.apply(successor)
    distances, raw_distances = mapped_scores - old, successor - old
    return MappingError(
        n=len(old),
        fitted_n=fitted_n,
        mae=float(np.abs(distances).mean()),
        rmse=float(np.sqrt((distances**2).mean())),
        raw_mae=float(np.abs(raw_distances).mean()),
        raw_rmse=float(np.sqrt((raw_distances**2).mean())),
        labels=label_agreement(is_above(old, threshold), is_above(mapped_scores, threshold)),
    )
