"""Rows of a contributed file, whatever its format: JSON lines, CSV (RFC 4180) or Parquet."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Literal

from scoring.contributed import parquet, stream
from scoring.contributed.columns import Column, Row, Unreadable, check_columns
from scoring.contributed.report import Flaw, Problems, shown_name

Format = Literal["jsonl", "csv", "parquet"]
ENDINGS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
PACKED = ".gz"
LONGEST_CELL = 2**17  # characters of a cell of CSV
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_HEADS = (  # how files of other formats begin
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip file or a workbook"),
    (b"PAR1", "Parquet"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"%PDF", "PDF"),
)


def format_of(name: str) -> tuple[Format, bool] | None:
    """Format, and whether it is packed with gzip, by the file's name; None where it has none of ours."""
    name = name.lower()
    is_gzip = name.endswith(PACKED)
    bare = name.removesuffix(PACKED)
    file_format = next((file_format for ending, file_format in ENDINGS.items() if bare.endswith(ending)), None)
    return None if file_format is None or (is_gzip and file_format == "parquet") else (file_format, is_gzip)


def rows(file: BinaryIO, name: str, columns: tuple[Column, ...], problems: Problems) -> Iterator[Row]:
    """The rows of a seekable file; its name says the format. Raises ContributionRefused where reading cannot go on."""
    file_format = format_of(name)
    if file_format is None:
        problems.stop(Flaw.FORMAT, None, None, "its name", f"name it *{', *'.join(ENDINGS)}; all but Parquet also *.gz")
    kind, is_gzip = file_format
    if kind == "parquet":
        problems.unit = "row"
        return parquet.parquet_rows(file, columns, problems)
    lines = stream.lines(_check_format(stream.pieces(file, is_gzip, problems), kind, problems), problems)
    return json_rows(lines, columns, problems) if kind == "jsonl" else csv_rows(lines, columns, problems)


def _check_format(pieces: Iterator[bytes], kind: Format, problems: Problems) -> Iterator[bytes]:
    """The same pieces, once the first is not that of another format."""
    first = next(pieces, b"")
    other_format = next((name for head, name in _HEADS if first.startswith(head)), None)
    start = first.removeprefix(stream.BOM).lstrip()[:1]
    if other_format is None and kind == "csv" and start in (b"{", b"["):
        other_format = "JSON"
    if other_format is None and kind == "jsonl" and start == b"[":
        other_format = "one JSON list"
    if other_format:
        expected_format = (
            "JSON lines: one object a line" if kind == "jsonl" else "CSV: cells with commas between them, in UTF-8"
        )
        problems.stop(Flaw.FORMAT, None, None, other_format, f"send {expected_format}, or name the file by what it is")
    yield first
    yield from pieces


class _NamedTwice(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _NamedTwice(next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1))
    return members


_DECODE = json.JSONDecoder(object_pairs_hook=_object).decode


def json_rows(lines: Iterator[tuple[int, str]], columns: tuple[Column, ...], problems: Problems) -> Iterator[Row]:
    """An object a line; blank lines are passed over."""
    names = {column.name for column in columns}
    required_names = {column.name for column in columns if column.required}
    for number, line in lines:
        if not line or line.isspace():
            problems.read_blank()
            continue
        problems.read_row()
        record = json_object(line, number, problems)
        if record is None:
            continue
        if not record.keys() <= names:
            for name in record.keys() - names:
                problems.add(Flaw.UNKNOWN_COLUMN, number, None, shown_name(name), f"use {', '.join(sorted(names))}")
        absent_names = required_names - record.keys()
        for name in absent_names:
            problems.add(Flaw.MISSING_COLUMN, number, name, "absent", "give it in every line")
        if not absent_names:
            yield number, record


def json_object(
    line: str, number: int, problems: Problems, decode: Callable[[str], Any] = _DECODE
) -> dict[str, Any] | None:
    """The object in a line of JSON; None after a problem."""
    try:
        record = decode(line)
    except _NamedTwice as error:
        problems.add(Flaw.COLUMN_TWICE, number, None, shown_name(str(error)), "name each field once")
    except json.JSONDecodeError as error:
        problems.add(Flaw.NOT_JSON, number, None, f"column {error.colno:,}", "give one whole JSON object a line")
    except (ValueError, RecursionError):  # Python's limits on digits and depth
        problems.add(Flaw.NOT_JSON, number, None, "nested too deeply, or a number too long", "give flat records")
    else:
        if isinstance(record, dict):
            return record
        problems.add(Flaw.TYPE, number, None, "JSON, but no object", "give one JSON object a line")
    return None


class _Fed:
    """The lines that the CSV reader takes, with a limit on those of one row."""

    def __init__(self, lines: Iterator[tuple[int, str]], problems: Problems) -> None:
        self._lines, self._problems = lines, problems
        self.last, self._size = 0, 0

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.last = number
            self._size += len(line) + 1
            if self._size > self._problems.limits.line_bytes:
                most = f"more than {self._problems.limits.line_bytes:,} characters in a row"
                self._problems.stop(Flaw.TOO_LONG, self.last, None, most, "look for a quotation mark left open")
            yield f"{line}\n"

    def row(self) -> None:
        """Begin another row."""
        self._size = 0


def csv_rows(lines: Iterator[tuple[int, str]], columns: tuple[Column, ...], problems: Problems) -> Iterator[Row]:
    """A row under a header; empty cells are null."""
    fed = _Fed(lines, problems)
    table = csv.reader(fed, strict=True)
    csv.field_size_limit(LONGEST_CELL)  # of the process, and the reader of another kind of file may have set its own
    names: list[str] = []
    start = 1
    kinds = {column.name: column.cells for column in columns}
    try:
        for cells in table:
            if not names:
                names = cells
                check_columns(names, columns, problems)
            elif cells:
                problems.read_row()
                if len(cells) != len(names):
                    cell_counts = f"{len(cells):,} cells under {len(names):,} columns"
                    problems.add(
                        Flaw.CELLS, start, None, cell_counts, "give each column a cell; quote cells with commas"
                    )
                else:
                    yield start, {n: _cell(kinds[n], c) for n, c in zip(names, cells, strict=True) if c}
            else:
                problems.read_blank()
            fed.row()
            start = fed.last + 1
    except csv.Error as error:
        if "field limit" in str(error):
            most = f"more than {LONGEST_CELL:,} characters in a cell"
            problems.stop(Flaw.TOO_LONG, start, None, most, "send JSON lines, or Parquet")
        if "unexpected end" in str(error):
            problems.stop(Flaw.TRUNCATED, start, None, "a quotation mark left open", stream.SEND_AGAIN)
        remedy = 'put cells with commas, quotes or line ends in quotes, and double the quotes within: "a ""b"" c"'
        problems.stop(Flaw.NOT_CSV, start, None, "misplaced quotes or line ends", remedy)


def _cell(kind: str, cell: str) -> Any:
    """A cell as JSON would have it; what is no number stays a string, which is refused where numbers are checked."""
    if kind == "whole":
        return int(cell) if _WHOLE.fullmatch(cell) else cell
    if kind == "numbers":
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return Unreadable(Flaw.TYPE, "no list", "write it as [-1.25, -0.5]")
    return cell
