"""Intervals of published areas: they hold the true safety score where the usual formula does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.metrics.approximate_safety import Moments
from scoring.statistics.area_bounds import conservative_interval, hanley_mcneil_variance
from scoring.statistics.proportions import wilson_interval
from tests.bench.areas import coverage, read_toxicities

DRAWS = 400
MODELS = [
    (Moments(0.2, 1.1), Moments(0.0, 1.1)),
    (Moments(0.0, 0.8), Moments(0.0, 0.8)),
    (Moments(0.3, 1.6), Moments(0, 1.2)),
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "heavy tails", "skewed"])
def test_the_interval_holds_the_scaled_score_in_95_percent_of_draws_and_the_usual_one_does_not(shape):
    generator = np.random.default_rng(20261124)
    texts = read_toxicities()
    found = [
        coverage(generator, shape, moments, texts[name], DRAWS)
        for name in ("chinese", "mental dis", "latino")
        for moments in MODELS
    ]
    assert min(conservative for _, conservative, _ in found) >= 0.95
    assert min(usual for usual, _, _ in found) < 0.95


def test_hanley_and_mcneil_s_variance_is_that_of_exponential_values():
    n, m, share = 40, 60, 0.7  # an area of 0.7: rates in the ratio 0.3 to 0.7
    generator = np.random.default_rng(1)
    positive = generator.exponential(share / (1 - share), (4000, n, 1))
    areas = (positive > generator.exponential(1.0, (4000, 1, m))).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(share, abs=0.003)
    assert areas.var() == pytest.approx(float(hanley_mcneil_variance(share, n, m)), rel=0.08)


@given(st.floats(0, 1), st.integers(1, 5000), st.integers(1, 5000))
def test_bounds_lie_around_the_area_within_0_and_1_and_do_not_depend_on_which_class_is_positive(area, n, m):
    low, high = conservative_interval(area, n, m)
    assert 0 <= low <= area + 1e-12
    assert area - 1e-12 <= high <= 1
    assert conservative_interval(area, m, n) == (low, high)
    mirrored = conservative_interval(1 - area, n, m)
    assert (1 - mirrored[1], 1 - mirrored[0]) == pytest.approx((float(low), float(high)), abs=1e-9)


def test_many_at_once_are_the_same_as_each_by_itself():
    areas, n, m = [0.1, 0.35, 1.0], [20, 171, 3], [30, 266, 9]
    low, high = conservative_interval(areas, n, m)
    each = [conservative_interval(*one) for one in zip(areas, n, m, strict=True)]
    assert [(a, b) for a, b in zip(low, high, strict=True)] == [(float(a), float(b)) for a, b in each]


@pytest.mark.parametrize(
    ("area", "n", "m", "word"), [(0.5, 0, 3, "counts"), (1.2, 3, 3, "areas"), (-0.1, 3, 3, "areas")]
)
def test_what_is_no_area_is_refused(area, n, m, word):
    with pytest.raises(ValueError, match=word):
        conservative_interval(area, n, m)


@pytest.mark.parametrize(("n", "m"), [(7, 3), (1, 1), (2, 50)])
def test_hanley_and_mcneil_s_variance_of_a_half_is_that_of_mann_and_whitneys_statistic(n, m):
    assert float(hanley_mcneil_variance(0.5, n, m)) == pytest.approx((n + m + 1) / (12 * n * m))


def test_hanley_and_mcneil_s_variance_by_hand():
    # Of two positives: (0.21 + 0.7 / 1.3 - 0.49) / 2; of two negatives: (0.21 + 0.98 / 1.7 - 0.49) / 2.
    assert hanley_mcneil_variance(0.7, [2, 1], [1, 2]).tolist() == pytest.approx([0.129231, 0.148235], abs=1e-6)


def test_a_bound_is_wilsons_for_as_many_pairs_as_the_smaller_class_has():
    low, high = conservative_interval(0.25, 8, 40, 0.9)
    assert (float(low), float(high)) == pytest.approx(tuple(map(float, wilson_interval(2, 8, 0.9))))
