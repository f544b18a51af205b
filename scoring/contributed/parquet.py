"""Rows of a contributed Parquet file. Nothing is allocated because the file claims that it is needed."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from scoring.contributed import stream
from scoring.contributed.columns import Column, Row, Unreadable, check_columns
from scoring.contributed.pages import Chunk, DataPage, chunks, pages
from scoring.contributed.report import Flaw, Problems, shown_name

MAGIC = b"PAR1"
LONGEST_FOOTER = 2**20  # bytes; Arrow's form of it is some hundred times larger at worst
MOST_ENTRIES = 2**16  # of a list in the footer
LARGEST_PAGE = 2**26  # bytes
LARGEST_DICTIONARY = 2**23  # bytes: each batch of rows comes with its dictionary
MOST_VALUES = 2**24  # in a column of a row group
BATCH = 1024  # rows
# Of the format's encodings all but DELTA_BYTE_ARRAY, where a value may repeat a long beginning for a few bytes:
# PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT.
ENCODINGS = {0, 2, 3, 5, 6, 8, 9}
WRITE_AGAIN = "write it again with pyarrow, pandas, Polars or DuckDB, or send JSON lines"


def parquet_rows(file: BinaryIO, columns: tuple[Column, ...], problems: Problems) -> Iterator[Row]:
    """The rows of a seekable file, numbered from 1; null cells are left out. Raises ContributionRefused."""
    footer = _footer(file, problems)
    try:
        count, parts = chunks(footer)
        if count > problems.limits.rows:
            most = f"send at most {problems.limits.rows:,}"
            problems.stop(Flaw.TOO_MANY_ROWS, None, None, f"{count:,}", most)
        parquet_file = _open_parquet(file)
        _check_schema(parquet_file.schema_arrow, columns, problems)
        dictionary_columns = _check_pages(file, parts, problems)
        texts = [column.name for column in columns if column.cells == "text" and column.name in dictionary_columns]
        table = _open_parquet(
            file, parquet_file.metadata, texts
        )  # as dictionaries: a long text that many rows share is there once
        characters = 0
        for batch in table.iter_batches(BATCH, use_threads=False):
            for number, row in _rows(batch, columns, problems):
                characters += sum(len(cell) for cell in row.values() if isinstance(cell, str))
                if characters > problems.limits.uncompressed_bytes:
                    size_words = f"{characters:,} characters, of texts that it holds once for many rows"
                    problems.stop(Flaw.BOMB, number, None, size_words, "send less")
                yield number, row
    except (pa.ArrowException, OSError, ValueError, KeyError):  # ThriftError, and names that are not UTF-8
        problems.stop(Flaw.NOT_PARQUET, problems.rows or None, None, "damaged, or encrypted", WRITE_AGAIN)


def _open_parquet(
    file: BinaryIO, metadata: pq.FileMetaData | None = None, dictionaries: list[str] | None = None
) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=dictionaries,
        memory_map=False,
        pre_buffer=False,
        thrift_string_size_limit=LONGEST_FOOTER,
        thrift_container_size_limit=MOST_ENTRIES,
        schema_depth_limit=8,
        arrow_extensions_enabled=False,
    )


def _footer(file: BinaryIO, problems: Problems) -> bytes:
    """The bytes of the footer. Raises ContributionRefused unless the file begins and ends as Parquet does."""
    size = stream.check_size(file, problems)
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        problems.stop(Flaw.FORMAT, None, None, "no Parquet", "name the file by what it is")
    file.seek(max(0, size - 8))
    end = file.read(8)
    if size < 12 or end[4:] != MAGIC:
        problems.stop(Flaw.TRUNCATED, None, None, "Parquet without its end", stream.SEND_AGAIN)
    footer = int.from_bytes(end[:4], "little")
    if footer > size - 12:
        problems.stop(Flaw.NOT_PARQUET, None, None, "a footer larger than the file", WRITE_AGAIN)
    if footer > LONGEST_FOOTER:
        size_words = f"{footer:,} bytes of metadata"
        problems.stop(
            Flaw.TOO_LARGE, None, None, size_words, f"use larger row groups; at most {LONGEST_FOOTER:,} bytes"
        )
    file.seek(size - 8 - footer)
    return file.read(footer)


def _check_schema(schema: pa.Schema, columns: tuple[Column, ...], problems: Problems) -> None:
    """Raises ContributionRefused unless the columns are ours and of types that can be read."""
    check_columns(schema.names, columns, problems)
    kinds = {column.name: column.cells for column in columns}
    for field in schema:
        type_words = {"text": "strings", "whole": "whole numbers", "numbers": "a list of floats"}[kinds[field.name]]
        if isinstance(field.type, pa.BaseExtensionType) or b"ARROW:extension:name" in (field.metadata or {}):
            problems.add(Flaw.EXTENSION_TYPE, None, field.name, "an extension type", f"write it as {type_words}")
        elif pa.types.is_nested(field.type) and not _fits(field.type, kinds[field.name]):
            problems.add(Flaw.NESTED_TYPE, None, field.name, str(field.type)[:40], f"write it as {type_words}")
        elif not _fits(field.type, kinds[field.name]):
            problems.add(Flaw.TYPE, None, field.name, str(field.type)[:40], f"write it as {type_words}")
    if problems:
        raise problems.refused(complete=False)


def _fits(kind: pa.DataType, cells: str) -> bool:
    if pa.types.is_null(kind):
        return True
    if cells == "whole":
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    if cells == "numbers":
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return bool(is_list and (pa.types.is_floating(kind.value_type) or pa.types.is_null(kind.value_type)))
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _check_pages(file: BinaryIO, columns: list[Chunk], problems: Problems) -> set[str]:
    """The columns with dictionaries. Raises ContributionRefused where pages claim too much, ThriftError."""
    dictionary_columns, total = set(), 0
    for column in columns:
        place, values = f"column {shown_name(column.name)}, row group {column.group}", 0
        for page in pages(file, column.start, column.size):
            dictionary_columns |= {column.name} if page.dictionary else set()
            total += page.unpacked
            values += page.values
            if values > MOST_VALUES or total > problems.limits.uncompressed_bytes:
                size_words = f"{place}: {values:,} values; in all {total:,} bytes"
                problems.stop(Flaw.BOMB, None, None, size_words, "use smaller row groups, or send less")
            _check_page(page, place, problems)
    return dictionary_columns


def _check_page(page: DataPage, place: str, problems: Problems) -> None:
    if page.encoding not in ENCODINGS:
        problems.stop(Flaw.NOT_PARQUET, None, None, f"{place}: encoding {page.encoding}", WRITE_AGAIN)
    size_words = f"{place}: a page of {page.unpacked:,} bytes in {page.packed:,}"
    if page.unpacked > (LARGEST_DICTIONARY if page.dictionary else LARGEST_PAGE):
        problems.stop(Flaw.BOMB, None, None, size_words, "write smaller pages")
    if page.unpacked > max(stream.RATIO_FROM, problems.limits.compression_ratio * page.packed):
        problems.stop(Flaw.BOMB, None, None, size_words, "write it without compression")


def _rows(batch: pa.RecordBatch, columns: tuple[Column, ...], problems: Problems) -> Iterator[Row]:
    kinds = {column.name: column.cells for column in columns}
    names = batch.schema.names
    cells = [_cells(array, kinds[name], problems) for name, array in zip(names, batch.columns, strict=True)]
    for row in zip(*cells, strict=True):
        problems.read_row()
        yield problems.rows, {name: cell for name, cell in zip(names, row, strict=True) if cell is not None}


def _cells(array: pa.Array, kind: str, problems: Problems) -> list[Any]:
    """The cells of a column as JSON would have them."""
    if kind == "text" and not pa.types.is_null(array.type):
        dictionary_array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        most = problems.limits.text_characters * 4  # bytes
        used = dictionary_array.indices.unique().drop_null()
        distinct = dictionary_array.dictionary.take(used).cast(pa.large_binary())
        texts = {place: _text(value, most) for place, value in zip(used.to_pylist(), distinct, strict=True)}
        return [None if place is None else texts[place] for place in dictionary_array.indices.to_pylist()]
    if kind == "whole" and pa.types.is_floating(array.type):
        return [int(v) if v is not None and v.is_integer() else v for v in array.to_pylist()]
    if kind == "numbers" and not pa.types.is_null(array.type):
        longest = problems.limits.tokens
        return [_numbers(value, longest) for value in array]
    values: list[Any] = array.to_pylist()
    return values


def _text(value: pa.Scalar, most: int) -> str | Unreadable:
    content = value.as_buffer()
    if content is not None and content.size > most:
        return Unreadable(Flaw.TOO_LONG, f"{content.size:,} bytes", "give a shorter text")
    try:
        return str(content.to_pybytes(), "utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(Flaw.NOT_UTF8, f"byte {error.start + 1:,} of the cell", "write strings as UTF-8")


def _numbers(value: pa.Scalar, longest: int) -> list[float] | Unreadable | None:
    if not value.is_valid:
        return None
    if len(value) > longest:
        return Unreadable(Flaw.TOO_LONG, f"{len(value):,} numbers", f"give at most {longest:,}")
    numbers: list[float] = value.values.to_pylist()
    return numbers
