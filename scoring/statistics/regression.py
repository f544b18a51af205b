"""The straight line through points by least squares, with its confidence band."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from scoring.statistics.auc import CONFIDENCE

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RegressionLine:
    """y = intercept + slope x, of n points; `at` [m] are values of x, `low` and `high` [m] the 95% band there."""

    slope: float
    intercept: float
    n: int
    at: Array
    low: Array
    high: Array

    @property
    def fitted_values(self) -> Array:
        """The line at each value of x."""
        return self.intercept + self.slope * self.at


def line(x: Array, y: Array, steps: int = 24) -> RegressionLine | None:
    """The least-squares line of y on x, finite arrays [n], at `steps` values over the range of x.

    The band is that of the mean of y at a given x (Student's t, n - 2 degrees of freedom): it covers the line, not the
    points. None with fewer than three points, or where x does not vary.
    """
    n = len(x)
    if n < 3 or np.ptp(x) == 0:
        return None
    centre = x.mean()
    spread = float(((x - centre) ** 2).sum())
    slope = float(((x - centre) * (y - y.mean())).sum()) / spread
    intercept = float(y.mean() - slope * centre)
    error = np.sqrt(((y - intercept - slope * x) ** 2).sum() / (n - 2))
    positions = np.linspace(x.min(), x.max(), steps)
    half = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, n - 2) * error * np.sqrt(1 / n + (positions - centre) ** 2 / spread)
    heights = intercept + slope * positions
    return RegressionLine(slope, intercept, n, positions, heights - half, heights + half)
