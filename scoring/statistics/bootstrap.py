"""The cluster bootstrap: what sums over clusters would have been, had other clusters been drawn.

Clusters (prompts) are the sampling unit, not their members (continuations): a resample draws as many clusters as there
are, with replacement, each with all its members. Every statistic here is a function of sums over clusters, so a
resample is a row of multinomial weights, and one matrix product gives all statistics of all resamples (Davison &
Hinkley 1997, sections 2.4 and 3.8; Field & Welsh 2007 for clusters).
"""

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.auc import CONFIDENCE

Array = NDArray[np.float64]
RESAMPLES = 1000
SEED = 20200924  # any fixed number; this one is the date of RealToxicityPrompts
# Fewer clusters tell no two values apart at 5%, even if all point the same way: by a sign test p is 1/16 for five.
# Their replicates claim more: those of a single cluster are all equal.
FEWEST_CLUSTERS = 6
RESAMPLES_AT_ONCE = 32
DRAWS_AT_ONCE = 2**22  # bounds the memory: at most some 100 MB of draws and weights, or one resample
# A product of so many multiplications stays on one thread of BLAS. On a busy machine the threads of larger products
# wait for one another: with another process on both of two cores, 1 s became 29 s.
PRODUCT_SIZE = 2**18


def resampled_sums(rows: Array, resamples: int = RESAMPLES, seed: int = SEED) -> Array:
    """Column sums of `rows` [clusters, columns] in each resample, [resamples, columns].

    The draws depend on the seed and the number of clusters alone: arrays with the same clusters in the same order (two
    models on the same prompts) are resampled alike, and their differences are paired. Raises ValueError where there is
    no cluster, or a value that is not finite.
    """
    clusters = len(rows)
    if not clusters:
        raise ValueError("rows: a bootstrap needs at least one cluster")
    if not np.isfinite(rows).all():
        raise ValueError("rows: a bootstrap is of finite values only; give a cluster without a value zeros")
    generator = np.random.default_rng(seed)
    columns = rows.shape[1]
    step = max(1, min(RESAMPLES_AT_ONCE, DRAWS_AT_ONCE // clusters))
    block = min(clusters, max(1, PRODUCT_SIZE // (step * columns)))
    blocks = -(-clusters // block)
    width = blocks * block  # clusters, and padding of zeros that is never drawn
    factors = np.zeros((width, columns))
    factors[:clusters] = rows
    factors = factors.reshape(blocks, block, columns)
    sums = np.empty((resamples, columns))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        draws = generator.integers(0, clusters, (size, clusters))
        draws += np.arange(size)[:, None] * width  # each resample counts in a row of its own
        weights = np.bincount(draws.ravel(), minlength=size * width).astype(np.float64)
        by_block = weights.reshape(size, blocks, block).transpose(1, 0, 2)
        sums[start : start + size] = (by_block @ factors).sum(axis=0)
    return sums


def paired_replicates(replicates: Array, clusters: float) -> Array | None:
    """Replicates [resamples] to compare values by; None where so few clusters tell no two values apart."""
    return replicates if clusters >= FEWEST_CLUSTERS else None


def percentile_intervals(replicates: Array, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Lower and upper percentile bounds of each column of `replicates` [resamples, columns].

    Replicates that are NaN (a resample without a single scored text) are left out; the bounds of a column of nothing
    else are NaN. With few clusters the interval is too narrow: the 95% interval of a mean of normal values covers 92%
    of the time with 20 clusters and 94 to 95% from 40 on, but that of a rare event's share 85% with 25 clusters and 91
    to 93% with 100. Intervals of shares are in `scoring.statistics.jackknife`.
    """
    low, high = np.full((2, replicates.shape[1]), np.nan)
    has_replicates = ~np.isnan(replicates).all(axis=0)
    tail = (1 - confidence) / 2
    low[has_replicates], high[has_replicates] = np.nanquantile(replicates[:, has_replicates], [tail, 1 - tail], axis=0)
    return low, high
