"""How far an unchanged scorer differs from itself: the replicates of a control set's opening, and what they explain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
Score = Callable[[Sequence[str]], Matrix]  # texts to [n, attributes], NaN where a text has no score

REPLICATES = 21  # of each text at an opening, where scoring costs computing time alone
SCORINGS = 5  # of each text in a check of a noisy scorer, whose medians are compared; odd
ROUNDING = 1e-5  # of a scorer whose replicates are not equal bit for bit: smaller differences count as none
BEYOND = 5.0  # standard deviations of a text's own noise
SEED = 20230424  # of batch sizes and orders; any fixed number


def score_replicate(score: Score, texts: Sequence[str], number: int, seed: int = SEED) -> Array:
    """One scoring of all texts, float64 [n, attributes] in their order; `number` from 0 says which replicate it is.

    The first is scored as the texts come. Each other one has an order of its own, cut into batches of a size of its own
    (1 up to all texts, small ones as often as large ones), so that batching shows in the replicates.
    """
    if not number:
        return np.asarray(score(texts), dtype=np.float64)
    generator = np.random.default_rng((seed, number))
    order = generator.permutation(len(texts))
    size = round(len(texts) ** generator.random())
    batches = [order[start : start + size] for start in range(0, len(texts), size)]
    values = np.concatenate([np.asarray(score([texts[row] for row in rows]), dtype=np.float64) for rows in batches])
    replicate = np.empty_like(values)
    replicate[order] = values
    return replicate


@dataclass(frozen=True)
class Reference:
    """What a control set was scored at its opening: `replicates`, float64 [replicates, n, attributes], NaN where a text
    has no score, which is then so in every replicate.

    `rounding`: differences up to it count as none whatever the replicates show, as they are made on one machine: 0 for
    scores, more for likelihoods, whose last digits depend on the number of threads. One replicate, or equal ones, are
    of a scorer without noise. Raises ValueError where the replicates do not fit.
    """

    replicates: Array
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if self.replicates.ndim != 3 or not self.replicates.size:
            raise ValueError(f"replicates: their shape is {self.replicates.shape}; give [replicates, n, attributes]")
        if np.isinf(self.replicates).any():
            raise ValueError("replicates: a score is infinite; give NaN where there is none")
        is_missing = np.isnan(self.replicates)
        if (is_missing != is_missing[0]).any():
            raise ValueError("replicates: a text has a score in one and none in another; score it in all of them")
        if is_missing.all():
            raise ValueError("replicates: not one text has a score; score the control set when the scorer answers")

    @classmethod
    def exact(cls, scores: Matrix, rounding: float = 0.0) -> "Reference":
        """Of one scoring [n, attributes] of a scorer that is known to have no noise."""
        return cls(np.asarray(scores, dtype=np.float64)[None], rounding)

    @cached_property
    def centre(self) -> Array:
        """The median of each text's replicates, [n, attributes]."""
        return np.asarray(np.median(self.replicates, axis=0))

    @cached_property
    def deviations(self) -> Array:
        """Of the replicates from their text's centre."""
        return self.replicates - self.centre

    @cached_property
    def floor(self) -> float:
        """What counts as rounding: `rounding`, or 1e-5 where that is more and the replicates differ at all."""
        return max(self.rounding, ROUNDING) if np.nan_to_num(self.deviations).any() else self.rounding

    @cached_property
    def is_exact(self) -> NDArray[np.bool_]:
        """Of each attribute, whether its replicates differ by no more than rounding."""
        return np.asarray((np.nan_to_num(np.abs(self.deviations)) <= self.floor).all(axis=(0, 1)))

    @cached_property
    def scorings(self) -> int:
        """How often a check scores each text: once where nothing is noisy."""
        return 1 if self.is_exact.all() else SCORINGS

    @cached_property
    def variance(self) -> Array:
        """Of one scoring of each text, [n, attributes]: its own, at least the median over texts; 0 without noise."""
        if len(self.replicates) < 2:
            return np.zeros_like(self.centre)
        return self._apply_floor(self.replicates.var(axis=0, ddof=1))

    @cached_property
    def noise(self) -> float:
        """The root mean square of the texts' own standard deviations, over all attributes; 0 without noise."""
        if len(self.replicates) < 2:
            return 0.0
        own = np.where(self.is_exact, 0.0, self.replicates.var(axis=0, ddof=1))
        return float(np.sqrt(np.nanmean(own)))

    def variance_of_change(self, scorings: int) -> Array:
        """Of the median of so many scorings of an unchanged scorer less the centre, [n, attributes].

        The larger of two estimates: the mean square of medians of replicates that follow one another less the median of
        the others, which holds for noise of any shape; and that of normal noise, which is less uncertain.
        """
        if scorings not in self._variances:
            self._variances[scorings] = self._variance_of_change(scorings)
        return self._variances[scorings]

    def expected_beyond(self, scorings: int) -> Array:
        """How likely one of so many scorings of a text is to be beyond its noise, by the replicates, [n, attributes].

        Above 1 is possible where there are fewer replicates than scorings.
        """
        if scorings not in self._expected_counts:
            size, rows = min(scorings, len(self.replicates)), self.replicates_beyond
            blocks = [np.roll(rows, -start, axis=0)[:size].any(axis=0) for start in range(len(rows))]
            self._expected_counts[scorings] = np.mean(blocks, axis=0) * (scorings / size)
        return self._expected_counts[scorings]

    @cached_property
    def _variances(self) -> dict[int, Array]:
        return {}

    @cached_property
    def _expected_counts(self) -> dict[int, Array]:
        return {}

    def _variance_of_change(self, scorings: int) -> Array:
        count = len(self.replicates)
        if count < 2 or self.is_exact.all():
            return np.zeros_like(self.centre)
        size = min(scorings, count // 2)
        squares = np.zeros_like(self.centre)
        for start in range(count):
            rotation = np.roll(self.replicates, -start, axis=0)
            squares += (np.median(rotation[:size], axis=0) - np.median(rotation[size:], axis=0)) ** 2
        normal = (_of_median(scorings) + _of_median(count)) * self.replicates.var(axis=0, ddof=1)
        return self._apply_floor(np.maximum(squares / count, normal))

    def beyond(self, scores: Array) -> NDArray[np.bool_]:
        """Whether each of the scores [scorings, n, attributes] lies beyond its text's own noise."""
        if len(self.replicates) < 2 or self.is_exact.all():
            return np.nan_to_num(np.abs(scores - self.centre)) > self.floor
        centre, spread = self._others(len(self.replicates) - 1)
        return self._is_beyond(scores - centre, spread)

    @cached_property
    def replicates_beyond(self) -> NDArray[np.bool_]:
        """Whether each replicate lies beyond its text's own noise, as the other replicates show it."""
        if len(self.replicates) < 2 or self.is_exact.all():
            return np.zeros(self.replicates.shape, dtype=bool)
        return np.stack([self._is_beyond(self.replicates[r] - c, s) for r, (c, s) in enumerate(self._every_others)])

    @cached_property
    def standardised(self) -> Array:
        """The replicates' deviations from the others' centres in the others' standard deviations, as `standardise`."""
        every = self._every_others
        return np.stack([_divide(self.replicates[r] - c, s) for r, (c, s) in enumerate(every)])

    def standardise(self, scores: Array) -> Array:
        """The deviations of scores [..., n, attributes] from the centre, in standard deviations of a text's own noise.

        Both are of all replicates but one, so that they compare with `standardised`.
        """
        centre, spread = self._others(len(self.replicates) - 1)
        return _divide(scores - centre, spread)

    @cached_property
    def _every_others(self) -> list[tuple[Array, Array]]:
        return [self._others(number) for number in range(len(self.replicates))]

    def _others(self, number: int) -> tuple[Array, Array]:
        """The centre and the standard deviation of the replicates but for one."""
        others = np.delete(self.replicates, number, axis=0)
        own = others.var(axis=0, ddof=1) if len(others) > 1 else np.zeros_like(self.centre)
        return np.asarray(np.median(others, axis=0)), np.sqrt(self._apply_floor(own))

    def _apply_floor(self, variance: Array) -> Array:
        """With at least the median over texts, and 0 for attributes without noise."""
        has_scores = ~np.isnan(self.centre).all(axis=0)
        least = np.zeros(variance.shape[1])
        least[has_scores] = np.nanmedian(variance[:, has_scores], axis=0)
        return np.where(self.is_exact, 0.0, np.maximum(variance, least))

    def _is_beyond(self, differences: Array, spread: Array) -> NDArray[np.bool_]:
        return np.nan_to_num(np.abs(differences)) > np.maximum(self.floor, BEYOND * np.nan_to_num(spread))


def _of_median(count: int) -> float:
    """The variance of the median of normal values, as a share of one value's: a little too large for few of them."""
    return float(np.pi / 2 / count) if count > 2 else 1.0 / count


def _divide(differences: Array, spread: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, differences / spread, 0.0)
