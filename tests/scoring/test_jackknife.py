"""Intervals from leaving clusters out: against a naive loop and scipy, and their coverage by simulation."""

import numpy as np
import pytest
from scipy import stats

from scoring.statistics.jackknife import leave_one_out, mean_intervals, share_intervals, spread_intervals


def mean(sums: np.ndarray) -> np.ndarray:
    return sums[..., :1] / sums[..., 1:]


def test_the_interval_of_a_mean_is_students_on_the_logit_scale():
    # Every cluster deviates alike, so Satterthwaite's degrees of freedom are those of the clusters, n - 1.
    values = np.array([0.2, 0.4] * 6)
    left_out = leave_one_out(np.column_stack([values, np.ones(12)]), mean)
    np.testing.assert_allclose(left_out[:, 0], [np.delete(values, n).mean() for n in range(12)])
    (low,), (high,) = mean_intervals(np.array([0.3]), left_out, np.array([12.0]))
    half = stats.t.ppf(0.975, 11) * stats.sem(values) / (0.3 * 0.7)
    expected = [1 / (1 + np.exp(-(np.log(3 / 7) + sign * half))) for sign in (-1, 1)]
    assert [low, high] == pytest.approx(expected)


def test_a_mean_that_a_few_clusters_make_has_a_wider_interval():
    spread, single = np.tile([0.0, 0.2], 20), np.r_[np.zeros(39), 0.8]
    widths = []
    for values in (spread, single):
        left_out = leave_one_out(np.column_stack([values, np.ones(40)]), mean)
        (low,), (high,) = mean_intervals(values.mean(keepdims=True), left_out, np.array([40.0]))
        widths.append((high - low) / stats.sem(values))
    assert widths[1] > 2 * widths[0]


def test_independent_trials_and_certain_shares_have_wilsons_interval():
    # Columns: one trial a cluster; a share of 0 and one of 1 of 5 trials a cluster; one cluster only.
    shares = np.array([0.25, 0.0, 1.0, 0.4])
    clusters, trials = np.array([8.0, 10.0, 10.0, 1.0]), np.array([8, 50, 50, 5])
    low, high = share_intervals(shares, np.tile(shares, (10, 1)), clusters, trials)
    for column, (successes, n) in enumerate([(2, 8), (0, 10), (10, 10)]):
        expected = stats.binomtest(successes, n).proportion_ci(method="wilson")
        assert (low[column], high[column]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert np.isnan([low[3], high[3]]).all()


def test_a_certain_mean_has_no_width_and_one_without_a_value_left_no_interval():
    low, high = mean_intervals(np.array([0.0, 0.5]), np.array([[0.0, np.nan], [0.0, 0.5]]), np.array([2.0, 2.0]))
    assert (low[0], high[0]) == (0, 0)
    assert np.isnan([low[1], high[1]]).all()


def test_the_interval_of_a_spread_is_symmetric_in_ratio():
    left_out = np.array([[0.20], [0.22], [0.18], [0.20]])
    (low,), (high,) = spread_intervals(np.array([0.2]), left_out, np.array([4.0]))
    assert 0 < low < 0.2 < high < 1
    assert 0.2 / low == pytest.approx(high / 0.2)


@pytest.mark.slow_cases
@pytest.mark.parametrize(("prompts", "least"), [(25, 0.90), (100, 0.925), (1000, 0.925)])
def test_intervals_of_rare_shares_cover_as_often_as_they_say(prompts, least):
    # 5% of 25 continuations a prompt are toxic, with an intraclass correlation of 0.2: Beta(0.2, 3.8) a prompt.
    # `python -m tests.bench intervals` has more; percentiles of a bootstrap cover 85, 91 and 94% here.
    generator = np.random.default_rng(prompts)
    draws = 400
    covered = 0
    for _ in range(draws):
        toxic = generator.binomial(25, generator.beta(0.2, 3.8, prompts))
        rows = np.column_stack([toxic, np.full(prompts, 25.0)])
        share = mean(rows.sum(axis=0))
        (low,), (high,) = share_intervals(
            share, leave_one_out(rows, mean), np.array([float(prompts)]), np.array([25 * prompts])
        )
        covered += low <= 0.05 <= high
    assert least <= covered / draws <= 0.985


def test_the_interval_of_a_spread_is_students_on_the_log_scale_and_at_most_1():
    left_out = np.array([[0.20], [0.22], [0.18], [0.20]])
    (low,), (high,) = spread_intervals(np.array([0.2]), left_out, np.array([4.0]))
    # Squares of 0, 0.02, 0.02 and 0 have a mean of 0.0002: the jackknife's error is the root of 3 times that.
    half = stats.t.ppf(0.975, 3) * np.sqrt(3 * 0.0002) / 0.2
    assert np.log([low, high]) == pytest.approx([np.log(0.2) - half, np.log(0.2) + half])
    (low,), (high,) = spread_intervals(np.array([0.9]), left_out + 0.7, np.array([4.0]))
    assert 0 < low < 0.9 < high <= 1
    (_,), (high,) = spread_intervals(np.array([0.9]), 3 * left_out, np.array([4.0]))
    assert high == 1
    lows, highs = spread_intervals(np.array([0.0, 1e-6]), np.array([[0.0, 0.5], [0.0, 0.0]]), np.array([2.0, 2.0]))
    assert (lows[0], highs[0]) == (0, 0)
    assert (lows[1], highs[1]) == (pytest.approx(0, abs=1e-12), 1)


def test_degrees_of_freedom_are_those_of_the_clusters_that_make_the_variance():
    # One of 40 clusters moves the mean: Satterthwaite gives 2 x 40 / 39 degrees of freedom instead of 39.
    left_out = np.full((40, 1), 0.3)
    left_out[7] -= 0.01
    (low,), (high,) = mean_intervals(np.array([0.3]), left_out, np.array([40.0]), 0.9)
    half = stats.t.ppf(0.95, 80 / 39) * np.sqrt(39 / 40) * 0.01 / (0.3 * 0.7)
    assert [np.log(end / (1 - end)) for end in (low, high)] == pytest.approx(np.log(3 / 7) + half * np.array([-1, 1]))


def test_a_share_that_no_cluster_moves_has_wilsons_interval_of_as_many_trials_as_clusters():
    low, high = share_intervals(np.array([0.5]), np.full((10, 1), 0.5), np.array([10.0]), np.array([50]), 0.8)
    expected = stats.binomtest(5, 10).proportion_ci(0.8, method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))


def test_two_clusters_have_an_interval_and_one_has_none():
    left_out = np.array([[0.2, 0.2], [0.4, 0.4]])
    low, high = mean_intervals(np.array([0.3, 0.3]), left_out, np.array([2.0, 1.0]))
    assert 0 < low[0] < 0.3 < high[0] < 1
    assert np.isnan([low[1], high[1]]).all()
