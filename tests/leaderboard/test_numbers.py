"""Numbers as people read them: a true minus, the digits that were asked for, and no negative nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.numbers import MINUS, decimals, plus
from leaderboard.rankings.words import coefficient
from scoring.statistics.correlations import Correlation


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(0.126, 2, "0.13"), (-0.126, 2, "−0.13"), (-0.004, 2, "0.00"), (-12, 0, "−12")]
)
def test_a_value_has_the_digits_that_were_asked_for_and_a_true_minus(value, digits, text):
    assert decimals(value, digits) == text


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_what_is_read_is_what_python_writes(value, digits):
    text = decimals(value, digits)
    assert float(text.replace(MINUS, "-")) == float(f"{value:.{digits}f}")
    assert "-" not in text
    assert text != decimals(-value, digits) or not float(text)


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(0.126, 2, "+0.13"), (-0.126, 2, "−0.13"), (0.0, 3, "0"), (3, 1, "+3.0")]
)
def test_a_change_has_its_sign_and_nothing_has_none(value, digits, text):
    assert plus(value, digits) == text


def test_a_coefficient_in_words_has_a_true_minus_in_each_of_its_numbers():
    assert coefficient(Correlation(-0.313, -0.721, -0.004, 9)) == "is −0.31 (95% −0.72 to 0.00)"
    assert coefficient(Correlation(-0.313, None, None, 2)) == "is −0.31"
    assert coefficient(Correlation(None, None, None, 9)) == "has no value, as one side never varies"
