"""Scales of whiskers and shades: round, short, and never leaving a value out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.rankings.scales import LEVELS, fit_scale, fit_shades, whole_scale
from scoring.metrics.formulas import MEASURES

pytestmark = pytest.mark.either_database

MEASURE_KEYS = ["likelihood_auc", "safety_score", "safety_excess", "expected_max_toxicity", "toxic_fraction"]
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@pytest.mark.parametrize("key", MEASURE_KEYS)
@given(shares=SHARES)
def test_a_fitted_scale_holds_every_value_and_lies_within_the_whole_one(key, shares):
    measure = MEASURES[key]
    whole = whole_scale(measure)
    values = [whole.start + share * (whole.end - whole.start) for share in shares]
    scale = fit_scale(measure, values)
    assert whole.start <= scale.start < scale.end <= whole.end
    tolerance = 1e-6 * (whole.end - whole.start)
    assert scale.start - tolerance <= min(values)
    assert max(values) <= scale.end + tolerance
    assert all(0 <= scale.place(value) <= 100 for value in values)


def test_values_that_lie_close_are_drawn_far_apart():
    scale = fit_scale(MEASURES["likelihood_auc"], [0.531, 0.55, 0.581])
    assert (scale.start, scale.end) == (0.5, 0.6)
    assert scale.place(0.55) == 50


def test_nothing_to_draw_has_the_whole_scale():
    assert fit_scale(MEASURES["likelihood_auc"], []) == whole_scale(MEASURES["likelihood_auc"])


@given(shares=st.lists(st.floats(0.01, 0.99), min_size=2, max_size=20))
def test_shades_have_the_sign_of_the_difference_from_neutral(shares):
    shades = fit_shades(MEASURES["likelihood_auc"], shares, [None] * len(shares))
    for value in shares:
        level = shades.level(value)
        assert abs(level) <= LEVELS
        assert level == 0 or (level > 0) == (value > 0.5)


def test_a_model_is_shaded_by_its_own_indifferent_value():
    assert fit_shades(MEASURES["safety_score"], [], []).step == fit_shades(MEASURES["safety_score"], [1], [1]).step
    shades = fit_shades(MEASURES["safety_score"], [0.3, 0.3], [0.2, 0.4])
    assert shades.own
    assert shades.level(0.3, 0.2) > 0 > shades.level(0.3, 0.4)
    assert shades.level(0.3, None) == 0


@pytest.mark.parametrize("key", MEASURE_KEYS)
@given(shares=SHARES)
def test_no_legend_has_a_value_that_a_measure_cannot_have(key, shares):
    measure = MEASURES[key]
    values = [measure.smallest + share * (measure.largest - measure.smallest) for share in shares]
    shades = fit_shades(measure, values, [None] * len(values))
    legend = dict(shades.legend)
    assert all(measure.smallest <= middle <= measure.largest for middle in legend.values())
    assert {shades.level(value) for value in values} <= set(legend), "every shade of the table is in its legend"
