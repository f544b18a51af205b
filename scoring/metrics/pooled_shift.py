"""How scores moved over more texts than memory holds."""

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD
from scoring.metrics.agreement import AttributeShift

BINS = 2**20  # a score in 0..1 is rounded to a multiple of 1 / BINS


class PooledShift:
    """The shift of one attribute, of texts that are given part by part.

    The same as `agreement.distribution_shift` of all texts at once, but that the Wasserstein distance is of scores
    rounded to multiples of 1 / BINS, so at most 1 / BINS, about 1e-6, from the exact one. Memory: 8 MB.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self._threshold = threshold
        self._surplus = np.zeros(BINS + 1, dtype=np.int64)  # texts before less texts after, by rounded score
        self._n = self._missing = self._rose = self._fell = 0
        self._moved = 0.0

    def add(self, before: NDArray[np.floating], after: NDArray[np.floating]) -> None:
        """Take in scores [n] of the same texts, NaN where there is none. Raises ValueError outside 0..1."""
        known = ~(np.isnan(before) | np.isnan(after))
        x, y = before[known].astype(np.float64), after[known].astype(np.float64)
        for values, sign in ((x, 1), (y, -1)):
            if ((values < 0) | (values > 1)).any():
                raise ValueError("scores: one lies outside 0..1; give probabilities, and NaN where there is none")
            np.add.at(self._surplus, np.rint(values * BINS).astype(np.int64), sign)
        above, now_above = x > self._threshold, y > self._threshold
        self._n += len(x)
        self._missing += len(before) - len(x)
        self._rose += int((~above & now_above).sum())
        self._fell += int((above & ~now_above).sum())
        self._moved += float((y - x).sum())

    def shift(self, attribute: str) -> AttributeShift | None:
        """The shift of all texts so far; None where not one has both scores."""
        if not self._n:
            return None
        # Area between the two distribution functions.
        distance = float(np.abs(np.cumsum(self._surplus)).sum()) / BINS / self._n
        return AttributeShift(
            attribute, self._n, self._missing, distance, self._moved / self._n, self._rose, self._fell
        )
