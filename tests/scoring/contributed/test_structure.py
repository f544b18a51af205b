"""What files are made of: structs of Thrift, pages of Parquet, members of a large JSON document; and what is said."""

import io
from itertools import pairwise
from typing import Any

import pytest

from scoring.contributed import ContributionRefused, Flaw, Limits, Matched, Problem, Report
from scoring.contributed import stream as streams
from scoring.contributed.cells import plain_reason
from scoring.contributed.documents import members
from scoring.contributed.pages import Chunk, DataPage, chunks, pages
from scoring.contributed.report import Problems, describe_value, shown_id, shown_member, shown_name
from scoring.contributed.thrift import Struct, ThriftError

# Thrift's compact protocol, written without the code under test.


def varint(number: int) -> bytes:
    whole = bytearray()
    while number > 127:
        whole.append(number & 127 | 128)
        number >>= 7
    return bytes([*whole, number])


def zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


def value(content: Any) -> tuple[int, bytes]:
    """The type of a value, and its bytes."""
    if isinstance(content, bool):
        return (1 if content else 2), b""
    if isinstance(content, int):
        return 6, zigzag(content)
    if isinstance(content, float):
        return 7, bytes(8)
    if isinstance(content, bytes):
        return 8, varint(len(content)) + content
    if isinstance(content, dict):
        return 12, struct(content)
    kind = value(content[0])[0] if content else 3
    head = bytes([len(content) << 4 | kind]) if len(content) < 15 else bytes([0xF0 | kind]) + varint(len(content))
    return 9, head + b"".join(value(element)[1] for element in content)


def struct(fields: dict[int, Any]) -> bytes:
    written = b""
    for before, number in pairwise([0, *sorted(fields)]):
        kind, content = value(fields[number])
        step = number - before
        written += (bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + zigzag(number)) + content
    return written + b"\0"


def test_a_struct_is_read_field_by_field_and_no_further():
    content = {
        1: 5,
        2: -3,
        3: b"a name of 20 letters",
        4: {1: 2**40, 16: {}},
        20: [{1: number} for number in range(14)],
        21: [{1: number} for number in range(15)],
        22: [b"a"] * 200,
        23: [],
        24: -(2**63),
        25: 2**63 - 1,
    }
    data = struct(content)
    read = Struct(data + b"\x15\x02\0")
    assert read.fields == content
    assert read.size == len(data)


def test_values_that_nobody_asks_for_are_passed_over():
    data = struct({1: True, 2: False, 3: 0.5})[:-1] + b"\x13\x07" + b"\x19\x31abc" + b"\x1a\x22ab" + struct({1: 9})
    assert Struct(data).fields == {1: None, 2: None, 3: None, 4: None, 5: [None] * 3, 6: [None] * 2, 7: 9}


def test_short_and_middling_whole_numbers_are_read_as_long_ones():
    assert Struct(b"\x14\x03\x15\x04\x16\x05\0").fields == {1: -2, 2: 2, 3: -3}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut off"),
        (b"\x15", "cut off"),
        (b"\x15\x80", "cut off"),
        (b"\x18\x03ab", "cut off"),
        (b"\x17" + bytes(7), "cut off"),
        (b"\x15" + b"\x80" * 10 + b"\x01\0", "an overlong number"),
        (b"\x1b\0\0", "a value of no known type"),
        (b"\x19\x10\0", "a value of no known type"),
        (b"\x15\x02\x05\x02\x02\0", "a field twice"),
        (b"\x19\xf3\x7f\0", "a list that is too long or too deep"),
        (b"\x1c" * 17 + b"\0" * 18, "nested too deeply"),
        (b"\x19" + b"\x19" * 16 + b"\x03\0", "a list that is too long or too deep"),
    ],
    ids=str,
)
def test_bytes_that_are_no_struct_are_refused(data, message):
    with pytest.raises(ThriftError, match=message):
        Struct(data)


def test_structs_and_lists_may_be_nested_sixteen_deep():
    assert Struct(b"\x1c" * 16 + b"\0" * 17).size == 33
    assert Struct(b"\x19" + b"\x19" * 15 + b"\x03\0").size == 18


# Parquet

COLUMN = {3: [b"text", b"inner"], 7: 100, 9: 10, 11: 4}


def footer(**changes: Any) -> bytes:
    parts = {"column": {3: COLUMN}, "schema": [{5: 1}, {}], "rows": 7} | changes
    parts = {"groups": [{1: [parts["column"]]}, {1: [{3: {**COLUMN, 9: 50, 11: 60}}]}]} | parts
    return struct({2: parts["schema"], 3: parts["rows"], 4: parts["groups"]})


def test_a_footer_says_where_the_columns_of_each_row_group_are():
    assert chunks(footer()) == (7, [Chunk("text", 1, 4, 100), Chunk("text", 2, 50, 100)])
    for change, start in (({11: 0}, 10), ({11: 10}, 10), ({11: 9}, 9), ({11: 1}, 1)):
        assert chunks(footer(column={3: COLUMN | change}))[1][0].start == start
    bare = {name: part for name, part in COLUMN.items() if name != 11}
    assert chunks(footer(column={3: bare}))[1][0] == Chunk("text", 1, 10, 100)
    assert chunks(footer(column={3: COLUMN | {3: [b"te\xff"]}}))[1][0].name == "te\ufffd"
    assert chunks(footer(groups=[], rows=0)) == (0, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 3}, "no list of structs in field 2"),
        ({"schema": [1, 2]}, "no list of structs in field 2"),
        ({"groups": [1]}, "no list of structs in field 4"),
        ({"groups": [{}]}, "no list of structs in field 1"),
        ({"rows": -1}, "no number from 0 in field 3"),
        ({"rows": b"7"}, "no number from 0 in field 3"),
        ({"schema": [{5: 2}, {}, {}]}, "a row group with other columns than the schema"),
        ({"schema": [{5: 1}, {5: 1}]}, "a row group with other columns than the schema"),
        ({"column": {2: 1}}, "a column that is encrypted, or in another file"),
        ({"column": {1: b"other", 3: COLUMN}}, "a column that is encrypted, or in another file"),
        ({"column": {3: COLUMN | {3: 1}}}, "a column without its name"),
        ({"column": {3: COLUMN | {3: []}}}, "a column without its name"),
        ({"column": {3: COLUMN | {3: [1]}}}, "a column without its name"),
        ({"column": {3: COLUMN | {7: -1}}}, "no number from 0 in field 7"),
        ({"column": {3: COLUMN | {9: b""}}}, "no number from 0 in field 9"),
        ({"column": {3: COLUMN | {11: -4}}}, "no number from 0 in field 11"),
    ],
    ids=str,
)
def test_a_footer_that_lacks_what_is_read_of_it_is_refused(changes, message):
    with pytest.raises(ThriftError, match=message):
        chunks(footer(**changes))


def page(packed: int, unpacked: int, **kinds: Any) -> bytes:
    """A page of so many bytes with its header."""
    numbers = {"data": 5, "dictionary": 7, "second": 8}
    fields = {numbers[kind]: content for kind, content in kinds.items()}
    return struct({1: 0, 2: unpacked, 3: packed} | fields) + b"\x7f" * packed


def test_pages_say_what_they_hold_each_kind_in_fields_of_its_own():
    data = page(3, 9, dictionary={1: 2, 2: 0}) + page(4, 8, data={1: 5, 2: 8}) + page(1, 1, second={1: 6, 2: 1, 4: 3})
    assert list(pages(io.BytesIO(b"PAR1" + data), 4, len(data))) == [
        DataPage(3, 9, True, 2, 0),
        DataPage(4, 8, False, 5, 8),
        DataPage(1, 1, False, 6, 3),
    ]
    assert list(pages(io.BytesIO(data), 0, 0)) == []
    with pytest.raises(ThriftError, match="a page ends beyond its column"):
        list(pages(io.BytesIO(data), 0, len(data) - 1))


@pytest.mark.parametrize("kinds", [{}, {"data": {1: 1, 2: 0}, "dictionary": {1: 1, 2: 0}}, {"data": 3}], ids=str)
def test_a_page_is_of_one_known_kind(kinds):
    data = page(1, 1, **kinds)
    with pytest.raises(ThriftError, match="a page of no known kind"):
        list(pages(io.BytesIO(data), 0, len(data)))


# JSON

DOCUMENT = (
    ' \r\n{"a": 12345, "list": [1, {"b": [2, 3]}, "x, ]} \\" é"], "none" :\t[ ] , "big": Infinity,"f": -12.5e3, '
    '"o":{}, "s": "\\u00e9\\n☂", "deep": {"c": [{}]}, "last": true } \n'
)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 1000])
def test_a_document_is_the_same_in_pieces_of_any_size(size, monkeypatch):
    monkeypatch.setattr(streams, "PIECE", size)
    assert list(members(io.BytesIO(DOCUMENT.encode()), False, Problems(Limits()))) == [
        ("a", None, 12345),
        ("list", 1, 1),
        ("list", 2, {"b": [2, 3]}),
        ("list", 3, 'x, ]} " é'),
        ("big", None, float("inf")),
        ("f", None, -12500.0),
        ("o", None, {}),
        ("s", None, "é\n☂"),
        ("deep", None, {"c": [{}]}),
        ("last", None, True),
    ]
    assert list(members(io.BytesIO(b" {} "), False, Problems(Limits()))) == []


FAR = " " * 40  # so that what is wrong is not taken for what is not read yet


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("text", "kind", "field", "finding"),
    [
        ("[1]" + FAR, Flaw.NOT_JSON, None, "{ is missing"),
        ("{1: 2}", Flaw.NOT_JSON, None, "a member without a name"),
        ('{"a" 1}', Flaw.NOT_JSON, None, ": is missing"),
        ('{"a": 1 "b": 2}', Flaw.NOT_JSON, None, ", is missing"),
        ('{"a": [1 2]}', Flaw.NOT_JSON, None, ", is missing"),
        ('{"a": 1} x', Flaw.NOT_JSON, None, "something after its end"),
        ('{"a": tru' + FAR + "}", Flaw.NOT_JSON, "a", "Expecting value"),
        ('{"a": [0, {"b" 1' + FAR + "}]}", Flaw.NOT_JSON, "a, element 2", "Expecting ':' delimiter"),
        ('{"a": ' + "1" * 5000 + FAR + "}", Flaw.NOT_JSON, "a", "nested too deeply, or a number too long"),
        ("", Flaw.TRUNCATED, None, "JSON without its end"),
        ('{"a": 1', Flaw.TRUNCATED, "a", "JSON without its end"),
        ('{"a": [1, 2 ', Flaw.TRUNCATED, None, "JSON without its end"),
        ('{"a": "text' + "x" * 100, Flaw.TRUNCATED, "a", "JSON without its end"),
        ('{"a": 1, ', Flaw.TRUNCATED, None, "JSON without its end"),
        ('{"a": "' + "x" * 20_000, Flaw.TOO_LONG, "a", "more than 9,000 characters in a record"),
    ],
    ids=lambda cell: str(cell)[:20],
)
def test_what_is_wrong_with_a_document_is_said_with_the_member_it_is_in(text, kind, field, finding, size, monkeypatch):
    monkeypatch.setattr(streams, "PIECE", size)
    with pytest.raises(ContributionRefused) as refused:
        list(members(io.BytesIO(text.encode()), False, Problems(Limits(line_bytes=9000))))
    (problem,) = refused.value.report.problems
    assert (problem.kind, problem.line, problem.field, problem.value) == (kind, None, field, finding)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("tail", "place"), [(b"\xc3\xff", 10), (b"\xff", 10), (b"\xe2\x98", 10), (b"\xe2\x98\x82\xff", 13)]
)
def test_the_first_byte_that_is_no_character_is_counted_from_the_start_of_the_file(tail, place, size):
    data = b'{"\xc3\xa9": "' + b"x" + tail
    with pytest.raises(ContributionRefused) as refused:
        list(streams.characters((data[n : n + size] for n in range(0, len(data), size)), Problems(Limits())))
    (problem,) = refused.value.report.problems
    assert (problem.kind, problem.value) == (Flaw.NOT_UTF8, f"byte {place} of the file")


# What is said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "null"),
        (True, "true"),
        (-1.5, "-1.5"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "a very large number"),
        (1e300, "1e+300"),
        ("ab", "a string of 2 characters"),
        ("x" * 1234, "a string of 1,234 characters"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "an object"),
    ],
    ids=lambda cell: str(cell)[:20],
)
def test_values_are_described_without_what_stands_in_them(content, words):
    assert describe_value(content) == words


def test_names_are_shown_where_they_look_like_names():
    assert [shown_name(name) for name in ("prompt_id", "two words", 7, None)] == [
        "'prompt_id'",
        "a string of 9 characters",
        "7",
        "null",
    ]
    assert [shown_member(name) for name in ("a" * 40, "a" * 41)] == ["a" * 40, "a string of 41 characters"]
    assert [shown_id(name) for name in ("a" * 38, "a" * 39, "é")] == [f"'{'a' * 38}'", f"'{'a' * 39}…", "'\\xe9'"]


def test_a_problem_names_its_place_what_stands_there_and_what_to_do():
    def words(line: int | None, field: str | None) -> str:
        return str(Problem(Flaw.TYPE, "row", line, field, "7", "give a string"))

    assert words(1234, "text") == "row 1,234, text: wrong type (7); give a string"
    assert words(1, None) == "row 1: wrong type (7); give a string"
    assert words(None, "text") == "text: wrong type (7); give a string"
    assert words(None, None) == "file: wrong type (7); give a string"


def test_a_report_says_whether_the_file_was_read_to_its_end():
    problem = Problem(Flaw.EMPTY, "line", 3, "text", "empty", "say why")
    counts = {Flaw.EMPTY: 1200, Flaw.TYPE: 1}
    report = Report(4000, False, counts, (problem,))
    assert str(report) == (
        "4,000 rows read; nothing after that was read. neither output nor reason: 1,200, wrong type: 1.\n"
        "line 3, text: neither output nor reason (empty); say why"
    )
    assert str(Report(1, True, {Flaw.TYPE: 1}, ())) == "1 rows read. wrong type: 1."
    assert report.total == 1201
    assert (str(ContributionRefused(report)), Matched(3)) == (str(report), Matched(3, 0, 0, 0))


def test_what_a_tool_says_becomes_a_reason_in_one_line_of_text():
    assert plain_reason("HELM", "timed\nout \ud83d  today", 300) == "HELM: timed out ? today"
    assert plain_reason("HELM", "timed out", 11) == "HELM: timed"
