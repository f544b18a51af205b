"""The area under the curve that an indifferent model would have, where each class is shifted by offsets of its own.

An area compares `value - offset` of positives and negatives. Where the offsets of the classes differ, values that are
unrelated to the class do not give 0.5. They give the expectation of the area over every assignment of the same values
to the same items: a U-statistic of the values, computed exactly and without permutations.
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
        """How much each positive [n] and each negative [m] moves the value; the squares sum to its variance.

        This is the first-order (Hajek) projection with both counts fixed: an item's value counts among all n + m items,
        its offset in its own class. It is scaled as DeLong's, so that it adds to an area's influence item by item.
        """
        n, m = len(self.positive_effects), len(self.negative_effects)
        rows = []
        for count, values, offsets in (
            (n, self.value_effects[:n], self.positive_effects),
            (m, self.value_effects[n:], self.negative_effects),
        ):
            effects = count / (n + m) * (values - values.mean()) + offsets - self.value
            rows.append(effects / np.sqrt(count * max(count - 1, 1)))
        return rows[0], rows[1]


def indifference(values: Array, positive_offsets: Array, negative_offsets: Array) -> Indifference:
    """The mean over pairs of a positive i and a negative j, and over ordered pairs (a, b) of distinct items, of
    [values[a] - positive_offsets[i] > values[b] - negative_offsets[j]], a tie counting 1/2.

    values: finite float64 [n + m], positives first; offsets: [n] and [m]. It sorts once and counts for each distinct
    pair of offsets: O(D N log N) with D distinct pairs of offsets and N = n + m. Raises ValueError where a class is
    empty or the counts do not match.
    """
    n, m = len(positive_offsets), len(negative_offsets)
    if not n or not m or len(values) != n + m:
        raise ValueError(f"values: {len(values)} for {n} positives and {m} negatives; give one each, and of both some")
    positive, positive_places, positive_counts = np.unique(positive_offsets, return_inverse=True, return_counts=True)
    negative, negative_places, negative_counts = np.unique(negative_offsets, return_inverse=True, return_counts=True)
    shifts = (positive[:, None] - negative).ravel()
    weights = np.outer(positive_counts / n, negative_counts / m).ravel()
    order = np.argsort(values)
    sorted_values = values[order]
    shares = np.empty(len(shifts))
    effects = np.zeros(n + m)
    step = max(1, CELLS // (n + m))
    for begin in range(0, len(shifts), step):
        block = slice(begin, begin + step)
        shares[block], block_effects = _count(sorted_values, shifts[block], weights[block])
        effects += block_effects
    table = shares.reshape(len(positive), len(negative))
    value_effects = np.empty(n + m)
    value_effects[order] = effects
    return Indifference(
        float(weights @ shares),
        value_effects,
        (table @ (negative_counts / m))[positive_places],
        ((positive_counts / n) @ table)[negative_places],
    )


def _count(sorted_values: Array, shifts: Array, weights: Array) -> tuple[Array, Array]:
    """The share of ordered pairs that differ by more than each shift, and the effects of the items in order."""
    size, pairs = len(sorted_values), len(sorted_values) - 1
    queries = sorted_values - shifts[:, None]
    counts_below = np.searchsorted(sorted_values, queries - TIE)  # [shifts, size]: how many are less
    tied = np.append(sorted_values, np.inf)[counts_below] <= queries + TIE
    itself = (shifts < -TIE).astype(np.float64) + (np.abs(shifts) <= TIE) / 2  # no item is paired with itself
    wins = counts_below - itself[:, None]
    pair_weights = np.repeat(weights, size)
    query_weights = np.bincount(counts_below.ravel(), pair_weights, minlength=size + 1).astype(np.float64)
    if tied.any():
        counts_up_to = counts_below.copy()
        counts_up_to[tied] = np.searchsorted(sorted_values, queries[tied] + TIE, "right")
        wins += (counts_up_to - counts_below) / 2
        query_weights = (query_weights + np.bincount(counts_up_to.ravel(), pair_weights, minlength=size + 1)) / 2
    # The items before a query's place lose to it: sum from the end over the places of the queries.
    losses = np.cumsum(query_weights[::-1])[::-1][1:] - weights @ itself
    return wins.sum(axis=1) / (size * pairs), (weights @ wins + losses) / pairs
