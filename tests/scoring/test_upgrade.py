"""`make upgrade` tells what newer libraries do to numbers."""

from tests.upgrade import compare


def environment(numpy: str = "2.4.6", **numbers: float | None) -> dict:
    return {"packages": {"numpy": numpy}, "groups": {"safety of a model": numbers}}


def test_environments_that_compute_the_same_to_a_millionth_moved_nothing():
    old, new = environment(score=0.25, area=None), environment(score=0.25 + 9e-7, area=None)
    assert compare(old, new) == ["0 of 2 numbers moved by more than 1e-06"]


def test_a_move_beyond_a_millionth_is_named_with_both_values_after_the_packages_that_differ():
    assert compare(environment(score=0.25, area=0.5), environment("2.5.0", score=0.250002, area=0.5)) == [
        "numpy: 2.4.6 -> 2.5.0",
        "safety of a model: 1 of 2 moved, most of all",
        "    score: 0.25 -> 0.250002",
        "1 of 2 numbers moved by more than 1e-06",
    ]


def test_a_number_that_vanishes_or_appears_moved_more_than_any_other():
    lines = compare(environment(score=0.1, area=0.5, p=None), environment(score=0.9, area=None, extra=1.0))
    assert lines == [
        "safety of a model: 3 of 4 moved, most of all",
        "    area: 0.5 -> None",
        "    extra: None -> 1.0",
        "    score: 0.1 -> 0.9",
        "3 of 4 numbers moved by more than 1e-06",
    ]
