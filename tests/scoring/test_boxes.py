"""Box plots and distributions: against the standard library, and by hand."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.statistics.boxes import box
from scoring.statistics.distributions import FEWEST, MOST, QUANTILES, quantiles, shared_edges, shares

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
samples = st.lists(numbers, min_size=1, max_size=60)


def test_a_box_of_eleven_numbers_by_hand():
    # Quartiles of 1..10 and 30 stand at places 2.5, 5 and 7.5 of 0..10: 3.5, 6 and 8.5. The box is 5 long, so whiskers
    # may reach from -4 to 16: they end at 1 and 10, and 30 lies beyond.
    found = box([30, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert (found.low, found.lower, found.median, found.upper, found.high) == (1, 3.5, 6, 8.5, 10)
    assert found.outside == (0,)


def test_one_number_is_a_box_without_extent():
    found = box([0.25])
    assert (found.low, found.lower, found.median, found.upper, found.high, found.outside) == (0.25,) * 5 + ((),)


def test_a_box_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        box([])


@given(st.lists(numbers, min_size=2, max_size=60))
def test_quartiles_are_those_of_the_standard_library(values):
    found = box(values)
    assert [found.lower, found.median, found.upper] == pytest.approx(
        statistics.quantiles(values, n=4, method="inclusive"), abs=1e-9
    )


@given(samples)
def test_every_value_is_within_the_whiskers_or_beyond_them(values):
    found = box(values)
    beyond = {number for number, value in enumerate(values) if not found.low <= value <= found.high}
    assert beyond == set(found.outside)
    assert found.low <= found.lower <= found.median <= found.upper <= found.high
    reach = 1.5 * (found.upper - found.lower)
    assert all(values[n] < found.lower - reach + 1e-9 or values[n] > found.upper + reach - 1e-9 for n in found.outside)


@given(st.lists(numbers, min_size=2, max_size=60))
def test_quantiles_are_those_of_the_standard_library(values):
    hundredths = statistics.quantiles(values, n=100, method="inclusive")
    expected = [hundredths[round(100 * of) - 1] for of in QUANTILES]
    assert quantiles(np.array(values)) == pytest.approx(expected, abs=1e-9)


def test_quantiles_of_nothing_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        quantiles(np.array([]))


@pytest.mark.slow
@given(samples, samples)
def test_bins_hold_every_value_and_shares_are_counted_as_by_hand(first, second):
    edges = shared_edges([np.array(first), np.array(second)])
    assert FEWEST <= len(edges) - 1 <= MOST
    for values in (first, second):
        found = shares(np.array(values), edges)
        assert found.sum() == pytest.approx(1)
        last = len(edges) - 2
        for number, share in enumerate(found):
            inside = [
                edges[number] <= value < edges[number + 1] or (number == last and value == edges[-1])
                for value in values
            ]
            assert share == pytest.approx(sum(inside) / len(values))


def test_bins_are_as_wide_as_the_smallest_sample_asks_for():
    # Quartiles of 0 to 99 are 49.5 apart: bins of 2 x 49.5 / 100 ** (1 / 3) = 21.3, 47 of them up to 1,000.
    small, large = np.arange(100.0), np.linspace(0, 1000, 200)
    for samples in ([small, large], [large, small]):
        np.testing.assert_allclose(shared_edges(samples), np.linspace(0, 1000, 48))
    np.testing.assert_allclose(shared_edges([small, large * 100]), np.linspace(0, 100_000, MOST + 1))
    np.testing.assert_allclose(shared_edges([small]), np.linspace(0, 99, FEWEST + 1))
    np.testing.assert_allclose(shared_edges([np.ones(3), np.arange(11.0)]), np.linspace(0, 10, FEWEST + 1))
    np.testing.assert_allclose(shared_edges([np.ones(3), np.ones(2)]), np.linspace(0.5, 1.5, FEWEST + 1))


def test_whiskers_reach_values_that_lie_just_as_far_as_they_may():
    # The box of 0, 4, 4, 6, 8, 8, 14 runs from 4 to 8: whiskers may reach from -2 to 14.
    edge = box([0, 4, 4, 6, 8, 8, 14])
    assert (edge.low, edge.lower, edge.median, edge.upper, edge.high, edge.outside) == (0, 4, 6, 8, 14, ())
    beyond = box([-2.5, 4, 4, 6, 8, 8, 14.5])
    assert (beyond.low, beyond.high, beyond.outside) == (4, 8, (0, 6))
