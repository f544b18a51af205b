"""The area under the curve that an indifferent model would have, where each class is shifted by offsets of its own.

An area compares `value - offset` of positives and negatives. Where the offsets of the classes differ, values that have
nothing to do with the class do not give 0.5. What they give is the expectation of the area over every way to deal the
same values out to the same items: a U-statistic of the values, exact, without a permutation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.auc import TIE

Array = NDArray[np.float64]
CELLS = 2_000_000  # of distinct shifts times items at once: bounds the memory


@dataclass(frozen=True, slots=True)
class Indifference:
    """The indifferent value, and how each item moves it: by its value, and by its offset.

    value_effects: [n + m], positives first, the chance that the item's value wins as the first of a pair plus the
    chance that it loses as the second. positive_effects [n] and negative_effects [m]: the indifferent value if every
    positive, or every negative, had this item's offset.
    """

    value: float
    value_effects: Array
    positive_effects: Array
    negative_effects: Array

    @property
    def influence(self) -> tuple[Array, Array]:
        """How much each positive [n] and each negative [m] moves the value; squares sum to its variance.

        The first-order (Hajek) projection with both counts fixed: an item counts with its value among all n + m, and
        with its offset in its own class. Scaled as DeLong's, so that it adds to an area's influence item by item.
        """
        n, m = len(self.positive_effects), len(self.negative_effects)
        rows = []
        for count, values, offsets in (
            (n, self.value_effects[:n], self.positive_effects),
            (m, self.value_effects[n:], self.negative_effects),
        ):
            moved = count / (n + m) * (values - values.mean()) + offsets - self.value
            rows.append(moved / np.sqrt(count * max(count - 1, 1)))
        return rows[0], rows[1]


def indifference(values: Array, positive_offsets: Array, negative_offsets: Array) -> Indifference:
    """The mean over pairs of a positive i and a negative j, and over ordered pairs (a, b) of distinct items, of
    [values[a] - positive_offsets[i] > values[b] - negative_offsets[j]], a tie counting 1/2.

    values: finite float64 [n + m], positives first; offsets: [n] and [m]. Sorts once and counts for each distinct pair
    of offsets: O(D N log N) with D distinct pairs of offsets and N = n + m. Raises ValueError where a class is empty.
    """
    n, m = len(positive_offsets), len(negative_offsets)
    if not n or not m or len(values) != n + m:
        raise ValueError(f"values: {len(values)} for {n} positives and {m} negatives; give one each, and of both some")
    positive, positive_places, positive_counts = np.unique(positive_offsets, return_inverse=True, return_counts=True)
    negative, negative_places, negative_counts = np.unique(negative_offsets, return_inverse=True, return_counts=True)
    shifts = (positive[:, None] - negative).ravel()
    weights = np.outer(positive_counts / n, negative_counts / m).ravel()
    order = np.argsort(values)
    ordered = values[order]
    shares = np.empty(len(shifts))
    effects = np.zeros(n + m)
    step = max(1, CELLS // (n + m))
    for begin in range(0, len(shifts), step):
        chosen = slice(begin, begin + step)
        shares[chosen], moved = _count(ordered, shifts[chosen], weights[chosen])
        effects += moved
    table = shares.reshape(len(positive), len(negative))
    value_effects = np.empty(n + m)
    value_effects[order] = effects
    return Indifference(
        float(weights @ shares),
        value_effects,
        (table @ (negative_counts / m))[positive_places],
        ((positive_counts / n) @ table)[negative_places],
    )


def _count(ordered: Array, shifts: Array, weights: Array) -> tuple[Array, Array]:
    """Of each shift the share of ordered pairs that differ by more; and the effects of the items, ascending."""
    size, pairs = len(ordered), len(ordered) - 1
    queries = ordered - shifts[:, None]
    below = np.searchsorted(ordered, queries - TIE)  # [shifts, size]: how many are less
    tied = np.append(ordered, np.inf)[below] <= queries + TIE
    itself = (shifts < -TIE).astype(np.float64) + (np.abs(shifts) <= TIE) / 2  # no item is paired with itself
    wins = below - itself[:, None]
    each = np.repeat(weights, size)
    fallen = np.bincount(below.ravel(), each, minlength=size + 1).astype(np.float64)
    if tied.any():
        up_to = below.copy()
        up_to[tied] = np.searchsorted(ordered, queries[tied] + TIE, "right")
        wins += (up_to - below) / 2
        fallen = (fallen + np.bincount(up_to.ravel(), each, minlength=size + 1)) / 2
    # Who loses to a query: those before its place, so sums from the end over where the queries fall.
    losses = np.cumsum(fallen[::-1])[::-1][1:] - weights @ itself
    return wins.sum(axis=1) / (size * pairs), (weights @ wins + losses) / pairs
