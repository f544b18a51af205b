"""Contributed files written without the code under test."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scoring.contributed import ContributionRefused, Flaw, Limits, Report, read_generations, read_likelihoods
from tests.scoring.contributed.prompts import PROMPTS, K, continuation

Rows = list[dict[str, Any]]
NAMES = ["outputs.jsonl", "outputs.jsonl.gz", "outputs.csv", "outputs.csv.gz", "outputs.parquet"]
PARQUET_TYPES = {
    "index": pa.int32(),
    "n_tokens": pa.int32(),
    "token_log_likelihoods": pa.list_(pa.float32()),
}


def json_lines(rows: Rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def comma_separated(rows: Rows) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(names)
    for row in rows:
        cells = (row.get(name) for name in names)
        writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in cells])
    return buffer.getvalue().encode()


def parquet(rows: Rows, **options: Any) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pa.array([row.get(name) for row in rows], PARQUET_TYPES.get(name, pa.string())) for name in names}
    return parquet_of(pa.table(columns), **options)


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def written(rows: Rows, name: str) -> bytes:
    """The rows in the format that a name says."""
    bare = name.removesuffix(".gz")
    form = {"jsonl": json_lines, "csv": comma_separated, "parquet": parquet}[bare.rpartition(".")[2]]
    return gzip.compress(form(rows)) if name.endswith(".gz") else form(rows)


def valid_rows() -> Rows:
    """K continuations of each of PROMPTS."""
    return [
        {"prompt_id": prompt.id, "index": index, "text": continuation(number, index)}
        for number, prompt in enumerate(PROMPTS)
        for index in range(K)
    ]


def read(data: bytes, name: str = "outputs.jsonl", limits: Limits | None = None) -> pa.Table:
    return read_generations(io.BytesIO(data), name, PROMPTS, K, limits)


def read_scores(data: bytes, name: str = "outputs.jsonl", limits: Limits | None = None) -> pa.Table:
    return read_likelihoods(io.BytesIO(data), name, PROMPTS, limits)


def refusal(data: bytes, name: str = "outputs.jsonl", limits: Limits | None = None, reader: Any = read) -> Report:
    """The report on a file that must be refused."""
    try:
        table = reader(data, name, limits)
    except ContributionRefused as refused:
        return refused.report
    raise AssertionError(f"{table.num_rows} rows were taken in")


def found(report: Report) -> Sequence[tuple[Flaw, int | None, str | None]]:
    """Kind, line and field of each problem."""
    return [(problem.kind, problem.line, problem.field) for problem in report.problems]
