"""How many ranks a model gained, beside its rank: for eyes an arrow and a number, for screen readers words."""

from types import SimpleNamespace

import pytest

from leaderboard.templatetags.cells import gained


def show_move(gain: int | None, cause: str = "drift") -> str:
    movement = SimpleNamespace(before=SimpleNamespace(number=3), cause=cause)
    return str(gained(SimpleNamespace(gained=gain), SimpleNamespace(movement=movement)))


@pytest.mark.parametrize(
    ("gain", "drawn", "words"), [(2, "▲2", "rose by 2"), (0, "=", "kept its rank"), (-11, "▼11", "fell by 11")]
)
def test_a_move_is_drawn_and_said_with_its_cause(gain, drawn, words):
    html = show_move(gain)
    assert f'aria-hidden="true">{drawn}<' in html
    assert f'class="visually-hidden">, {words}<' in html
    assert f'title="{words.capitalize()} since version 3: drift"' in html


def test_a_move_whose_cause_nobody_noted_names_the_version_alone():
    assert 'title="Kept its rank since version 3"' in show_move(0, cause="")


def test_a_model_that_was_not_there_before_has_no_move():
    assert show_move(None) == ""
    assert gained(SimpleNamespace(gained=1), SimpleNamespace(movement=None)) == ""
