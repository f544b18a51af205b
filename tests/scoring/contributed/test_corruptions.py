"""One thing wrong with a file that was right: it is reported with its kind and its line, and nothing is taken in."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.contributed import Flaw, Limits
from scoring.evaluation_sets.label_files import UnreadableLabels, read_labelled
from tests.scoring.contributed.files import (
    NAMES,
    comma_separated,
    found,
    json_lines,
    parquet,
    parquet_of,
    read,
    read_scores,
    refusal,
    valid_rows,
    written,
)
from tests.scoring.contributed.prompts import PROMPTS, K

LONG = Limits().text_characters + 1
# What one cell of one row may become in any format: its field, what is put there, and what is reported.
CELLS = [
    ("prompt_id", "of-another-set", Flaw.FOREIGN_ID),
    ("prompt_id", "River", Flaw.FOREIGN_ID),
    ("prompt_id", "=1+1", Flaw.FORMULA),
    ("prompt_id", "@river", Flaw.FORMULA),
    ("prompt_id", "river\x07", Flaw.CONTROL),
    ("index", -1, Flaw.NEGATIVE),
    ("index", K, Flaw.INDEX),
    ("index", 2**31 - 1, Flaw.INDEX),
    ("text", "a\0b", Flaw.NUL),
    ("text", "x" * LONG, Flaw.TOO_LONG),
    ("text", None, Flaw.EMPTY),
    ("text", "", Flaw.EMPTY),
    ("error", "refused", Flaw.BOTH),
    ("finish", "content_filter", Flaw.TYPE),
    ("n_tokens", -3, Flaw.NEGATIVE),
    ("prompt", "Another prompt", Flaw.OTHER_PROMPT),
]
REASONS = [
    ("=HYPERLINK(1)", Flaw.FORMULA),
    ("+1", Flaw.FORMULA),
    ("-1", Flaw.FORMULA),
    ("@a", Flaw.FORMULA),
    ("\ta", Flaw.FORMULA),
    ("\ra", Flaw.FORMULA),
    ("two\nlines", Flaw.CONTROL),
    ("a\x1b[31m", Flaw.CONTROL),
    ("a\0b", Flaw.NUL),
    ("x" * 301, Flaw.TOO_LONG),
    (" ", Flaw.EMPTY),
]
# What only JSON can hold there.
JSON_CELLS = [
    ("prompt_id", 7, Flaw.TYPE),
    ("prompt_id", None, Flaw.TYPE),
    ("prompt_id", ["river"], Flaw.TYPE),
    ("index", "0", Flaw.TYPE),
    ("index", 1.0, Flaw.TYPE),
    ("index", True, Flaw.TYPE),
    ("index", None, Flaw.TYPE),
    ("index", float("nan"), Flaw.NOT_FINITE),
    ("index", float("inf"), Flaw.NOT_FINITE),
    ("index", 10**30, Flaw.TOO_LARGE),
    ("text", 1, Flaw.TYPE),
    ("text", ["a"], Flaw.TYPE),
    ("text", "\ud83d", Flaw.NOT_UNICODE),
    ("error", {}, Flaw.BOTH),
    ("finish", 1, Flaw.TYPE),
    ("finish", [], Flaw.TYPE),
    ("n_tokens", "3", Flaw.TYPE),
    ("n_tokens", 2**31, Flaw.TOO_LARGE),
    ("n_tokens", float("-inf"), Flaw.NOT_FINITE),
    ("prompt", 3, Flaw.TYPE),
]


def line_of(place: int, name: str) -> int:
    """Where the row of this place stands: texts in these files have a line end in them, which CSV writes as one."""
    if ".csv" in name:
        return 2 + sum(1 + row["text"].count("\n") for row in valid_rows()[:place])
    return place + 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("field", "value", "kind"), CELLS, ids=lambda value: repr(value)[:20])
@given(place=st.integers(0, len(PROMPTS) * K - 1))
def test_one_wrong_cell_is_reported_with_its_kind_line_and_field(name, field, value, kind, place):
    rows = valid_rows()
    rows[place][field] = value
    report = refusal(written(rows, name), name)
    assert report.problems[0].kind == kind
    assert found(report)[0] == (kind, line_of(place, name), field)
    assert set(report.counts) <= {kind, Flaw.MISSING}
    assert report.rows == len(rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("reason", "kind"), REASONS, ids=lambda value: repr(value)[:20])
def test_a_reason_is_one_line_of_plain_text(name, reason, kind):
    rows = valid_rows()
    rows[4] |= {"text": None, "error": reason}
    assert found(refusal(written(rows, name), name)) == [(kind, line_of(4, name), "error")]


@pytest.mark.parametrize(("field", "value", "kind"), JSON_CELLS, ids=lambda value: repr(value)[:20])
def test_a_value_of_another_type_is_reported(field, value, kind):
    rows = valid_rows()
    rows[4][field] = value
    assert found(refusal(json_lines(rows)))[0] == (kind, 5, field)


@pytest.mark.parametrize("name", NAMES)
@given(place=st.integers(0, len(PROMPTS) * K - 1))
def test_a_row_given_twice_is_reported_with_the_line_of_the_first(name, place):
    rows = valid_rows()
    report = refusal(written([*rows, rows[place]], name), name)
    assert found(report) == [(Flaw.DUPLICATE, line_of(len(rows), name), "index")]
    assert f"{line_of(place, name)}" in report.problems[0].remedy


@pytest.mark.parametrize("name", NAMES)
@given(place=st.integers(0, len(PROMPTS) * K - 1))
def test_a_row_left_out_is_reported_with_its_prompt_and_index(name, place):
    rows = valid_rows()
    left_out = rows.pop(place)
    report = refusal(written(rows, name), name)
    assert found(report) == [(Flaw.MISSING, None, "prompt_id")]
    assert f"first {left_out['index']}" in report.problems[0].remedy
    assert report.problems[0].value == f"{left_out['prompt_id']!a}: 2 of 3"


CUT = {Flaw.MISSING, Flaw.NO_ROWS, Flaw.MISSING_COLUMN}
CUT_FILES = {
    "outputs.jsonl": CUT | {Flaw.NOT_JSON},
    "outputs.csv": CUT | {Flaw.TRUNCATED, Flaw.EMPTY, Flaw.CELLS, Flaw.NOT_UTF8, Flaw.UNKNOWN_COLUMN},
    "outputs.jsonl.gz": {Flaw.TRUNCATED},
    "outputs.csv.gz": {Flaw.TRUNCATED},
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", CUT_FILES)
@given(data=st.data())
def test_a_file_that_was_cut_off_is_refused(name, data):
    whole = written(valid_rows(), name)
    size = data.draw(st.integers(2, len(whole.rstrip()) - 1))
    assert set(refusal(whole[:size], name).counts) <= CUT_FILES[name]


@given(size=st.integers(0, 3000))
def test_a_parquet_file_that_was_cut_off_is_refused(size):
    whole = written(valid_rows(), "outputs.parquet")
    report = refusal(whole[: min(size, len(whole) - 1)], "outputs.parquet")
    assert set(report.counts) <= {Flaw.TRUNCATED, Flaw.FORMAT}


@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.csv"])
@given(data=st.data())
def test_a_byte_that_is_not_utf_8_is_reported_with_its_place(name, data):
    whole = written(valid_rows(), name)
    at = data.draw(st.integers(3, len(whole) - 1).filter(lambda at: whole[at] & 0xC0 != 0x80))
    report = refusal(whole[:at] + b"\xff" + whole[at:], name)
    line = whole[:at].count(b"\n") + 1
    column = at - (whole[:at].rfind(b"\n") + 1)
    assert found(report) == [(Flaw.NOT_UTF8, line, None)]
    assert report.problems[0].value == f"byte {column + 1:,} of the line, {at + 1:,} of the file"


@pytest.mark.parametrize(
    ("line", "kind", "field"),
    [
        (b"", None, None),
        (b"  \t", None, None),
        (b"{", Flaw.NOT_JSON, None),
        (b"{} {}", Flaw.NOT_JSON, None),
        (b"{'prompt_id': 'river'}", Flaw.NOT_JSON, None),
        (b"[1]", Flaw.TYPE, None),
        (b'"river"', Flaw.TYPE, None),
        (b"null", Flaw.TYPE, None),
        (b"[" * 10**5, Flaw.NOT_JSON, None),
        (b'{"index": ' + b"1" * 5000 + b"}", Flaw.NOT_JSON, None),
        (b'{"prompt_id": "river", "index": 0, "index": 1, "text": "a"}', Flaw.COLUMN_TWICE, None),
        (b'{"prompt_id": "river", "text": "a"}', Flaw.MISSING_COLUMN, "index"),
        (b'{"index": 0, "text": "a"}', Flaw.MISSING_COLUMN, "prompt_id"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_line_that_is_no_row_is_reported(line, kind, field):
    lines = json_lines(valid_rows()).splitlines(keepends=True)
    data = b"".join([*lines[:6], line, b"\n", *lines[6:]])
    if kind is None:
        data = data.replace(lines[8], b"")
        kind, number, field = Flaw.MISSING, None, "prompt_id"
    else:
        number = 7
    assert found(refusal(data)) == [(kind, number, field)]


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_column_is_reported_with_the_names_there_are(name):
    rows = [{**row, "toxicity": "0"} for row in valid_rows()]
    report = refusal(written(rows, name), name)
    assert {kind for kind, _, _ in found(report)} == {Flaw.UNKNOWN_COLUMN}
    assert report.problems[0].value == "'toxicity'"
    assert "n_tokens" in report.problems[0].remedy


def test_columns_of_csv_are_checked_in_its_first_line():
    def header(*names):
        return (",".join(names) + "\r\nriver,0,a\r\n").encode()

    def problems(data):
        return found(refusal(data, "outputs.csv"))

    assert problems(header("prompt_id", "text", "finish")) == [(Flaw.MISSING_COLUMN, 1, "index")]
    assert problems(header("prompt_id", "index", "index")) == [(Flaw.COLUMN_TWICE, 1, None)]
    assert problems(header("prompt_id", "index", "Text")) == [(Flaw.UNKNOWN_COLUMN, 1, None)]
    assert problems(b"prompt_id;index;text\r\nriver;0;a\r\n") == [(Flaw.NOT_CSV, 1, None)]
    assert problems(b"prompt_id\tindex\ttext\r\n") == [(Flaw.NOT_CSV, 1, None)]
    assert problems(b"river,0,a\r\n")[0] == (Flaw.UNKNOWN_COLUMN, 1, None)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (b"river,0", Flaw.CELLS),
        (b"river,0,a,b", Flaw.CELLS),
        (b'river,0,"a"b', Flaw.NOT_CSV),
        (b'river,0,"a', Flaw.TRUNCATED),
        (b"river,0,a\rb", Flaw.NOT_CSV),
    ],
)
def test_a_row_that_is_not_csv_is_reported_with_its_line(row, kind):
    whole = comma_separated([{**row, "text": "x\ny"} for row in valid_rows()])
    report = refusal(whole + row + b"\r\n", "outputs.csv")
    assert found(report)[0] == (kind, 2 + 2 * len(valid_rows()), None)


@pytest.mark.parametrize("cell", ["1.0", " 1", "1e0", "0x1", "one", "٣", "1" * 19])
def test_numbers_in_csv_are_digits(cell):
    rows = valid_rows()
    rows[1]["index"] = cell
    assert found(refusal(comma_separated(rows), "outputs.csv"))[0] == (Flaw.TYPE, line_of(1, ".csv"), "index")


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (json_lines(valid_rows()), "outputs.csv", Flaw.FORMAT),
        (json.dumps(valid_rows()).encode(), "outputs.jsonl", Flaw.FORMAT),
        (json.dumps(valid_rows(), indent=1).encode(), "outputs.csv", Flaw.FORMAT),
        (parquet(valid_rows()), "outputs.jsonl", Flaw.FORMAT),
        (parquet(valid_rows()), "outputs.csv", Flaw.FORMAT),
        (json_lines(valid_rows()), "outputs.parquet", Flaw.FORMAT),
        (gzip.compress(json_lines(valid_rows())), "outputs.jsonl", Flaw.FORMAT),
        (gzip.compress(gzip.compress(json_lines(valid_rows()))), "outputs.jsonl.gz", Flaw.FORMAT),
        (gzip.compress(parquet(valid_rows())), "outputs.parquet.gz", Flaw.FORMAT),
        (b"PK\x03\x04 a workbook", "outputs.csv", Flaw.FORMAT),
        (comma_separated(valid_rows()).decode().encode("utf-16"), "outputs.csv", Flaw.FORMAT),
        (json_lines(valid_rows()), "outputs.txt", Flaw.FORMAT),
        (json_lines(valid_rows()), "outputs", Flaw.FORMAT),
        (json_lines(valid_rows()), "outputs.jsonl.gz", Flaw.NOT_GZIP),
        (gzip.compress(json_lines(valid_rows())) + b"more", "outputs.jsonl.gz", Flaw.NOT_GZIP),
        (gzip.compress(json_lines(valid_rows()))[:-8] + b"\0" * 8, "outputs.jsonl.gz", Flaw.NOT_GZIP),
        (b"", "outputs.jsonl", Flaw.NO_ROWS),
        (b"", "outputs.csv", Flaw.NO_ROWS),
        (b"", "outputs.jsonl.gz", Flaw.NO_ROWS),
        (b"", "outputs.parquet", Flaw.FORMAT),
        (b"\n\n", "outputs.jsonl", Flaw.NO_ROWS),
        (b"prompt_id,index\r\n", "outputs.csv", Flaw.NO_ROWS),
        (parquet([{"prompt_id": "a", "index": 0}]).replace(b"PAR1", b"PARE"), "outputs.parquet", Flaw.FORMAT),
    ],
)
def test_a_file_is_what_its_name_says_or_refused(data, name, kind):
    assert list(refusal(data, name).counts) == [kind]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([0.5], Flaw.POSITIVE),
        ([-1, -2, 1e-30], Flaw.POSITIVE),
        ([-1, float("nan")], Flaw.NOT_FINITE),
        ([float("-inf")], Flaw.NOT_FINITE),
        ([-1e39], Flaw.NOT_FINITE),  # beyond float32
        ([-(10**400)], Flaw.NOT_FINITE),
        ([-1, None], Flaw.TYPE),
        ([-1, "-1"], Flaw.TYPE),
        ([-1, True], Flaw.TYPE),
        ([[-1]], Flaw.TYPE),
        (-1.5, Flaw.TYPE),
        ("[-1]", Flaw.TYPE),
        ({}, Flaw.TYPE),
        ([-1.0] * (2**16 + 1), Flaw.TOO_LONG),
        ([], Flaw.EMPTY),
        (None, Flaw.EMPTY),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_log_likelihood_that_is_none_is_reported(value, kind):
    rows = [{"id": prompt.id, "token_log_likelihoods": [-1.5]} for prompt in PROMPTS]
    rows[2]["token_log_likelihoods"] = value
    assert found(refusal(json_lines(rows), reader=read_scores)) == [(kind, 3, "token_log_likelihoods")]


@pytest.mark.parametrize("cell", ["-1.5", "[-1.5", "-1 -2", "[" * 10**5])
def test_log_likelihoods_in_csv_are_a_list(cell):
    table = io.StringIO(newline="")
    csv.writer(table).writerows(
        [("id", "token_log_likelihoods"), *((prompt.id, "[-1]") for prompt in PROMPTS[:4]), ("rain-again", cell)]
    )
    report = refusal(table.getvalue().encode(), "outputs.csv", reader=read_scores)
    assert found(report) == [(Flaw.TYPE, 6, "token_log_likelihoods")]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([-1.0] * 5), Flaw.TYPE),
        (pa.array(["-1"] * 5), Flaw.TYPE),
        (pa.array([["-1"]] * 5), Flaw.NESTED_TYPE),
        (pa.array([[[-1.0]]] * 5), Flaw.NESTED_TYPE),
        (pa.array([{"a": -1.0}] * 5), Flaw.NESTED_TYPE),
        (pa.array([[("a", -1.0)]] * 5, pa.map_(pa.string(), pa.float64())), Flaw.NESTED_TYPE),
        (
            pa.ExtensionArray.from_storage(
                pa.opaque(pa.list_(pa.float32()), "t", "v"), pa.array([[-1.0]] * 5, pa.list_(pa.float32()))
            ),
            Flaw.EXTENSION_TYPE,
        ),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:30],
)
def test_columns_of_parquet_have_the_types_of_their_contents(array, kind):
    data = parquet_of(pa.table({"id": [prompt.id for prompt in PROMPTS], "token_log_likelihoods": array}))
    assert found(refusal(data, "outputs.parquet", reader=read_scores)) == [(kind, None, "token_log_likelihoods")]


@pytest.mark.parametrize("values", [[-1.0, None], [float("nan")], [0.5]])
def test_rows_of_parquet_are_checked_as_others_are(values):
    lists = pa.array([[-1.0]] * 3 + [values, [-1.0]], pa.list_(pa.float32()))
    data = parquet_of(pa.table({"id": [prompt.id for prompt in PROMPTS], "token_log_likelihoods": lists}))
    (problem,) = refusal(data, "outputs.parquet", reader=read_scores).problems
    assert (problem.unit, problem.line, problem.field) == ("row", 4, "token_log_likelihoods")


def test_a_string_in_parquet_that_is_not_utf_8_is_reported_with_its_row():
    rows = valid_rows()
    texts = pa.array([row["text"].encode() for row in rows[:-1]] + [b"ab\xff"])
    bad = pa.StringArray.from_buffers(len(rows), *texts.buffers()[1:])
    table = pa.table({"prompt_id": [row["prompt_id"] for row in rows], "index": [0, 1, 2] * 5, "text": bad})
    (problem,) = refusal(parquet_of(table), "outputs.parquet").problems
    assert (problem.kind, problem.line, problem.field) == (Flaw.NOT_UTF8, 15, "text")
    assert problem.value == "byte 3 of the cell"


@pytest.mark.parametrize(
    ("reason", "kind"), [(7, Flaw.TYPE), ({}, Flaw.TYPE), ("no \ud83d", Flaw.NOT_UNICODE)], ids=lambda cell: ascii(cell)
)
def test_a_reason_that_only_json_can_hold_is_reported(reason, kind):
    rows = valid_rows()
    rows[4] = {"prompt_id": rows[4]["prompt_id"], "index": rows[4]["index"], "error": reason}
    assert found(refusal(json_lines(rows))) == [(kind, 5, "error")]


def test_a_reason_may_be_as_long_as_its_limit():
    rows = valid_rows()
    rows[4] = {"prompt_id": rows[4]["prompt_id"], "index": rows[4]["index"], "error": "x" * 300}
    assert read(json_lines(rows))["error"].to_pylist()[4] == "x" * 300


def test_as_many_log_likelihoods_as_the_limit_are_taken():
    rows = [{"id": prompt.id, "token_log_likelihoods": [-1.5] * 4} for prompt in PROMPTS]
    for name in NAMES:
        assert read_scores(written(rows, name), name, Limits(tokens=4)).num_rows == len(PROMPTS)
        report = refusal(written(rows, name), name, Limits(tokens=3), read_scores)
        assert report.counts == {Flaw.TOO_LONG: len(PROMPTS)}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_have_as_many_rows_and_bytes_as_the_limits(name):
    data = written(valid_rows(), name)
    assert read(data, name, Limits(rows=15, sent_bytes=len(data))).num_rows == 15
    assert refusal(data, name, Limits(sent_bytes=len(data) - 1)).counts == {Flaw.TOO_LARGE: 1}


@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.jsonl.gz", "outputs.csv"])
def test_unpacked_a_file_may_be_as_large_as_the_limit(name):
    data, size = written(valid_rows(), name), len(written(valid_rows(), name.removesuffix(".gz")))
    assert read(data, name, Limits(uncompressed_bytes=size)).num_rows == 15
    kind = Flaw.BOMB if name.endswith(".gz") else Flaw.TOO_LARGE
    assert refusal(data, name, Limits(uncompressed_bytes=size - 1)).counts == {kind: 1}


def test_rows_of_csv_are_as_long_as_the_limit_each_by_itself():
    data = comma_separated([{**row, "text": "x"} for row in valid_rows()])
    longest = max(map(len, data.splitlines(keepends=True)))
    assert read(data, "outputs.csv", Limits(line_bytes=longest)).num_rows == 15
    report = refusal(data, "outputs.csv", Limits(line_bytes=longest - 1))
    assert found(report) == [(Flaw.TOO_LONG, 1, None)]


def test_a_cell_of_csv_that_is_too_long_for_its_reader_is_reported_with_another_format(tmp_path):
    """Whatever was read before: a file of labelled texts may have longer cells, and the limit is one of the process."""
    (tmp_path / "texts.csv").write_text(f"id,text\n1,{'x' * 140_000}\n")
    with pytest.raises(UnreadableLabels):
        read_labelled(tmp_path / "texts.csv")
    rows = valid_rows()
    rows[0]["text"] = "x" * 140_000
    (problem,) = refusal(comma_separated(rows), "outputs.csv").problems
    assert str(problem) == "line 2: too long (more than 131,072 characters in a cell); send JSON lines, or Parquet"


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"[]", "outputs.jsonl", "(one JSON list); send JSON lines: one object a line, or name the file by what it is"),
        (
            b"PK\x03\x04",
            "outputs.csv",
            "(a zip file or a workbook); send CSV: cells with commas between them, in UTF-8, or name the file by what "
            "it is",
        ),
        (b"a", "outputs.txt", "(its name); name it *.jsonl, *.ndjson, *.csv, *.parquet; all but Parquet also *.gz"),
        (
            b"PAR1\0\0\0PAR1",
            "outputs.parquet",
            "(Parquet without its end); the file is not whole: write and send it again",
        ),
        (
            b"PAR1" + (1).to_bytes(4, "little") + b"PAR1",
            "outputs.parquet",
            "(a footer larger than the file); write it again with pyarrow, pandas, Polars or DuckDB, or send JSON "
            "lines",
        ),
        (
            b"PAR1" + bytes(4) + b"PAR1",
            "outputs.parquet",
            "(damaged, or encrypted); write it again with pyarrow, pandas, Polars or DuckDB, or send JSON lines",
        ),
    ],
    ids=lambda cell: str(cell)[:20],
)
def test_what_a_file_is_instead_is_said_with_what_to_do(data, name, words):
    report = refusal(data, name)
    (problem,) = report.problems
    assert str(problem).partition(" (")[2] == words.removeprefix("(")
    assert not report.complete


@pytest.mark.parametrize("name", ["outputs.csv", "outputs.parquet"])
def test_where_columns_are_wrong_no_row_is_read(name):
    report = refusal(written([{**row, "toxicity": "0"} for row in valid_rows()], name), name)
    assert (report.rows, report.complete) == (0, False)
