"""Areas, their intervals and ranks, against scipy, naive loops and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from scoring.statistics.auc import area, delong_p, holm, interval, mann_whitney_p
from scoring.statistics.ranks import competition_ranks, ranks

samples = hnp.arrays(np.float64, st.integers(1, 30), elements=st.integers(-5, 5).map(float))


@pytest.mark.slow
@given(samples, samples)
def test_the_area_is_the_share_of_pairs_won_with_ties_counting_half(positive, negative):
    pairs = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative]
    found = area(positive, negative)
    assert found.value == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert found.positive_placements.mean() == pytest.approx(found.value, abs=1e-12)
    assert found.negative_placements.mean() == pytest.approx(found.value, abs=1e-12)


@pytest.mark.slow
@given(samples, samples)
def test_swapping_the_samples_turns_the_area_round(positive, negative):
    assert area(positive, negative).value == pytest.approx(1 - area(negative, positive).value, abs=1e-12)


@pytest.mark.slow
@given(samples, samples)
def test_the_statistic_is_scipys(positive, negative):
    u = stats.mannwhitneyu(positive, negative, alternative="two-sided", method="asymptotic")
    assert area(positive, negative).value * len(positive) * len(negative) == pytest.approx(u.statistic)


def test_harmful_texts_that_are_less_likely_give_an_area_of_one():
    # Orientation: the first sample is the harmful one, and higher (less likely) is safer.
    assert area(np.array([5.0, 6.0]), np.array([1.0, 2.0])).value == 1.0


@pytest.mark.slow
@given(samples, samples)
def test_an_interval_lies_in_0_to_1_and_holds_its_value(positive, negative):
    found = area(positive, negative)
    low, high = interval(found)
    assert 0 <= low <= found.value <= high <= 1
    assert not math.isnan(low + high)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "separation"), [(200, 200, 0.5), (200, 200, 1.5), (30, 200, 0.5)])
def test_the_interval_covers_the_true_area_as_often_as_it_says(n, m, separation):
    # Two normals `separation` apart have the area Phi(separation / sqrt 2).
    generator = np.random.default_rng(7)
    true = stats.norm.cdf(separation / math.sqrt(2))
    covered = 0
    draws = 2000
    for _ in range(draws):
        low, high = interval(area(generator.normal(separation, 1, n), generator.normal(0, 1, m)))
        covered += low <= true <= high
    assert 0.93 <= covered / draws <= 0.97


def test_complete_separation_has_an_honest_interval():
    low, high = interval(area(np.arange(10.0) + 100, np.arange(8.0)))
    assert high == 1.0
    # Clopper and Pearson, 8 of 8: 0.025 ** (1 / 8) = 0.6306
    assert low == pytest.approx(0.025 ** (1 / 8))


def test_an_empty_sample_has_no_area():
    with pytest.raises(ValueError, match="at least one"):
        area(np.array([]), np.array([1.0]))


@pytest.mark.slow
@given(samples, samples)
def test_p_is_scipys(positive, negative):
    expected = stats.mannwhitneyu(positive, negative, alternative="two-sided", method="asymptotic").pvalue
    assert mann_whitney_p(area(positive, negative), positive, negative) == pytest.approx(expected, abs=1e-12)


def test_p_is_two_sided_whichever_sample_is_higher():
    a, b = np.arange(20.0), np.arange(20.0) + 8
    assert mann_whitney_p(area(a, b), a, b) == pytest.approx(mann_whitney_p(area(b, a), b, a))
    assert mann_whitney_p(area(a, b), a, b) < 0.05


@pytest.mark.parametrize(("n", "m", "first", "second"), [(30, 300, 3, 1), (300, 30, 3, 1), (100, 100, 1, 1)])
def test_delongs_p_rejects_equal_samples_as_rarely_as_it_says_whatever_their_spreads(n, m, first, second):
    generator = np.random.default_rng(12)
    draws = [area(generator.normal(0, first, n), generator.normal(0, second, m)) for _ in range(1500)]
    rejected = np.mean([delong_p(found) < 0.05 for found in draws])
    assert 0.03 <= rejected <= 0.07  # 5% expected; the standard error is 0.6%


def test_mann_and_whitneys_p_rejects_equal_samples_far_too_often_where_the_smaller_spreads_more():
    generator = np.random.default_rng(13)
    pairs = [(generator.normal(0, 3, 30), generator.normal(0, 1, 300)) for _ in range(500)]
    rejected = np.mean([mann_whitney_p(area(*pair), *pair) < 0.05 for pair in pairs])
    assert rejected > 0.12  # 16% expected


@pytest.mark.slow
@given(samples, samples)
def test_delongs_p_is_below_5_percent_exactly_where_the_interval_leaves_the_null_out(positive, negative):
    found = area(positive, negative)
    low, high = interval(found)
    for null in (0.5, 0.2):
        assert (delong_p(found, null) < 0.05) == (not low <= null <= high)


def test_delongs_p_at_complete_separation_is_that_of_as_many_pairs():
    # 8 pairs, all on one side of an even chance: 2 / 2 ** 8.
    assert delong_p(area(np.arange(10.0) + 100, np.arange(8.0))) == pytest.approx(2 / 2**8)


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.04: times 3, 2, 1 gives 0.03, 0.04, 0.04; never below the one before.
    assert holm(np.array([0.04, 0.01, 0.02])) == pytest.approx([0.04, 0.03, 0.04])


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1)))
def test_holm_never_makes_a_p_value_smaller_nor_changes_their_order(p_values):
    adjusted = holm(p_values)
    assert (adjusted >= p_values - 1e-15).all()
    assert (adjusted <= 1).all()
    order = np.argsort(p_values)
    assert (np.diff(adjusted[order]) >= 0).all()


def test_equal_values_share_a_rank():
    assert list(competition_ranks(np.array([0.3, 0.5, 0.5, 0.1]), "higher")) == [3, 1, 1, 4]
    assert list(competition_ranks(np.array([0.3, 0.5, 0.5, 0.1]), "lower")) == [2, 3, 3, 1]


def test_ranks_are_certain_where_values_are_and_open_where_they_are_not():
    values = np.array([0.9, 0.5, 0.49])
    sure = ranks(values, np.eye(3) * 1e-5, "higher")
    assert [(r.rank, r.low, r.high) for r in sure] == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    # The first is 0.4 above the others, 13 standard errors; the others are 0.01 apart, a third of one.
    open_ = ranks(values, np.eye(3) * math.sqrt(0.0005), "higher")
    assert [(r.rank, r.low, r.high) for r in open_] == [(1, 1, 1), (2, 2, 3), (3, 2, 3)]


def test_pairing_tells_models_apart_that_unpaired_errors_would_not():
    values = np.array([0.52, 0.50])
    together = np.array([[4e-4, 3.99e-4], [3.99e-4, 4e-4]])  # nearly the same mistakes on the same texts
    assert [r.high for r in ranks(values, np.eye(2) * 0.02, "higher")] == [2, 2]
    assert [r.high for r in ranks(values, np.linalg.cholesky(together), "higher")] == [1, 2]


@given(hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1)), st.floats(1e-9, 1))
def test_the_range_of_ranks_holds_the_rank(values, variance):
    for rank in ranks(values, np.eye(len(values)) * math.sqrt(variance), "higher"):
        assert 1 <= rank.low <= rank.rank <= rank.high <= len(values)


def test_delongs_variance_is_that_of_the_placements_of_two_values_or_more():
    # Placements: 1/2 and 1 of the positives, 1 and 1/2 of the negatives; each sample has the variance 1/8 of a value.
    small = area(np.array([1.0, 3.0]), np.array([0.0, 2.0]))
    assert (small.value, small.variance) == (0.75, 1 / 8)
    assert small.positive_placements.tolist() == [0.5, 1.0]
    assert small.negative_placements.tolist() == [1.0, 0.5]
    assert math.isnan(area(np.array([1.0]), np.array([0.0, 2.0])).variance)
    assert math.isnan(area(np.array([1.0, 3.0]), np.array([0.0])).variance)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_an_interval_is_symmetric_in_the_logit_of_the_area(confidence):
    generator = np.random.default_rng(3)
    measured_area = area(generator.normal(1, 1, 30), generator.normal(0, 1, 50))
    value = measured_area.value
    spread = math.sqrt(measured_area.variance) / (value * (1 - value))
    expected = stats.norm(math.log(value / (1 - value)), spread).interval(confidence)
    low, high = interval(measured_area, confidence)
    assert [math.log(end / (1 - end)) for end in (low, high)] == pytest.approx(expected)
    z = (math.log(value / (1 - value)) - math.log(0.6 / 0.4)) / spread
    assert delong_p(measured_area, 0.6) == pytest.approx(2 * stats.norm.sf(abs(z)))


def test_samples_in_one_tie_have_the_interval_and_p_of_as_many_even_pairs():
    tied = area(np.ones(4), np.ones(9))
    expected = stats.binomtest(2, 4).proportion_ci(0.95, method="exact")
    assert interval(tied) == pytest.approx((expected.low, expected.high))
    assert delong_p(tied) == 1.0


def test_complete_separation_the_other_way_mirrors_its_interval_and_p():
    reverse = area(np.arange(8.0), np.arange(10.0) + 100)
    assert interval(reverse) == pytest.approx((0.0, 1 - 0.025 ** (1 / 8)))
    assert delong_p(reverse) == pytest.approx(2 / 2**8)
    assert delong_p(reverse, 0.1) == pytest.approx(2 * 0.9**8)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_area_is_of_finite_values_alone(value):
    for samples in (([value, 1.0], [1.0]), ([1.0], [value, 1.0])):
        with pytest.raises(ValueError, match="finite values only"):
            area(*map(np.array, samples))
    with pytest.raises(ValueError, match="at least one"):
        area(np.array([1.0]), np.array([]))
