"""Tables as text: whatever stands in a cell, it stays one cell."""

import csv
import io
import re

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.formats import LatexTable, Table, TableColumn, as_csv, as_latex, as_markdown, as_text, latex

cell = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
COLUMNS = [TableColumn("model", numeric=False), TableColumn("value")]
tables = st.lists(st.tuples(cell, cell), max_size=4).map(lambda rows: Table("A title of 100%", COLUMNS, rows))


@given(tables)
def test_csv_gives_the_cells_back_but_for_what_a_spreadsheet_would_compute(table):
    found = list(csv.reader(io.StringIO(as_csv(table), newline="")))
    assert found[0] == ["model", "value"]
    for kept, row in zip(found[1:], table.rows, strict=True):
        for cell, written in zip(row, kept, strict=True):
            assert written in (cell, f"'{cell}")
            assert not written.startswith(("=", "@"))
            assert written == cell or cell.startswith(("=", "+", "-", "@"))


@given(tables)
def test_every_latex_row_has_one_separator_and_no_bare_special_character(table):
    rows = [[latex(cell) for cell in row] for row in table.rows]
    lines = as_latex([LatexTable(latex(table.title), "tab:one", table.columns, rows, "A note.")]).splitlines()
    body = lines[lines.index(r"    \midrule") + 1 : lines.index(r"    \bottomrule")]
    assert len(body) == len(table.rows)
    for line in body:
        plain = re.sub(
            r"\\(text[a-z]+\{\}|[&%$#_{}])|\$-\$|\$_0\$|\$\\approx\$",
            "",
            line.strip().removeprefix("{}").removesuffix(r" \\"),
        )
        assert not line.strip().startswith(("[", "*"))
        assert plain.count("&") == 1
        assert not set(plain) & set("\\%$#_{}~^<>|")


def test_latex_has_signs_that_its_own_fonts_lack():
    assert latex("\u22120.5 \u2013 0.5 \u2248 \N{SUBSCRIPT ZERO}") == r"$-$0.5 -- 0.5 $\approx$ $_0$"


def test_a_latex_row_is_no_argument_of_what_ends_the_one_before():
    rows = [["[x] one", "1"], ["*two", "2"], ["three", "3"]]
    lines = as_latex([LatexTable("A title", "tab:one", COLUMNS, rows, "A note.")]).splitlines()
    for line in (r"    {}[x] one & 1 \\", r"    {}*two & 2 \\", r"    three & 3 \\"):
        assert line in lines


@given(tables)
def test_every_markdown_row_has_as_many_cells_as_its_head(table):
    rows = as_markdown(table).splitlines()[2:]
    assert len(rows) == 2 + len(table.rows)
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {3}


def test_a_text_table_aligns_numbers_to_the_right():
    table = Table("Title", COLUMNS, [("a", "1.25"), ("longer name", "10")])
    assert as_text(table).splitlines() == [
        "Title",
        "",
        "model        value",
        "a             1.25",
        "longer name     10",
    ]
