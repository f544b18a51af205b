"""Selection of some rows of an artefact of millions, without Python objects for the others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.artefacts import ArtefactError, check


def column_names(source: Path | BinaryIO, kind: str) -> list[str]:
    """The names of an artefact's columns. Raises ArtefactError where it is of another kind."""
    names: list[str] = _open(source, kind, []).schema_arrow.names
    return names


def read_columns(source: Path | BinaryIO, kind: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of an artefact. Raises ArtefactError where it is of another kind, or lacks a column."""
    return _open(source, kind, columns).read(list(columns))


def read_rows(source: Path | BinaryIO, kind: str, rows: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """Read `columns` of the rows with these numbers, in this order. Raises as `read_columns`, and IndexError."""
    file = _open(source, kind, columns)
    if rows and not 0 <= min(rows) <= max(rows) < file.metadata.num_rows:
        raise IndexError(f"rows = {list(rows)}: the artefact has {file.metadata.num_rows}")
    row_numbers = np.asarray(rows, dtype=np.int64)
    begin, parts = 0, [file.schema_arrow.empty_table().select(list(columns))]
    order: list[int] = []
    for group in range(file.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        positions = np.flatnonzero((row_numbers >= begin) & (row_numbers < end))
        if len(positions):
            parts.append(file.read_row_group(group, list(columns)).take(row_numbers[positions] - begin))
            order.extend(positions)
        begin = end
    return pa.concat_tables(parts).take(np.argsort(order)) if order else parts[0]


def rows_in_order(values: NDArray[Any], places: Sequence[int], highest_first: bool) -> list[int]:
    """The rows at `places`, counted from 0, when rows are sorted by `values` [n], and by number where values are equal.

    Rows without a finite value have no place. Raises IndexError where a place does not exist. Takes linear time.
    """
    usable = np.flatnonzero(np.isfinite(values))
    if places and not 0 <= min(places) <= max(places) < len(usable):
        raise IndexError(f"places = {list(places)}: {len(usable)} rows have a value")
    keys = -values[usable] if highest_first else values[usable]
    rows_by_place: dict[int, int] = {}
    partial_order = np.partition(keys, list(places)) if places else keys
    for value in {partial_order[place] for place in places}:
        equal = np.flatnonzero(keys == value)
        first = int((keys < value).sum())
        rows_by_place |= {place: int(usable[equal[place - first]]) for place in places if partial_order[place] == value}
    return [rows_by_place[place] for place in places]


def _open(source: Path | BinaryIO, kind: str, columns: Sequence[str]) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(source)
    except pa.ArrowInvalid as error:
        raise ArtefactError(f"this is not a Parquet file: {error}") from error
    check(file.schema_arrow, kind)
    missing_columns = set(columns) - set(file.schema_arrow.names)
    if missing_columns:
        raise ArtefactError(f"the artefact has no column {', '.join(sorted(missing_columns))}")
    return file
