"""Shifts of texts given part by part are those of all texts at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring.metrics.agreement import distribution_shift
from scoring.metrics.pooled_shift import BINS, PooledShift

score = st.floats(0, 1, width=32) | st.just(float("nan"))
parts = st.lists(st.lists(st.tuples(score, score), max_size=20), min_size=1, max_size=5)


@pytest.mark.slow
@given(parts)
def test_it_is_the_shift_of_all_texts_to_within_a_rounding_of_scores(given_parts):
    pooled = PooledShift()
    arrays = [np.array(part, dtype=np.float32).reshape(-1, 2) for part in given_parts]
    for part in arrays:
        pooled.add(part[:, 0], part[:, 1])
    whole = np.concatenate(arrays)
    exact = distribution_shift({"a": whole[:, 0]}, {"a": whole[:, 1]})
    found = pooled.shift("a")
    if not exact:
        assert found is None
        return
    assert found is not None
    assert (found.n, found.missing, found.rose, found.fell) == (
        exact[0].n,
        exact[0].missing,
        exact[0].rose,
        exact[0].fell,
    )
    assert found.mean_shift == pytest.approx(exact[0].mean_shift, abs=1e-12)
    assert found.wasserstein == pytest.approx(exact[0].wasserstein, abs=1.01 / BINS)


def test_its_distance_is_scipys():
    generator = np.random.default_rng(7)
    before, after = generator.beta(1, 4, 5000), generator.beta(1.3, 4, 5000)
    pooled = PooledShift()
    for start in range(0, 5000, 999):
        pooled.add(before[start : start + 999], after[start : start + 999])
    assert pooled.shift("a").wasserstein == pytest.approx(stats.wasserstein_distance(before, after), abs=1 / BINS)


@pytest.mark.parametrize("wrong", [-0.1, 1.1])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        PooledShift().add(np.array([0.5]), np.array([wrong]))


def test_parts_add_up_at_the_threshold_of_the_attribute():
    pooled = PooledShift(0.7)
    assert pooled.shift("a") is None
    pooled.add(np.array([0.6, np.nan, 0.9]), np.array([0.8, 0.5, 0.7]))
    pooled.add(np.array([0.75]), np.array([1.0]))
    shift = pooled.shift("a")
    assert (shift.attribute, shift.n, shift.missing, shift.rose, shift.fell) == ("a", 3, 1, 1, 1)
    assert shift.mean_shift == pytest.approx((0.2 - 0.2 + 0.25) / 3)
    assert shift.wasserstein == pytest.approx((0.1 + 0.05 + 0.1) / 3, abs=1 / BINS)
    assert PooledShift().shift("a") is None
