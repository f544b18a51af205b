"""Wilson's interval against scipy; the cluster bootstrap against a naive loop, and its coverage by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring.statistics import bootstrap
from scoring.statistics.bootstrap import paired_replicates, percentile_intervals, resampled_sums
from scoring.statistics.proportions import wilson_interval

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.slow
@given(counts, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilsons_interval_is_scipys(count, confidence):
    successes, trials = count
    expected = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    low, high = wilson_interval(successes, trials, confidence)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.slow
@given(st.lists(counts, min_size=1, max_size=8))
def test_wilsons_interval_is_elementwise_and_holds_the_share(drawn):
    successes, trials = np.array(drawn).T
    low, high = wilson_interval(successes, trials)
    assert ((low >= 0) & (low <= successes / trials) & (successes / trials <= high) & (high <= 1)).all()
    assert list(low) == [float(wilson_interval(s, n)[0]) for s, n in drawn]


def test_wilsons_interval_touches_0_and_1_exactly():
    low, high = wilson_interval([0, 7], [7, 7])
    assert low[0] == 0.0
    assert high[1] == 1.0


@pytest.mark.parametrize(("successes", "trials", "said"), [(0, 0, "trials"), (3, 2, "successes"), (-1, 2, "successes")])
def test_impossible_counts_have_no_interval(successes, trials, said):
    with pytest.raises(ValueError, match=said):
        wilson_interval(successes, trials)


@pytest.mark.parametrize("clusters", [1, 2, 5, 37, 200])
@pytest.mark.parametrize("at_once", [(1, 1, 1), (7, 2**22, 64), (32, 2**22, 2**18)])
def test_resampled_sums_are_those_of_drawing_whole_clusters_again(monkeypatch, clusters, at_once):
    # However the work is cut up: resamples at once, draws at once, size of a product.
    for name, value in zip(("RESAMPLES_AT_ONCE", "DRAWS_AT_ONCE", "PRODUCT_SIZE"), at_once, strict=True):
        monkeypatch.setattr(bootstrap, name, value)
    rows = np.random.default_rng(1).normal(size=(clusters, 3))
    found = resampled_sums(rows, resamples=45, seed=9)
    drawn = np.random.default_rng(9).integers(0, clusters, (45, clusters))
    expected = [sum(rows[cluster] for cluster in resample) for resample in drawn]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_every_resample_draws_as_many_clusters_as_there_are():
    assert (resampled_sums(np.ones((321, 1))) == 321).all()


def test_the_spread_of_resampled_means_is_the_standard_error():
    rows = np.random.default_rng(2).normal(size=(400, 1))
    means = resampled_sums(rows, resamples=4000) / 400
    assert means.mean() == pytest.approx(rows.mean(), abs=0.003)
    assert means.std() == pytest.approx(rows.std() / 20, rel=0.05)


def test_the_same_clusters_are_drawn_for_another_column():
    rows = np.random.default_rng(3).normal(size=(50, 2))
    together = resampled_sums(rows)
    np.testing.assert_allclose(together[:, 1], resampled_sums(rows[:, 1:])[:, 0], atol=1e-12)


@pytest.mark.parametrize("rows", [np.empty((0, 2)), np.array([[1.0], [np.nan]]), np.array([[np.inf]])])
def test_no_cluster_or_no_number_is_refused(rows):
    with pytest.raises(ValueError, match="rows"):
        resampled_sums(rows)


@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True], ids=["five-a-cluster", "one-to-nine-a-cluster"])
def test_the_interval_of_a_mean_of_clustered_data_covers_it_as_often_as_it_says(varied):
    # A cluster's values share an effect as large as their own noise: an intraclass correlation of a half.
    generator = np.random.default_rng(5)
    draws, clusters, true = 1500, 150, 0.3
    covered = covered_if_independent = 0
    for _ in range(draws):
        sizes = generator.integers(1, 10, clusters) if varied else np.full(clusters, 5)
        effects = np.repeat(generator.normal(true, 1, clusters), sizes)
        values = effects + generator.normal(0, 1, sizes.sum())
        rows = np.column_stack([np.add.reduceat(values, np.cumsum(sizes) - sizes), sizes])
        sums = resampled_sums(rows, seed=int(generator.integers(2**31)))
        (low,), (high,) = percentile_intervals((sums[:, 0] / sums[:, 1])[:, None])
        covered += low <= true <= high
        half = 1.96 * values.std(ddof=1) / math.sqrt(len(values))
        covered_if_independent += abs(values.mean() - true) <= half
    assert 0.93 <= covered / draws <= 0.97
    assert covered_if_independent / draws < 0.85  # what it would be to take each value for a sampling unit


def test_values_of_so_few_clusters_that_chance_may_point_them_all_one_way_are_not_compared():
    replicates = np.arange(3.0)
    assert stats.binomtest(5, 5).pvalue > 0.05 > stats.binomtest(6, 6).pvalue
    assert paired_replicates(replicates, 5) is None
    assert paired_replicates(replicates, 6) is replicates


def test_percentiles_leave_out_a_resample_without_a_value():
    replicates = np.column_stack([np.arange(101.0), np.r_[np.full(60, np.nan), np.arange(41.0)], np.full(101, np.nan)])
    low, high = percentile_intervals(replicates, 0.9)
    assert (low[0], high[0]) == pytest.approx((5, 95))
    assert (low[1], high[1]) == pytest.approx((2, 38))
    assert np.isnan([low[2], high[2]]).all()


def test_resamples_are_those_that_boards_have_stored_so_that_later_entries_are_paired_with_them():
    sums = resampled_sums(np.arange(10.0)[:, None])
    assert sums.shape == (1000, 1)
    assert sums[:6, 0].tolist() == [38, 50, 45, 33, 61, 51]
