"""Shifts of scores over more texts than fit in memory."""

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD, is_above
from scoring.metrics.agreement import AttributeShift

BINS = 2**20  # a score in 0..1 is rounded to a multiple of 1 / BINS


class PooledShift:
    """The shift of one attribute over texts that arrive in parts.

    It equals `agreement.distribution_shift` of all texts at once, except that the Wasserstein distance is of scores
    rounded to multiples of 1 / BINS, and so at most 1 / BINS, about 1e-6, from the exact one. Memory: 8 MB.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self._threshold = threshold
        self._surplus = np.zeros(BINS + 1, dtype=np.int64)  # old minus new texts by rounded score
        self._n = self._missing = self._rose = self._fell = 0
        self._moved = 0.0

    def add(self, old_scores: NDArray[np.floating], new_scores: NDArray[np.floating]) -> None:
        """Add scores [n] of the same texts, NaN where a text has none. Raises ValueError outside 0..1."""
        has_both = ~(np.isnan(old_scores) | np.isnan(new_scores))
        x, y = old_scores[has_both].astype(np.float64), new_scores[has_both].astype(np.float64)
        for values, sign in ((x, 1), (y, -1)):
            if ((values < 0) | (values > 1)).any():
                raise ValueError("scores: one lies outside 0..1; give probabilities, and NaN where there is none")
            np.add.at(self._surplus, np.rint(values * BINS).astype(np.int64), sign)
        old_labels, new_labels = is_above(x, self._threshold), is_above(y, self._threshold)
        self._n += len(x)
        self._missing += len(old_scores) - len(x)
        self._rose += int((~old_labels & new_labels).sum())
        self._fell += int((old_labels & ~new_labels).sum())
        self._moved += float((y - x).sum())

    def shift(self, attribute: str) -> AttributeShift | None:
        """The shift of all texts so far; None where no text has both scores."""
        if not self._n:
            return None
        # Area between the two distribution functions.
        distance = float(np.abs(np.cumsum(self._surplus)).sum()) / BINS / self._n
        return AttributeShift(
            attribute, self._n, self._missing, distance, self._moved / self._n, self._rose, self._fell
        )
