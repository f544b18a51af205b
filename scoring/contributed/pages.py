"""What the pages of a Parquet column claim of themselves, read before Arrow allocates what they claim.

A page's header says how large it is unpacked, and how many values it holds; Arrow believes both. Headers are structs of
Thrift's compact protocol. https://parquet.apache.org/docs/file-format/
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

LONGEST_HEADER = 2**16  # bytes; statistics of a page are in it
_DEEPEST = 8
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
# Fields of a page header, and of the three headers in it: number of values, encoding.
_UNPACKED, _PACKED = 2, 3
_DICTIONARY = 7
_KINDS = {5: (1, 2), _DICTIONARY: (1, 2), 8: (1, 4)}  # a data page, a dictionary page, a data page of version 2


class PagesError(ValueError):
    """The pages of a column are not as the format has them."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page claims: bytes packed and unpacked, values, and the number of their encoding."""

    packed: int
    unpacked: int
    dictionary: bool
    values: int
    encoding: int


def pages(file: BinaryIO, start: int, size: int) -> Iterator[Page]:
    """The pages in `size` bytes of the file from `start`. Raises PagesError."""
    end = start + size
    while start < end:
        file.seek(start)
        header = _Header(file.read(min(LONGEST_HEADER, end - start)))
        fields = header.struct()
        page = _page(fields)
        start += header.at + page.packed
        yield page
    if start != end:
        raise PagesError("a page ends beyond its column")


def _page(fields: dict[int, Any]) -> Page:
    found = [kind for kind in _KINDS if isinstance(fields.get(kind), dict)]
    if len(found) != 1:
        raise PagesError("a page of no known kind")
    kind = found[0]
    numbers = [fields.get(_PACKED), fields.get(_UNPACKED), *(fields[kind].get(place) for place in _KINDS[kind])]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise PagesError("a page without its sizes")
    packed, unpacked, values, encoding = numbers
    return Page(packed, unpacked, kind == _DICTIONARY, values, encoding)


class _Header:
    """Reads one struct; `at` is where it ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Whole numbers and structs by the number of their field; None for other values."""
        if depth > _DEEPEST:
            raise PagesError("a page header is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._integer()
            if number in fields:
                raise PagesError("a page header has a field twice")
            fields[number] = None if kind in _BOOLEANS else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(_BYTE if head & 15 in _BOOLEANS else head & 15, depth + 1)
            return None
        sizes = {_BYTE: 1, _DOUBLE: 8}
        if kind not in sizes and kind != _BINARY:
            raise PagesError("a page header has a value of no known type")
        self._skip(sizes[kind] if kind in sizes else self._varint())
        return None

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise PagesError("a page header is cut off")

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise PagesError("a page header has an overlong number")
        return found | byte << shift

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
