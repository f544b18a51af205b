"""Correlations of many columns at once, against scipy and against the jackknife as a loop."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from scoring.statistics.correlations import correlations, pearson

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
