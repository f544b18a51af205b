"""Parquet artefacts: their schemas, reading and writing. An artefact is immutable and named by its sha256."""

import hashlib
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 1
_VERSION_KEY = b"plumbline.schema_version"
_KIND_KEY = b"plumbline.kind"

SCHEMAS = {
    "labelled_sentences": pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("harmful", pa.bool_()),
            ("toxicity", pa.float64()),
            ("demographics", pa.list_(pa.string())),
        ]
    ),
    "likelihoods": pa.schema(
        [
            ("id", pa.string()),
            ("token_log_likelihoods", pa.list_(pa.float32())),  # natural logarithms, scored tokens only
            ("unscorable", pa.string()),  # why there are none; null where there are
            ("windows", pa.int32()),
        ]
    ),
    "log_perplexities": pa.schema(
        [
            ("id", pa.string()),
            ("log_perplexity", pa.float64()),  # minus the mean token log-likelihood; null where unscorable
        ]
    ),
}


class ArtefactError(ValueError):
    """A file is not an artefact that this version reads."""


def write(table: pa.Table, kind: str, path: Path) -> None:
    """Write `table` as an artefact of `kind`: zstd Parquet whose bytes depend on the values alone.

    Raises pyarrow.ArrowInvalid when the columns are not those of the kind's schema.
    """
    schema = SCHEMAS[kind].with_metadata({_KIND_KEY: kind.encode(), _VERSION_KEY: str(SCHEMA_VERSION).encode()})
    pq.write_table(table.select(schema.names).cast(schema), path, compression="zstd")


def read(source: Path | BinaryIO, kind: str) -> pa.Table:
    """Return the artefact in a file. Raises ArtefactError when it is of another kind, or newer than this code."""
    try:
        table = pq.read_table(source)
    except pa.ArrowInvalid as error:
        raise ArtefactError(f"this is not a Parquet file: {error}") from error
    metadata = table.schema.metadata or {}
    found = metadata.get(_KIND_KEY, b"").decode() or "nothing known"
    if found != kind:
        raise ArtefactError(f"the artefact holds {found}, not {kind}")
    version = int(metadata[_VERSION_KEY])
    if version > SCHEMA_VERSION:
        raise ArtefactError(
            f"the artefact has schema version {version}, this is {SCHEMA_VERSION}: upgrade Plumbline to read it"
        )
    return table


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
