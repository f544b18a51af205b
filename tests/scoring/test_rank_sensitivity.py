"""The same entries under several judges: ranks, pairs that keep their order, and Kendall's W."""

from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scoring.statistics.rank_sensitivity import kendall_w, rank_sensitivity

BOARDS = arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(2, 9)), elements=st.integers(0, 6).map(float))


def test_ranks_ranges_and_robust_pairs_of_three_judges_by_hand():
    values = np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3], [0.1, 0.2, 0.2]])
    sensitivity = rank_sensitivity(values, "lower")
    assert sensitivity.ranks.tolist() == [[1, 2, 3], [2, 1, 3], [1, 2, 2]]
    assert sensitivity.lowest.tolist() == [1, 1, 2]
    assert sensitivity.highest.tolist() == [2, 2, 3]
    assert sensitivity.median.tolist() == [1, 2, 3]
    # The first is better than the third to all; the second ties with the third once, the first two change places.
    assert (sensitivity.robust, sensitivity.pairs) == (1, 3)


def test_a_measure_of_which_more_is_better_turns_the_ranks_over():
    values = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    assert rank_sensitivity(values, "higher").ranks.tolist() == [[3, 2, 1], [3, 2, 1]]
    assert rank_sensitivity(values, "higher").robust == 3


def test_w_is_1_for_one_order_and_that_of_friedmans_statistic_otherwise():
    assert kendall_w(np.array([[1.0, 2, 3, 4], [10, 20, 30, 40]])) == pytest.approx(1)
    assert kendall_w(np.array([[1.0, 2, 3], [3, 2, 1]])) == pytest.approx(0)
    values = np.random.default_rng(3).integers(0, 5, (4, 7)).astype(float)
    friedman = scipy.stats.friedmanchisquare(*values.T).statistic
    assert kendall_w(values) == pytest.approx(friedman / (4 * 6))


def test_there_is_no_w_of_one_judge_of_one_entry_or_where_a_judge_finds_all_alike():
    assert kendall_w(np.array([[1.0, 2]])) is None
    assert kendall_w(np.array([[1.0], [2]])) is None
    assert kendall_w(np.array([[1.0, 2], [1, 1]])) is None


def test_what_has_no_value_is_refused():
    with pytest.raises(ValueError, match="give finite numbers"):
        rank_sensitivity(np.array([[1.0, np.nan]]), "lower")


@pytest.mark.slow
@given(BOARDS)
def test_medians_lie_in_ranges_and_robust_pairs_are_those_that_a_count_finds(values):
    sensitivity = rank_sensitivity(values, "lower")
    assert (sensitivity.lowest <= sensitivity.median).all()
    assert (sensitivity.median <= sensitivity.highest).all()
    counted = sum(
        all(row[a] < row[b] for row in values) or all(row[a] > row[b] for row in values)
        for a, b in combinations(range(values.shape[1]), 2)
    )
    assert sensitivity.robust == counted
    if sensitivity.concordance is not None:
        assert -1e-12 <= sensitivity.concordance <= 1 + 1e-12


@pytest.mark.slow
@given(BOARDS, st.randoms())
def test_neither_the_order_of_the_judges_nor_that_of_the_entries_matters(values, random):
    rows, columns = list(range(values.shape[0])), list(range(values.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    first, second = (rank_sensitivity(board, "lower") for board in (values, values[rows][:, columns]))
    assert second.ranks.tolist() == first.ranks[rows][:, columns].tolist()
    assert (first.robust, first.concordance) == (second.robust, pytest.approx(second.concordance))
