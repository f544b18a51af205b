"""Small drawings of the documentation: marks, names and cells stand where their numbers say."""

import pytest

from leaderboard.queries.drawings import Cell, CellGrid, Mark, Strip, StripRow, compare_pairs

pytestmark = pytest.mark.either_database


def draw_strip(**options: object) -> Strip:
    rows = [
        StripRow("First", [Mark(0.0), Mark(0.5, "open")], "a note", (0.25, 1.0)),
        StripRow("Second", [Mark(1.0, "square")]),
    ]
    return Strip("Title", "What is seen.", 0.0, 1.0, rows, **options)


def test_marks_and_spans_of_a_strip_stand_by_their_values_and_rows_one_below_the_other():
    strip = draw_strip()
    assert (strip.width, strip.floor, strip.height) == (360, 78, 102)
    assert (strip.left, strip.right, strip.notes_x) == (112, 298, 312)
    first, second = strip.rows
    assert strip.drawn_rows == [
        (first, 39, [(112, "full"), (205, "open")], (158.5, 298)),
        (second, 65, [(298, "square")], None),
    ]


def test_a_strip_may_begin_and_end_at_any_value():
    strip = Strip("Title", "What is seen.", -2.0, 2.0, [])
    assert [strip.place(value) for value in (-2, -1, 0, 0.123, 2)] == [112, 158.5, 205, 210.7, 298]


@pytest.mark.parametrize(
    ("lines", "drawn"),
    [
        ([], []),
        ([(0.5, "middle")], [(205, "middle", "middle")]),
        ([(1.0, "right"), (0.0, "left")], [(112, "left", "middle"), (298, "right", "middle")]),
        ([(0.5, "b"), (0.6, "c"), (0.4, "a")], [(186.4, "a", "end"), (205, "b", "start"), (223.6, "c", "start")]),
    ],
)
def test_names_of_lines_that_stand_close_are_written_away_from_each_other(lines, drawn):
    assert draw_strip(lines=lines).drawn_lines == drawn


@pytest.mark.parametrize(("distance", "anchors"), [(89.9, ["end", "start"]), (90, ["middle", "middle"])])
def test_names_need_90_units_between_their_lines_to_stand_in_the_middle(distance, anchors):
    lines = [(0.0, "a"), (distance / 186, "b")]
    assert [anchor for _, _, anchor in draw_strip(lines=lines).drawn_lines] == anchors


def test_cells_of_a_grid_share_the_width_beside_the_labels():
    cells = [Cell("1", "full"), Cell("0", "open")]
    grid = CellGrid("Title", "What is seen.", ["one", "two"], [("First", cells), ("Second", cells[::-1])])
    assert (grid.width, grid.height, grid.cell_width) == (360, 94, 124)
    assert grid.drawn_columns == [(174, "one"), (298, "two")]
    assert grid.drawn_rows == [
        ("First", 42, [(112, 174, cells[0]), (236, 298, cells[1])]),
        ("Second", 74, [(112, 174, cells[1]), (236, 298, cells[0])]),
    ]


def test_a_pair_is_won_by_the_larger_value_and_shared_where_both_are_equal():
    rows = compare_pairs([("harmful", 0.5), ("other", 0.1)], [("a", 0.4), ("b", 0.5), ("c", 0.6)])
    win, tie, loss = Cell("1", "full"), Cell("½", "half"), Cell("0", "open")
    assert rows == [("harmful", [win, tie, loss]), ("other", [loss, loss, loss])]
