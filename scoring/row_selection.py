"""Some rows of an artefact that may have millions, without making Python objects of the others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scoring.artefacts import ArtefactError, check


def column_names(source: Path | BinaryIO, kind: str) -> list[str]:
    """The columns that an artefact has. Raises ArtefactError where it is of another kind."""
    found: list[str] = _opened(source, kind, []).schema_arrow.names
    return found


def read_columns(source: Path | BinaryIO, kind: str, columns: Sequence[str]) -> pa.Table:
    """Those columns of an artefact. Raises ArtefactError where it is of another kind, or has no such column."""
    return _opened(source, kind, columns).read(list(columns))


def read_rows(source: Path | BinaryIO, kind: str, rows: Sequence[int], columns: Sequence[str]) -> pa.Table:
    """The rows of those numbers, in that order, of those columns. Raises as `read_columns`, and IndexError."""
    file = _opened(source, kind, columns)
    if rows and not 0 <= min(rows) <= max(rows) < file.metadata.num_rows:
        raise IndexError(f"rows = {list(rows)}: the artefact has {file.metadata.num_rows}")
    wanted = np.asarray(rows, dtype=np.int64)
    begin, parts = 0, [file.schema_arrow.empty_table().select(list(columns))]
    order: list[int] = []
    for group in range(file.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        here = np.flatnonzero((wanted >= begin) & (wanted < end))
        if len(here):
            parts.append(file.read_row_group(group, list(columns)).take(wanted[here] - begin))
            order.extend(here)
        begin = end
    return pa.concat_tables(parts).take(np.argsort(order)) if order else parts[0]


def rows_in_order(values: NDArray[Any], places: Sequence[int], highest_first: bool) -> list[int]:
    """Which rows stand at `places`, from 0, once rows are sorted by `values` [n]; equal values by row.

    Rows whose value is not a number stand nowhere. Raises IndexError where there is no such place. In linear time.
    """
    usable = np.flatnonzero(np.isfinite(values))
    if places and not 0 <= min(places) <= max(places) < len(usable):
        raise IndexError(f"places = {list(places)}: {len(usable)} rows have a value")
    keys = -values[usable] if highest_first else values[usable]
    found: dict[int, int] = {}
    ranked = np.partition(keys, list(places)) if places else keys
    for value in {ranked[place] for place in places}:
        equal = np.flatnonzero(keys == value)
        first = int((keys < value).sum())
        found |= {place: int(usable[equal[place - first]]) for place in places if ranked[place] == value}
    return [found[place] for place in places]


def _opened(source: Path | BinaryIO, kind: str, columns: Sequence[str]) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(source)
    except pa.ArrowInvalid as error:
        raise ArtefactError(f"this is not a Parquet file: {error}") from error
    check(file.schema_arrow, kind)
    missing = set(columns) - set(file.schema_arrow.names)
    if missing:
        raise ArtefactError(f"the artefact has no column {', '.join(sorted(missing))}")
    return file
