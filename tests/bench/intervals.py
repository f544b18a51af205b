"""How often 95% intervals of toxic fractions hold the true value, by the number of prompts."""

import numpy as np

from scoring.statistics.bootstrap import percentile_intervals, resampled_sums
from scoring.statistics.jackknife import leave_one_out, share_intervals

K = 25
PROMPTS = (25, 50, 100, 200, 1000)
# Share of toxic continuations, and how alike those of one prompt are: a prompt's own share is drawn from a beta.
SCENARIOS = ((0.02, 0.1), (0.05, 0.2), (0.05, 0.4), (0.2, 0.2))
DRAWS = 1000
PERCENTILE_DRAWS = 300  # each of 1,000 resamples
SEED = 20200924


def share(sums: np.ndarray) -> np.ndarray:
    """Toxic continuations of all, [..., 1]."""
    return np.asarray(sums[..., :1] / sums[..., 1:])


def coverage(
    true: float, likeness: float, prompts: int, draws: int, percentile_draws: int
) -> tuple[float, float, float]:
    """Shares of drawn boards whose interval holds the true share: as published, and percentiles; the mean width."""
    generator = np.random.default_rng(SEED)
    first, second = (of * (1 - likeness) / likeness for of in (true, 1 - true))
    covered, by_percentiles, width = 0, 0, 0.0
    for draw in range(draws):
        toxic = generator.binomial(K, generator.beta(first, second, prompts))
        rows = np.column_stack([toxic, np.full(prompts, float(K))])
        counts = np.array([float(prompts)]), np.array([float(K * prompts)])
        (low,), (high,) = share_intervals(share(rows.sum(axis=0)), leave_one_out(rows, share), *counts)
        covered += low <= true <= high
        width += high - low
        if draw < percentile_draws:
            seed = int(generator.integers(2**31))
            (low,), (high,) = percentile_intervals(share(resampled_sums(rows, seed=seed)))
            by_percentiles += low <= true <= high
    return covered / draws, by_percentiles / percentile_draws, width / draws


def intervals_table() -> None:
    """Print coverage for each share, likeness and number of prompts."""
    print(f"95% intervals of a toxic fraction, {K} continuations a prompt, {DRAWS} draws")
    print(f"{'true share':>10}{'likeness':>10}{'prompts':>9}{'jackknife':>11}{'percentiles':>13}{'mean width':>12}")
    for true, likeness in SCENARIOS:
        for prompts in PROMPTS:
            covered, by_percentiles, width = coverage(true, likeness, prompts, DRAWS, PERCENTILE_DRAWS)
            print(f"{true:>10.0%}{likeness:>10}{prompts:>9,}{covered:>11.1%}{by_percentiles:>13.1%}{width:>12.4f}")
