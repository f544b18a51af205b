"""Structs of Thrift's compact protocol, in which Parquet says what is in a file.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

_DEEPEST = 16
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12


class ThriftError(ValueError):
    """Bytes are not such a struct."""


class Struct:
    """The struct at the beginning of `data`: `fields` by their number, and `size`, how many bytes it has.

    Whole numbers, byte strings, structs (as dicts) and lists of these are read; other values are None. Raises
    ThriftError.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = 0
        self.fields = self._struct(0)

    def _struct(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ThriftError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._integer()
            if number in fields:
                raise ThriftError("a field twice")
            fields[number] = None if kind in _BOOLEANS else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self._struct(depth)
        if kind in _LISTS:
            return self._list(depth)
        if kind == _BINARY:
            return self._take(self._varint())
        if kind not in (_BYTE, _DOUBLE):
            raise ThriftError("a value of no known type")
        self._take(1 if kind == _BYTE else 8)
        return None

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        kind = _BYTE if head & 15 in _BOOLEANS else head & 15
        count = head >> 4 if head >> 4 < 15 else self._varint()
        if depth > _DEEPEST or count > len(self._data):  # each element has a byte or more
            raise ThriftError("a list that is too long or too deep")
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        start, self.size = self.size, self.size + count
        if self.size > len(self._data):
            raise ThriftError("cut off")
        return self._data[start : self.size]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ThriftError("an overlong number")
        return number | byte << shift

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
