"""Correlations of many columns at once, against scipy and against the jackknife as a loop."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from scoring.statistics.correlations import correlations, p_value, pearson

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
coefficients = pytest.mark.parametrize("coefficient", list(SCIPY))


def columns(seed: int, k: int = 4, n: int = 40, missing: float = 0.2) -> np.ndarray:
    """Related columns with ties and gaps."""
    generator = np.random.default_rng(seed)
    found = (generator.normal(size=n) + generator.normal(size=(k, n)) * np.arange(1, k + 1)[:, None]).round(1)
    found[generator.random((k, n)) < missing] = np.nan
    return found


def both(found: np.ndarray, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
    known = np.isfinite(found[a]) & np.isfinite(found[b])
    return found[a, known], found[b, known]


@coefficients
def test_every_pair_is_scipys_on_the_rows_that_both_have(coefficient):
    found = columns(1)
    got = correlations(found, coefficient)
    assert set(got) == set(itertools.combinations(range(4), 2))
    for (a, b), of in got.items():
        x, y = both(found, a, b)
        assert of.n == len(x) < 40
        assert of.value == pytest.approx(SCIPY[coefficient](x, y).statistic, abs=1e-9)


@coefficients
def test_every_interval_is_the_jackknifes_taken_row_by_row(coefficient):
    found = columns(2, n=25)
    for (a, b), of in correlations(found, coefficient).items():
        x, y = both(found, a, b)
        n = len(x)
        left_out = [SCIPY[coefficient](np.delete(x, i), np.delete(y, i)).statistic for i in range(n)]
        error = np.sqrt((n - 1) / n * ((left_out - np.mean(left_out)) ** 2).sum())
        half = stats.t.ppf(0.975, n - 2) * error / (1 - of.value**2)
        assert np.arctanh([of.low, of.high]) == pytest.approx(np.arctanh(of.value) + half * np.array([-1, 1]), abs=1e-6)


@pytest.mark.slow
@given(hnp.arrays(np.float64, (3, 12), elements=st.one_of(st.integers(-3, 3).map(float), st.just(np.nan))))
def test_the_other_columns_and_gaps_change_nothing_of_a_pair(found):
    for coefficient in SCIPY:
        for (a, b), of in correlations(found, coefficient).items():
            alone = correlations(np.array(both(found, a, b)), coefficient)[0, 1]
            assert of.n == alone.n
            for one, other in zip((of.value, of.low, of.high), (alone.value, alone.low, alone.high), strict=True):
                assert one == pytest.approx(other, abs=1e-6)


@coefficients
def test_orders_that_agree_wholly_have_1_and_a_constant_side_has_nothing(coefficient):
    rising = np.arange(6.0)
    assert correlations(np.array([rising, 2 * rising]), coefficient)[0, 1].value == pytest.approx(1)
    assert correlations(np.array([rising, -rising]), coefficient)[0, 1].value == pytest.approx(-1)
    assert correlations(np.array([rising, np.ones(6)]), coefficient)[0, 1].value is None


@coefficients
def test_columns_without_common_rows_have_no_coefficient_and_n_is_0(coefficient):
    gap = np.array([[1, 2, np.nan, np.nan], [np.nan, np.nan, 1, 2]])
    assert (correlations(gap, coefficient)[0, 1].value, correlations(gap, coefficient)[0, 1].n) == (None, 0)


def test_pearson_of_a_matrix_is_pearson_of_two():
    found = columns(3, k=2)
    assert correlations(found, "pearson")[0, 1] == pearson(*both(found, 0, 1))


@pytest.mark.parametrize(
    ("given_columns", "coefficient", "words"),
    [(np.zeros((2, 3)), "eta", "coefficient = 'eta'"), (np.array([[1, np.inf], [1, 2]]), "pearson", "infinite")],
)
def test_what_cannot_be_correlated_is_refused_with_a_reason(given_columns, coefficient, words):
    with pytest.raises(ValueError, match=words):
        correlations(given_columns, coefficient)


@coefficients
@pytest.mark.parametrize("n", [12, 40])
def test_p_is_scipys(coefficient, n):
    pair = columns(5, n=n)
    for (a, b), of in correlations(pair, coefficient).items():
        x, y = both(pair, a, b)
        if len(x) > 8:
            expected = SCIPY[coefficient](x, y).pvalue
            assert p_value(of, x, y, coefficient) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@given(
    st.integers(3, 5).flatmap(lambda n: hnp.arrays(np.float64, (2, n), elements=st.integers(0, 4).map(float))),
    st.sampled_from(["spearman", "kendall"]),
)
def test_p_of_few_ranks_is_the_share_of_orders_as_far_from_nothing(pair, coefficient):
    x, y = pair
    correlation = correlations(pair, coefficient)[0, 1]
    if correlation.value is None:
        assert p_value(correlation, x, y, coefficient) is None
        return
    orders = [SCIPY[coefficient](x, y[list(order)]).statistic for order in itertools.permutations(range(len(x)))]
    expected = np.mean([abs(other) >= abs(correlation.value) - 1e-9 for other in orders])
    assert p_value(correlation, x, y, coefficient) == pytest.approx(expected)


def test_p_of_few_pairs_without_ties_is_kendalls_exact_one():
    x, y = np.arange(7.0), np.array([1.0, 0.0, 2.0, 4.0, 3.0, 6.0, 5.0])
    correlation = correlations(np.array([x, y]), "kendall")[0, 1]
    assert p_value(correlation, x, y, "kendall") == pytest.approx(stats.kendalltau(x, y, method="exact").pvalue)


def test_four_models_in_the_same_order_are_no_proof_by_their_ranks():
    # Of the 24 orders of four, two agree or disagree wholly: 2 / 24.
    rising = np.arange(4.0)
    for coefficient in ("spearman", "kendall"):
        correlation = correlations(np.array([rising, rising**3]), coefficient)[0, 1]
        assert p_value(correlation, rising, rising**3, coefficient) == pytest.approx(2 / 24)


def test_two_pairs_have_no_p():
    x = np.arange(2.0)
    assert p_value(pearson(x, x), x, x, "pearson") is None


@pytest.mark.slow
@coefficients
def test_p_of_unrelated_columns_is_5_percent_or_less_no_more_than_one_time_in_twenty(coefficient):
    generator = np.random.default_rng(11)
    for n in (7, 15):
        drawn = generator.normal(size=(500, 2, n))
        p_values = [p_value(correlations(pair, coefficient)[0, 1], *pair, coefficient) for pair in drawn]
        assert 0.02 < np.mean([p <= 0.05 for p in p_values]) < 0.08


@coefficients
@pytest.mark.parametrize("shape", [(0, 0), (1, 5), (2, 0)])
def test_no_pair_or_no_row_is_no_error(coefficient, shape):
    by_pair = correlations(np.zeros(shape), coefficient)
    assert len(by_pair) == (shape[0] == 2)
    assert all((of.value, of.n) == (None, 0) for of in by_pair.values())


@coefficients
def test_two_pairs_agree_or_disagree_wholly_which_shows_next_to_nothing(coefficient):
    pair = correlations(np.array([[0.0, 1.0], [5.0, 7.0]]), coefficient)[0, 1]
    assert (pair.value, pair.low, pair.high, pair.n) == (1, pytest.approx(2 * 0.025 - 1), 1, 2)
    assert pair.interval == [pair.low, 1]
    turned = correlations(np.array([[0.0, 1.0], [7.0, 5.0]]), coefficient)[0, 1]
    assert (turned.value, turned.low, turned.high) == (-1, -1, pytest.approx(1 - 2 * 0.025))


def test_one_pair_has_no_coefficient_and_no_interval():
    single = pearson(np.array([1.0]), np.array([2.0]))
    assert (single.value, single.interval, single.n) == (None, None, 1)


def test_three_pairs_have_a_p_by_ranks_and_by_values():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])
    for coefficient in ("spearman", "kendall"):
        assert p_value(correlations(np.array([x, y]), coefficient)[0, 1], x, y, coefficient) == pytest.approx(2 / 6)
    assert p_value(pearson(x, y), x, y, "pearson") == pytest.approx(stats.pearsonr(x, y).pvalue)


def test_p_of_rho_is_exact_up_to_eight_pairs_and_students_from_nine_on():
    generator = np.random.default_rng(2)
    for n in (8, 9):
        x, y = generator.permutation(n).astype(float), np.arange(n, dtype=float)
        rho = correlations(np.array([x, y]), "spearman")[0, 1]
        if n == 8:  # of each order of 8, the sum of products of ranks decides
            sums = np.array([np.dot(order, y) for order in itertools.permutations(y)]) - n * y.mean() ** 2
            expected = np.mean(np.abs(sums) >= abs(np.dot(x, y) - n * y.mean() ** 2) - 1e-9)
        else:
            expected = stats.spearmanr(x, y).pvalue
        assert p_value(rho, x, y, "spearman") == pytest.approx(expected, rel=1e-6)


def test_a_column_that_only_one_row_makes_vary_has_a_value_and_no_interval():
    pair = pearson(np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0, 1.0]))
    assert pair.value == pytest.approx(stats.pearsonr([0, 0, 0, 1], [1, 2, 3, 1]).statistic)
    assert (pair.interval, pair.n) == (None, 4)
