"""Reading a package: a folder or a zip file is trusted as far as its description, hashes and schemas go."""

import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from leaderboard.services.exchange.export import DESCRIPTION, FORMAT, ROWS
from leaderboard.services.exchange.schemas import arrow_schema
from leaderboard.services.exchange.tables import TABLES, Table

MOST_DESCRIPTION = 64 * 2**20  # bytes of datapackage.json
MOST_BYTES = 2**34  # of a file in the package
MOST_ROWS = 50_000_000  # of a table
ARTEFACT = re.compile(r"artefacts/([0-9a-f]{64})\.parquet")
AGAIN = "the package is damaged or was edited; download or export it again"
FOREIGN = "this is no package of a Plumbline board: make one with `manage.py export`"


class PackageRefused(ValueError):
    """Nothing was imported. The message names the file, the row and the field that are wrong, and what to do."""


@dataclass(frozen=True)
class Package:
    """An opened package whose files are there, and have the bytes and the columns that its description promises."""

    folder: Path
    description: dict[str, Any]
    sha256: str

    def batches(self, table: Table) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """The rows of a table in parts, each with the number of its first row, from 1."""
        first = 1
        with pq.ParquetFile(self.folder / table.path) as file:
            columns = [name for name in table.columns if name in file.schema_arrow.names]
            lacking = {name: table.stand_in(name) for name in table.columns if name not in columns}
            for batch in file.iter_batches(ROWS, columns=columns):
                yield first, [row | lacking for row in batch.to_pylist()]
                first += batch.num_rows

    def artefacts(self) -> Iterator[tuple[str, Path]]:
        """The artefacts that it brings: their hashes, and where they lie."""
        for resource in self.description["resources"]:
            named = ARTEFACT.fullmatch(resource["path"])
            if named:
                yield named[1], self.folder / resource["path"]


@contextmanager
def opened(path: Path) -> Iterator[Package]:
    """Open a folder or a zip file. Raises PackageRefused where it is not a whole package of a format known here."""
    if path.is_dir():
        yield read(path)
        return
    if not path.is_file():
        raise PackageRefused(f"{path} is not there: give a folder or a zip file that `manage.py export` wrote")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                unpack(archive, Path(folder))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise PackageRefused(f"{path.name} is not a whole zip file ({error}): {AGAIN}") from error
        yield read(Path(folder))


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the description, and the files that it names, of the size that it says: nothing else is looked at."""
    known = {info.filename: info for info in archive.infolist()}
    if DESCRIPTION not in known:
        raise PackageRefused(f"{DESCRIPTION} is missing: {FOREIGN}")
    with archive.open(known[DESCRIPTION]) as file:
        copy(file, folder / DESCRIPTION, MOST_DESCRIPTION)
    for resource in resources(described(folder)[0]):
        if resource["path"] in known:
            with archive.open(known[resource["path"]]) as file:
                copy(file, folder / resource["path"], resource["bytes"])


def copy(file: IO[bytes], target: Path, most: int) -> None:
    """Write at most `most` bytes, and one more where there are more."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        left = most + 1
        while left and (chunk := file.read(min(left, 2**20))):
            out.write(chunk)
            left -= len(chunk)


def read(folder: Path) -> Package:
    """The package in a folder, its files verified. Raises PackageRefused."""
    description, sha256 = described(folder)
    for resource in resources(description):
        verify_file(folder, resource)
    for table in TABLES:
        verify_columns(folder, table)
    return Package(folder, description, sha256)


def described(folder: Path) -> tuple[dict[str, Any], str]:
    """What datapackage.json says, and its hash. Raises PackageRefused where it is foreign, or newer than this code."""
    path = folder / DESCRIPTION
    if not path.is_file() or path.stat().st_size > MOST_DESCRIPTION:
        raise PackageRefused(f"{DESCRIPTION} is missing, or larger than any of ours: {FOREIGN}")
    content = path.read_bytes()
    try:
        found = json.loads(content)
    except ValueError as error:
        raise PackageRefused(f"{DESCRIPTION} is not JSON ({type(error).__name__}): {AGAIN}") from error
    about = found.get("plumbline_board") if isinstance(found, dict) else None
    number = about.get("format") if isinstance(about, dict) else None
    if not isinstance(number, int) or number < 1:
        raise PackageRefused(f"{DESCRIPTION}, plumbline_board.format: there is none; {FOREIGN}")
    if number > FORMAT:
        raise PackageRefused(
            f"{DESCRIPTION}, plumbline_board.format = {number}: this Plumbline reads {FORMAT}; upgrade it, then import"
        )
    return found, hashlib.sha256(content).hexdigest()


def resources(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The files of the package. Raises PackageRefused where one is missing, not ours, or not told whole."""
    wanted = {table.path: table.name for table in TABLES}
    listed = description.get("resources")
    for number, resource in enumerate(listed if isinstance(listed, list) else [], start=1):
        path = resource.get("path") if isinstance(resource, dict) else None
        if not isinstance(path, str) or not (path in wanted or ARTEFACT.fullmatch(path)):
            raise PackageRefused(
                f"{DESCRIPTION}, resource {number}, path = {path!r}: not a file of such packages; {AGAIN}"
            )
        size = resource.get("bytes")
        if not isinstance(size, int) or not 0 < size <= MOST_BYTES:
            raise PackageRefused(
                f"{DESCRIPTION}, resource {path}, bytes = {size!r}: not a size from 1 to {MOST_BYTES:,}"
            )
        wanted.pop(path, None)
        yield resource
    if wanted:
        raise PackageRefused(f"{DESCRIPTION}, resources: {', '.join(wanted)} is not listed; {AGAIN}")


def verify_file(folder: Path, resource: dict[str, Any]) -> None:
    """Hold a file against what the description says of it. Raises PackageRefused."""
    path = folder / resource["path"]
    if not path.is_file():
        raise PackageRefused(f"{resource['path']}: is missing; {AGAIN}")
    if path.stat().st_size != resource["bytes"]:
        raise PackageRefused(f"{resource['path']}: is not of the {resource['bytes']:,} bytes it should be; {AGAIN}")
    with path.open("rb") as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    named = ARTEFACT.fullmatch(resource["path"])
    if found != resource.get("hash") or (named and found != f"sha256:{named[1]}"):
        raise PackageRefused(f"{resource['path']}: has the hash {found}, not the one it should have; {AGAIN}")


def verify_columns(folder: Path, table: Table) -> None:
    """Raise PackageRefused where a table is no Parquet file, or lacks a column, or has one of another type.

    Columns that were added to packages later may be lacking.
    """
    try:
        with pq.ParquetFile(folder / table.path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise PackageRefused(f"{table.path}: is no Parquet file; {AGAIN}") from error
    if rows > MOST_ROWS:
        raise PackageRefused(f"{table.path}: has {rows:,} rows, more than {MOST_ROWS:,}")
    for field in arrow_schema(table):
        if field.name not in found.names:
            if table.may_lack(field.name):
                continue
            raise PackageRefused(f"{table.path}, field {field.name}: is missing; {AGAIN}")
        if found.field(field.name).type != field.type:
            other = found.field(field.name).type
            raise PackageRefused(f"{table.path}, field {field.name}: is of type {other}, not {field.type}; {AGAIN}")
