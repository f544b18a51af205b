"""Scales of whiskers and shades: round, short, and never leaving a value out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.rankings.scales import LEVELS, WhiskerScale, fit_scale, fit_shades, round_up, whole_scale
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


@pytest.mark.parametrize(
    ("key", "values", "start", "end"),
    [
        ("likelihood_auc", [0.3], 0.3, 0.5),
        ("likelihood_auc", [0.5], 0.4, 0.6),
        ("likelihood_auc", [0.1, 0.3], 0.1, 0.5),
        ("likelihood_auc", [0.0, 1.0], 0.0, 1.0),
        ("safety_excess", [0.1, 0.32], -0.4, 0.4),
        ("safety_excess", [-0.32, 0.1], -0.4, 0.4),
        ("safety_excess", [0.0], -1.0, 1.0),
        ("expected_max_toxicity", [0.31, 0.47], 0.3, 0.5),
        ("expected_max_toxicity", [0.4], 0.0, 1.0),
        ("expected_max_toxicity", [0.0], 0.0, 1.0),
        ("expected_max_toxicity", [0.98, 0.99], 0.98, 0.99),
    ],
)
def test_a_scale_ends_at_the_nearest_round_steps_of_about_a_quarter_of_it(key, values, start, end):
    scale = fit_scale(MEASURES[key], values)
    assert (scale.start, scale.end) == (start, end)


@pytest.mark.parametrize(
    ("step", "rounded"),
    [
        (0, 0.01),
        (0.001, 0.001),
        (0.0201, 0.025),
        (0.03, 0.05),
        (0.15, 0.2),
        (0.2, 0.2),
        (0.2001, 0.25),
        (0.25, 0.25),
        (0.251, 0.5),
        (0.5, 0.5),
        (0.6, 1),
        (1, 1),
        (1.5, 2),
        (7, 10),
    ],
)
def test_a_step_is_rounded_up_to_one_that_reads_well(step, rounded):
    assert round_up(step) == pytest.approx(rounded, rel=1e-6)


@pytest.mark.parametrize(
    ("key", "start", "end"), [("likelihood_auc", 0, 1), ("expected_max_toxicity", 0, 1), ("safety_excess", -1, 1)]
)
def test_the_whole_scale_of_a_measure_begins_at_its_least_value(key, start, end):
    assert whole_scale(MEASURES[key]) == WhiskerScale(start, end)


def test_a_place_is_in_percent_of_the_scale_and_never_beyond_its_ends():
    scale = WhiskerScale(0.4, 0.7)
    assert [scale.place(value) for value in (0.1, 0.4, 0.45, 0.5, 0.7, 0.9)] == [0, 0, 16.7, 33.3, 100, 100]


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


def test_a_legend_has_the_middle_of_each_shade_that_a_value_can_have_the_worst_first():
    neutral = fit_shades(MEASURES["likelihood_auc"], [0.3, 0.95], [None, None])
    assert not neutral.typical
    assert not neutral.own
    assert [level for level, _ in neutral.legend] == [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    assert [middle for _, middle in neutral.legend] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    median = fit_shades(MEASURES["expected_max_toxicity"], [0.2, 0.4, 0.5], [None] * 3)
    assert median.typical
    assert not median.own
    assert [level for level, _ in median.legend] == [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    assert [middle for _, middle in median.legend] == pytest.approx([0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2])
    own = fit_shades(MEASURES["safety_score"], [0.3, 0.5, 0.9], [0.2, 0.1, None])
    assert own.own
    assert not own.typical
    assert [level for level, _ in own.legend] == [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    assert [middle for _, middle in own.legend] == pytest.approx([-0.4, -0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("key", "legend"),
    [
        ("expected_max_toxicity", {-4: 0.04, -3: 0.03, -2: 0.02, -1: 0.01, 0: 0}),
        ("safety_score", {0: 0, 1: 0.01, 2: 0.02, 3: 0.03, 4: 0.04}),
        (
            "likelihood_auc",
            {-4: 0.46, -3: 0.47, -2: 0.48, -1: 0.49, 0: 0.5, 1: 0.51, 2: 0.52, 3: 0.53, 4: 0.54},
        ),
    ],
)
def test_without_values_a_legend_has_the_finest_shades_that_there_can_be(key, legend):
    assert dict(fit_shades(MEASURES[key], [], []).legend) == pytest.approx(legend)


def test_a_shade_begins_half_a_step_from_the_middle_of_its_neighbour_and_the_last_has_no_end():
    shades = fit_shades(MEASURES["likelihood_auc"], [0.3, 0.95], [None, None])  # steps of 0.1 around 0.5
    levels = {0.5: 0, 0.54: 0, 0.56: 1, 0.64: 1, 0.66: 2, 0.94: 4, 1.0: 4, 0.46: 0, 0.44: -1, 0.05: -4, 0.0: -4}
    assert {value: shades.level(value) for value in levels} == levels
    lower_is_better = fit_shades(MEASURES["expected_max_toxicity"], [0.2, 0.4, 0.5], [None] * 3)  # 0.05 around 0.4
    levels = {0.2: 4, 0.34: 1, 0.39: 0, 0.41: 0, 0.46: -1, 0.9: -4}
    assert {value: lower_is_better.level(value) for value in levels} == levels
    own = fit_shades(MEASURES["safety_score"], [0.3, 0.5], [0.2, 0.1])  # steps of 0.1 around each model's own
    assert [own.level(0.3, 0.2), own.level(0.5, 0.1), own.level(0.1, 0.4)] == [1, 4, -3]


def test_the_widest_differences_from_own_values_bound_the_legend():
    shades = fit_shades(MEASURES["safety_score"], [1.0, 0.0], [0.0, 1.0])
    legend = dict(shades.legend)
    assert (shades.step, legend[4], legend[-4]) == (pytest.approx(0.25), pytest.approx(1), pytest.approx(-1))


def test_shades_are_wide_enough_for_the_farthest_value_to_lie_in_the_last_one():
    assert fit_shades(MEASURES["likelihood_auc"], [0.5, 0.98], [None, None]).step == pytest.approx(0.2)
    assert fit_shades(MEASURES["safety_score"], [0.98], [0.5]).step == pytest.approx(0.2)


def test_a_legend_ends_with_the_largest_value_that_there_can_be():
    shades = fit_shades(MEASURES["expected_max_toxicity"], [0.7, 0.9, 0.95], [None] * 3)
    assert dict(shades.legend) == pytest.approx({-2: 1, -1: 0.95, 0: 0.9, 1: 0.85, 2: 0.8, 3: 0.75, 4: 0.7})
