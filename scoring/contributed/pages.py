"""What a Parquet file claims of its columns and their pages, read before Arrow allocates what they claim.

A page's header says how large it is unpacked, and how many values it holds; Arrow believes both. And Arrow's accessors
of columns end the whole process where the footer does not have what it should.
https://parquet.apache.org/docs/file-format/
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from scoring.contributed.thrift import Struct, ThriftError

LONGEST_HEADER = 2**16  # bytes; statistics of a page are in it
# Numbers of fields: of the footer, a row group, a column, its metadata, an element of the schema, and a page header.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_COLUMNS = 1
_FILE, _METADATA = 1, 3
_PATH, _PACKED_SIZE, _DATA, _DICTIONARY = 3, 7, 9, 11
_CHILDREN = 5
_UNPACKED, _PACKED = 2, 3
_DICTIONARY_PAGE = 7
# The number of values, and of their encoding, in the headers of a data page, a dictionary, a data page of version 2.
_PAGES = {5: (1, 2), _DICTIONARY_PAGE: (1, 2), 8: (1, 4)}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group: its name, and where its pages are."""

    name: str
    group: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class DataPage:
    """What a page claims: bytes packed and unpacked, values, and the number of their encoding."""

    packed: int
    unpacked: int
    dictionary: bool
    values: int
    encoding: int


def chunks(footer: bytes) -> tuple[int, list[Chunk]]:
    """Rows and columns of a file with this footer, row group by row group. Raises ThriftError."""
    fields = Struct(footer).fields
    leaves = sum(not element.get(_CHILDREN) for element in _structs(fields, _SCHEMA)[1:])
    parts = []
    for number, group in enumerate(_structs(fields, _GROUPS), start=1):
        columns = _structs(group, _COLUMNS)
        if len(columns) != leaves:
            raise ThriftError("a row group with other columns than the schema")
        parts += [_chunk(column, number) for column in columns]
    return _natural(fields, _ROWS), parts


def _structs(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    """The list of structs in a field."""
    structs = fields.get(number)
    if not isinstance(structs, list) or not all(isinstance(item, dict) for item in structs):
        raise ThriftError(f"no list of structs in field {number}")
    return structs


def _natural(fields: dict[int, Any], number: int) -> int:
    """The whole number, from 0, in a field."""
    number_read = fields.get(number)
    if not isinstance(number_read, int) or number_read < 0:
        raise ThriftError(f"no number from 0 in field {number}")
    return number_read


def _chunk(column: dict[int, Any], group: int) -> Chunk:
    metadata = column.get(_METADATA)
    if not isinstance(metadata, dict) or _FILE in column:
        raise ThriftError("a column that is encrypted, or in another file")
    path, start = metadata.get(_PATH), _natural(metadata, _DATA)
    if not isinstance(path, list) or not path or not isinstance(path[0], bytes):
        raise ThriftError("a column without its name")
    dictionary = _natural(metadata, _DICTIONARY) if _DICTIONARY in metadata else 0
    name = path[0].decode(errors="replace")
    return Chunk(name, group, dictionary if 0 < dictionary < start else start, _natural(metadata, _PACKED_SIZE))


def pages(file: BinaryIO, start: int, size: int) -> Iterator[DataPage]:
    """The pages in `size` bytes of the file from `start`. Raises ThriftError."""
    end = start + size
    while start < end:
        file.seek(start)
        header = Struct(file.read(min(LONGEST_HEADER, end - start)))
        page = _page(header.fields)
        start += header.size + page.packed
        yield page
    if start != end:
        raise ThriftError("a page ends beyond its column")


def _page(fields: dict[int, Any]) -> DataPage:
    page_kinds = [kind for kind in _PAGES if isinstance(fields.get(kind), dict)]
    if len(page_kinds) != 1:
        raise ThriftError("a page of no known kind")
    kind = page_kinds[0]
    values, encoding = (_natural(fields[kind], place) for place in _PAGES[kind])
    return DataPage(_natural(fields, _PACKED), _natural(fields, _UNPACKED), kind == _DICTIONARY_PAGE, values, encoding)
