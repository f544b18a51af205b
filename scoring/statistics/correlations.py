"""Coefficients of correlation with their intervals: Pearson's, Spearman's and Kendall's, of one pair or of many.

Intervals treat the models (or texts) as a sample of others like them. They are those of the jackknife on Fisher's z
scale: Tukey 1958 (Ann. Math. Stat. 29:614) for the variance, Fisher 1921 (Metron 1:3) for the scale, Long & Cliff 1997
(Br. J. Math. Stat. Psychol. 50:31) for tau. The usual closed forms (Fieller et al. 1957; Bonett & Wright 2000) suppose
a normal population; where most models stay where they were, as on a board scored anew, they cover 65 to 80% instead of
95%.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.auc import CONFIDENCE

Array = NDArray[np.float64]
Coefficient = Literal["pearson", "spearman", "kendall"]
ROUNDING = 1e-12  # of a coefficient


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient in -1..1 of n pairs with its 95% interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None
    n: int

    @property
    def interval(self) -> list[float] | None:
        """Both bounds; None where there are none."""
        return None if self.low is None or self.high is None else [self.low, self.high]


def correlations(columns: Array, coefficient: Coefficient) -> dict[tuple[int, int], Correlation]:
    """The coefficient of every two of `columns` [k, n], by their positions, the lower first.

    NaN where a row has no value: each pair is of the rows that both have. Kendall's is tau-b, Spearman's gives ties
    their mean rank; no value where a side is constant. Memory of these two grows with k times n squared. Raises
    ValueError for an unknown coefficient and for values that are infinite.
    """
    if coefficient not in get_args(Coefficient):
        raise ValueError(f"coefficient = {coefficient!r}: use one of {', '.join(get_args(Coefficient))}")
    if np.isinf(columns).any():
        raise ValueError("columns: a value is infinite; give numbers, and NaN where there is none")
    known = ~np.isnan(columns)
    pairs = list(combinations(range(len(columns)), 2))
    common = {(a, b): known[a] & known[b] for a, b in pairs}
    if coefficient == "pearson":
        return {(a, b): pearson(columns[a, of], columns[b, of]) for (a, b), of in common.items()}
    found = _spearmans if coefficient == "spearman" else _kendalls
    return {
        pair: with_interval(value, left_out, columns[pair[0], common[pair]])
        for pair, value, left_out in found(columns, common)
    }


def pearson(first: Array, second: Array) -> Correlation:
    """Pearson's r of two finite arrays [n]; no value where one of them is constant."""
    n = len(first)
    if n < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Correlation(None, None, None, n)
    x, y = first - first.mean(), second - second.mean()
    products = [x * y, x * x, y * y]
    # Leaving out one text also moves the means: hence n / (n - 1). What is then left of a variance by rounding is none.
    sums = [product.sum() for product in products]
    both, *alone = (total - product * n / (n - 1) for total, product in zip(sums, products, strict=True))
    spreads = [np.where(rest > 1e-12 * total, rest, np.nan) for rest, total in zip(alone, sums[1:], strict=True)]
    return with_interval(sums[0] / math.sqrt(sums[1] * sums[2]), both / np.sqrt(spreads[0] * spreads[1]), x)


def spearman(first: Array, second: Array) -> Correlation:
    """Spearman's rho of two finite arrays [n], as `correlations` has it."""
    return correlations(np.array([first, second], dtype=np.float64), "spearman")[0, 1]


def kendall(first: Array, second: Array) -> Correlation:
    """Kendall's tau-b of two finite arrays [n], as `correlations` has it."""
    return correlations(np.array([first, second], dtype=np.float64), "kendall")[0, 1]


Common = dict[tuple[int, int], NDArray[np.bool_]]
Signs = NDArray[np.float32]  # whole numbers and halves, which it holds exactly up to n of 4,000


def _signs(columns: Array) -> tuple[Signs, Signs]:
    """Of each column and row the signs of its value less each other's, [k, n, n], 0 where one has none.

    And the sums of their sizes over the rows that each column b has, [k, n, b].
    """
    places = scipy.stats.rankdata(columns, method="dense", axis=1, nan_policy="omit").astype(np.float32)
    signs = np.sign(places[:, :, None] - places[:, None, :])
    np.nan_to_num(signs, copy=False)
    known = (~np.isnan(columns)).astype(np.float32)
    return signs, np.stack([np.abs(of) @ known.T for of in signs])


def _kendalls(columns: Array, common: Common) -> Iterator[tuple[tuple[int, int], float, Array]]:
    """Tau-b of each pair, and with each of its rows left out."""
    signs, untied = _signs(columns)
    for (a, b), of in common.items():
        concordant = np.einsum("ij,ij->i", signs[a], signs[b])
        # Each pair counts twice in these sums by row, and a row goes as a row and as a column when it is left out.
        sums = [part[of].astype(np.float64) for part in (concordant, untied[a, :, b], untied[b, :, a])]
        yield (a, b), _over(*(rows.sum() for rows in sums)), _over(*(rows.sum() - 2 * rows for rows in sums))


def _spearmans(columns: Array, common: Common) -> Iterator[tuple[tuple[int, int], float, Array]]:
    """Rho of each pair, and with each of its rows left out.

    A centred rank is half the sum of a row's signs; without row i it is less by half the sign towards i. The products
    of two such columns, summed, need nothing but products of signs and ranks.
    """
    signs, untied = _signs(columns)
    known = (~np.isnan(columns)).astype(np.float32)
    ranks = np.stack([of @ known.T / 2 * known.T for of in signs])  # [k, n, b]: among the rows that b has too
    for (a, b), of in common.items():
        sides = np.stack([ranks[a, :, b], ranks[b, :, a]], axis=1)
        towards = signs[a] @ sides, signs[b] @ sides
        sums = []
        for one, two, crossed, products in (
            (0, 1, towards[1][:, 0] + towards[0][:, 1], np.einsum("ij,ij->i", signs[a], signs[b])),
            (0, 0, 2 * towards[0][:, 0], untied[a, :, b]),
            (1, 1, 2 * towards[1][:, 1], untied[b, :, a]),
        ):
            rows = (sides[of, one] * sides[of, two]).astype(np.float64)
            sums.append((rows.sum(), rows.sum() - rows + crossed[of] / 2.0 + products[of] / 4.0))
        yield (a, b), *(_over(*parts) for parts in zip(*sums, strict=True))


def _over(both: Any, first: Any, second: Any) -> Any:
    """A coefficient from sums of products; not a number where a side does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return both / np.sqrt(first * second)


def with_interval(value: float, left_out: Array, either: Array) -> Correlation:
    """A correlation with its interval from its values [n] with each of the n pairs left out in turn.

    tanh(atanh(r) -+ t s / (1 - r^2)), s the jackknife's standard error and t Student's quantile with n - 2 degrees of
    freedom. At complete agreement, whose jackknife does not vary, the lower bound is 2 p - 1, p being Clopper and
    Pearson's for as many pairs, all concordant, as can be formed of different values of `either` side [n], each used
    once; and its mirror image at complete disagreement. No interval where leaving out a pair leaves no correlation, or
    changes nothing.

    Coverage, as simulated for n of 10 to 100: of tau 94 to 99%; of rho and r 92 to 99%, but down to 81% of a rho that
    is truly above 0.99.
    """
    n = len(left_out)
    if not math.isfinite(value):
        return Correlation(None, None, None, n)
    value = min(1.0, max(-1.0, float(value)))
    tail = (1 - CONFIDENCE) / 2
    if abs(value) > 1 - ROUNDING:
        most_tied = int(np.unique(either, return_counts=True)[1].max())
        bound = 2 * tail ** (1 / min(n // 2, n - most_tied)) - 1
        return Correlation(value, bound, 1.0, n) if value > 0 else Correlation(value, -1.0, -bound, n)
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    if not math.isfinite(error) or error < ROUNDING:
        return Correlation(value, None, None, n)
    centre, spread = math.atanh(value), scipy.stats.t.ppf(1 - tail, n - 2) * error / (1 - value**2)
    return Correlation(value, math.tanh(centre - spread), math.tanh(centre + spread), n)
