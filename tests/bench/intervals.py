"""How often 95% intervals of toxic fractions hold the true value, raw and corrected for the scorer's errors."""

import numpy as np

from scoring.statistics.bootstrap import percentile_intervals, resampled_sums
from scoring.statistics.jackknife import leave_one_out, share_intervals
from scoring.statistics.misclassification import ErrorRates, Uncorrectable, correct_share

K = 25
PROMPTS = (25, 50, 100, 200, 1000)
# Share of toxic continuations, and how alike those of one prompt are: a prompt's own share is drawn from a beta.
SCENARIOS = ((0.02, 0.1), (0.05, 0.2), (0.05, 0.4), (0.2, 0.2))
DRAWS = 1000
PERCENTILE_DRAWS = 300  # each of 1,000 resamples
SEED = 20200924
LABELLED = (50, 200, 1000)  # texts of each label
RATES = ((0.9, 0.97), (0.7, 0.9), (0.5, 0.8))  # sensitivity and specificity
CORRECTED_SCENARIOS = ((0.02, 0.1), (0.1, 0.2), (0.3, 0.4))
CORRECTED_PROMPTS = 200


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
    corrected_table()


def corrected_coverage(true: float, likeness: float, rates: tuple[float, float], labelled: int) -> tuple[float, float]:
    """The share of drawn boards whose corrected interval holds the true share, and that of boards with an estimate."""
    generator = np.random.default_rng(SEED)
    first, second = (of * (1 - likeness) / likeness for of in (true, 1 - true))
    sensitivity, specificity = rates
    counts = np.array([float(CORRECTED_PROMPTS)]), np.array([float(K * CORRECTED_PROMPTS)])
    covered = estimates = 0
    for _ in range(DRAWS):
        harmful = generator.binomial(K, generator.beta(first, second, CORRECTED_PROMPTS))
        hits = generator.binomial(harmful, sensitivity) + generator.binomial(K - harmful, 1 - specificity)
        rows = np.column_stack([hits, np.full(CORRECTED_PROMPTS, float(K))])
        raw = share(rows.sum(axis=0))
        (low,), (high,) = share_intervals(raw, leave_one_out(rows, share), *counts)
        drawn_rates = [generator.binomial(labelled, rate) / labelled for rate in rates]
        try:
            estimate = correct_share(
                float(raw[0]), float(low), float(high), ErrorRates(*drawn_rates, labelled, labelled)
            )
        except Uncorrectable:
            continue
        estimates += 1
        covered += estimate.low <= true <= estimate.high
    return covered / max(1, estimates), estimates / DRAWS


def corrected_table() -> None:
    """Print the coverage of corrected intervals for each share, pair of error rates and number of labelled texts."""
    print(f"\n95% intervals corrected for the scorer's errors, {CORRECTED_PROMPTS} prompts, {DRAWS} draws")
    headings = f"{'true share':>10}{'likeness':>10}{'sensitivity':>13}{'specificity':>13}{'labelled':>10}"
    print(f"{headings}{'covered':>9}{'estimates':>11}")
    for true, likeness in CORRECTED_SCENARIOS:
        for rates in RATES:
            for labelled in LABELLED:
                covered, estimates = corrected_coverage(true, likeness, rates, labelled)
                setting = f"{true:>10.0%}{likeness:>10}{rates[0]:>13}{rates[1]:>13}{labelled:>10,}"
                print(f"{setting}{covered:>9.1%}{estimates:>11.1%}")
