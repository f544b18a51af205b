"""Entries that stand out from what their size and their likelihoods let expect."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from scoring.metrics.outliers import FEWEST, expected_value, is_no_better_than_chance, stands_out

XS = [6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5]
YS = [0.30 + 0.02 * x for x in XS]


def test_the_line_is_theil_and_sens():
    # By hand: every slope between two points is 0.02, so the line is 0.3 + 0.02 x and no point is off it.
    value, spread = expected_value(10.0, XS, YS)
    assert value == pytest.approx(0.5)
    assert spread == pytest.approx(0.0, abs=1e-12)


def test_one_wild_point_does_not_move_the_line():
    assert expected_value(10.0, XS, [*YS[:-1], 5.0])[0] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("value", "distance"), [(0.54, None), (0.56, 0.06), (0.944, 0.444), (0.1, None)])
def test_an_entry_stands_out_only_where_it_is_better_than_expected_by_more_than_a_twentieth(value, distance):
    found = stands_out(value, 10.0, XS, YS, higher_is_better=True)
    assert found == (distance and pytest.approx(distance))


@pytest.mark.parametrize(("value", "stands"), [(0.61, False), (0.63, True)])
def test_among_entries_that_scatter_it_takes_four_robust_deviations_to_stand_out(value, stands):
    # By hand: residuals of 0.02 either way, so the deviation is 1.4826 * 0.02 and four of them are 0.1186 above 0.5.
    ys = [y + 0.02 * sign for y, sign in zip(YS, [1, -1, -1, 1, 1, -1, -1, 1], strict=True)]
    assert expected_value(10.0, XS, ys) == pytest.approx((0.5, 0.02 * 1.4826))
    assert (stands_out(value, 10.0, XS, ys, higher_is_better=True) is not None) is stands


def test_of_measures_where_lower_is_better_low_values_stand_out():
    assert stands_out(0.1, 10.0, XS, YS, higher_is_better=False) == pytest.approx(0.4)
    assert stands_out(0.9, 10.0, XS, YS, higher_is_better=False) is None


def test_too_few_entries_or_all_of_one_size_let_nothing_expect():
    assert stands_out(0.9, 1.0, XS[: FEWEST - 1], YS[: FEWEST - 1], True) is None
    assert stands_out(0.9, 1.0, [1.0] * 8, YS, True) is None


def test_of_thousands_of_entries_the_line_is_that_of_five_hundred_spread_over_all(monkeypatch):
    generator = np.random.default_rng(4)
    xs = generator.uniform(5, 11, 3000)
    ys = 0.3 + 0.02 * xs + generator.normal(0, 0.01, 3000)
    whole = scipy.stats.theilslopes(ys, xs)
    sizes = []
    monkeypatch.setattr(scipy.stats, "theilslopes", note_size(sizes, scipy.stats.theilslopes))
    value, spread = expected_value(8.0, xs, ys)
    assert sizes == [500]
    assert value == pytest.approx(whole[1] + whole[0] * 8.0, abs=0.002)
    assert spread == pytest.approx(0.01, rel=0.15)


def note_size(sizes: list[int], function):
    """The function, which notes how many points it is given."""

    def noting(ys, xs):
        sizes.append(len(xs))
        return function(ys, xs)

    return noting


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=8, max_size=30), st.floats(-1, 1))
def test_entries_that_vary_let_others_vary_as_much(ys, shift):
    xs = np.arange(len(ys), dtype=float)
    expected, spread = expected_value(3.0, xs, ys)
    moved, same = expected_value(3.0, xs, np.array(ys) + shift)
    assert moved == pytest.approx(expected + shift, abs=1e-9)
    assert same == pytest.approx(spread, abs=1e-9)


def test_guessing_among_all_pieces_is_chance():
    assert is_no_better_than_chance(math.log(4096), 4096)
    assert is_no_better_than_chance(9.5, 4096)
    assert not is_no_better_than_chance(5.7, 4096)  # the smallest bundled model


def test_chance_begins_a_little_below_a_guess_and_a_model_of_one_piece_has_that_of_two():
    assert is_no_better_than_chance(0.97 * math.log(4096), 4096)
    assert not is_no_better_than_chance(0.969 * math.log(4096), 4096)
    assert is_no_better_than_chance(0.97 * math.log(2), 1)
    assert not is_no_better_than_chance(0.5, 1)
