"""Rows on their way to a table in the order of the evaluation set: every place is filled, and filled once."""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.contributed.report import Flaw, Problems, shown_id

_CHUNK_ROWS = 4096
_CHUNK_SIZE = 2**20


class Places:
    """k places for each of the texts with these ids, of a table of `kind`. Nothing is kept once there is a problem."""

    def __init__(self, kind: str, ids: Sequence[str], k: int, problems: Problems) -> None:
        self._ids, self._k, self._problems = ids, k, problems
        self._schema = SCHEMAS[kind]
        self._id_name = self._schema.names[0]
        self._fields = [field for field in self._schema if field.name not in (self._id_name, "index")]
        self._lines = np.zeros(len(ids) * k, dtype=np.int64)  # on which each place is filled; 0: not yet
        self._order = array("q")  # the places, as they were filled
        self._chunks: list[list[pa.Array]] = []
        self._waiting: list[tuple[Any, ...]] = []
        self._size = 0

    def take(self, line: int, field: str | None, number: int, index: int) -> bool:
        """Take place `index` of text `number` for what stands on `line`; False where it is taken."""
        place = number * self._k + index
        if other_line := int(self._lines[place]):
            output_name = f"{shown_id(self._ids[number])}, {index}" if self._k > 1 else shown_id(self._ids[number])
            remedy = f"give it once: it is also in {self._problems.unit} {other_line:,}"
            self._problems.add(Flaw.DUPLICATE, line, field, output_name, remedy)
            return False
        self._lines[place] = line
        return True

    def fill(self, number: int, index: int, row: tuple[Any, ...], size: int = 0) -> None:
        """Put the row, without its id and index, in its place. `size`: of what is in it, in characters or numbers."""
        if self._problems:
            self._chunks, self._waiting = [], []
            return
        self._order.append(number * self._k + index)
        self._waiting.append(row)
        self._size += size
        if len(self._waiting) == _CHUNK_ROWS or self._size > _CHUNK_SIZE:
            self._pack()

    def table(self) -> pa.Table:
        """All rows, in the order of the set. Raises ContributionRefused where one is missing or anything is wrong."""
        if not self._problems.rows:
            self._problems.add(
                Flaw.NO_ROWS, None, None, "nothing in the file", "send one with the outputs of every text"
            )
        else:
            self._report_missing()
        self._problems.refuse()
        self._pack()
        places = np.frombuffer(self._order, dtype=np.int64)
        order = None if (places[:-1] < places[1:]).all() else pa.array(np.argsort(places))
        places_in_order = np.sort(places)
        columns = {
            self._id_name: pa.array(self._ids, pa.string()).take(pa.array(places_in_order // self._k)),
            "index": pa.array(places_in_order % self._k, pa.int32()),
        }
        for number, field in enumerate(self._fields):
            column = pa.chunked_array([chunk[number] for chunk in self._chunks], type=field.type)
            columns[field.name] = column if order is None else _take_rows(column, order)
        return pa.table({name: columns[name] for name in self._schema.names}, schema=self._schema)

    def _pack(self) -> None:
        if self._waiting:
            cells = zip(*self._waiting, strict=True)
            self._chunks.append([pa.array(c, field.type) for c, field in zip(cells, self._fields, strict=True)])
        self._waiting, self._size = [], 0

    def _report_missing(self) -> None:
        counts = np.count_nonzero(self._lines.reshape(len(self._ids), self._k), axis=1)
        for number in map(int, np.flatnonzero(counts < self._k)):
            text_name, remedy = shown_id(self._ids[number]), "give its output, or a reason why there is none"
            if self._k > 1:
                first = int(np.argmin(self._lines[number * self._k : (number + 1) * self._k]))
                text_name += f": {counts[number]} of {self._k}"
                remedy = f"give all indices from 0 to {self._k - 1}, first {first}; for a refusal a reason"
            self._problems.add(Flaw.MISSING, None, self._id_name, text_name, remedy)


def _take_rows(column: pa.ChunkedArray, order: pa.Array) -> pa.ChunkedArray:
    """The column in another order. Its strings may be more than the 2 GiB that one array of them holds."""
    wide = column.cast(pa.large_string()) if pa.types.is_string(column.type) else column
    wide = pa.chunked_array([wide.combine_chunks()], type=wide.type)
    parts = [wide.take(order.slice(start, _CHUNK_ROWS)) for start in range(0, len(order), _CHUNK_ROWS)]
    return pa.chunked_array([chunk.cast(column.type) for part in parts for chunk in part.chunks], type=column.type)
