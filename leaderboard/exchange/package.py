"""Read a package from a folder or a zip file, and verify it by its description, hashes and schemas."""

import hashlib
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from leaderboard.exchange.export import DESCRIPTION, FORMAT, ROWS
from leaderboard.exchange.schemas import arrow_schema
from leaderboard.exchange.tables import TABLES, PackageTable
from scoring.refusals import Refused

MOST_DESCRIPTION = 64 * 2**20  # bytes of datapackage.json
MOST_BYTES = 2**34  # of a file in the package
LONGEST_SHOWN = 80  # of a value in a message
MOST_ROWS = 50_000_000  # of a table
MOST_SHOWN = 80  # characters of a type that a message repeats
ARTEFACT = re.compile(r"artefacts/([0-9a-f]{64})\.parquet")
AGAIN = "the package is damaged or was edited; download or export it again"
FOREIGN = "this is no package of a Plumbline board: make one with `manage.py export`"


@dataclass(frozen=True)
class BoardPackage:
    """An opened package. Its files have the bytes and the columns that its description states."""

    folder: Path
    description: dict[str, Any]
    sha256: str

    @property
    def format(self) -> int:
        """The number of its format."""
        return format_of(self.description)

    def batches(self, table: PackageTable) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the rows of a table in parts, each with the number of its first row, from 1."""
        if table.since > self.format:
            return
        first = 1
        with pq.ParquetFile(self.folder / table.path) as file:
            columns = [name for name in table.columns if name in file.schema_arrow.names]
            stand_ins = {name: table.stand_in(name) for name in table.columns if name not in columns}
            for batch in file.iter_batches(ROWS, columns=columns):
                yield first, [row | stand_ins for row in batch.to_pylist()]
                first += batch.num_rows

    def artefacts(self) -> Iterator[tuple[str, Path]]:
        """Yield the hashes and paths of its artefacts."""
        for resource in self.description["resources"]:
            match = ARTEFACT.fullmatch(resource["path"])
            if match:
                yield match[1], self.folder / resource["path"]


@contextmanager
def open_package(path: Path) -> Iterator[BoardPackage]:
    """Open a folder or a zip file. Raises Refused if it is not a complete package of a known format."""
    if path.is_dir():
        yield read_package(path)
        return
    if not path.is_file():
        raise Refused(f"{path} is not there: give a folder or a zip file that `manage.py export` wrote")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                unpack(archive, Path(folder))
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"{path.name} is not a whole zip file ({type(error).__name__}): {AGAIN}") from error
        yield read_package(Path(folder))


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the description, and the files that it names up to their stated size. Ignores everything else."""
    infos_by_name = {info.filename: info for info in archive.infolist()}
    if DESCRIPTION not in infos_by_name:
        raise Refused(f"{DESCRIPTION} is missing: {FOREIGN}")
    with archive.open(infos_by_name[DESCRIPTION]) as file:
        copy_part(file, folder / DESCRIPTION, MOST_DESCRIPTION)
    for resource in list_resources(read_description(folder)[0]):
        if resource["path"] in infos_by_name:
            with archive.open(infos_by_name[resource["path"]]) as file:
                copy_part(file, folder / resource["path"], resource["bytes"])


def copy_part(file: IO[bytes], target: Path, most: int) -> None:
    """Copy at most `most` bytes, and one more if there are more."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        bytes_left = most + 1
        while bytes_left and (chunk := file.read(min(bytes_left, 2**20))):
            out.write(chunk)
            bytes_left -= len(chunk)


def read_package(folder: Path) -> BoardPackage:
    """Read the package in a folder, and verify its files. Raises Refused."""
    description, sha256 = read_description(folder)
    for resource in list_resources(description):
        verify_file(folder, resource)
    for table in TABLES:
        if table.since <= format_of(description):
            verify_columns(folder, table)
    return BoardPackage(folder, description, sha256)


def read_description(folder: Path) -> tuple[dict[str, Any], str]:
    """Read datapackage.json; returns it and its hash. Raises Refused if it is foreign, or newer than this code."""
    path = folder / DESCRIPTION
    if not path.is_file() or path.stat().st_size > MOST_DESCRIPTION:
        raise Refused(f"{DESCRIPTION} is missing, or larger than any of ours: {FOREIGN}")
    content = path.read_bytes()
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{DESCRIPTION} is not JSON ({type(error).__name__}): {AGAIN}") from error
    board_entry = description.get("plumbline_board") if isinstance(description, dict) else None
    number = board_entry.get("format") if isinstance(board_entry, dict) else None
    if type(number) is not int or number < 1:
        raise Refused(f"{DESCRIPTION}, plumbline_board.format: there is none; {FOREIGN}")
    if number > FORMAT:
        raise Refused(
            f"{DESCRIPTION}, plumbline_board.format = {show(number)}: this Plumbline reads {FORMAT}; upgrade it, then "
            "import"
        )
    return description, hashlib.sha256(content).hexdigest()


def show(value: object) -> str:
    """A value of a description, escaped and shortened."""
    return ascii(value)[:LONGEST_SHOWN] if isinstance(value, int | float | str | None) else f"a {type(value).__name__}"


def format_of(description: dict[str, Any]) -> int:
    """The number of the format that a description states."""
    return int(description["plumbline_board"]["format"])


def list_resources(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the resources of the package. Raises Refused if one is missing, foreign or incomplete."""
    names_by_path = {table.path: table.name for table in TABLES if table.since <= format_of(description)}
    entries = description.get("resources")
    for number, resource in enumerate(entries if isinstance(entries, list) else [], start=1):
        path = resource.get("path") if isinstance(resource, dict) else None
        if not isinstance(path, str) or not (path in names_by_path or ARTEFACT.fullmatch(path)):
            raise Refused(
                f"{DESCRIPTION}, resource {number}, path = {show(path)}: not a file of such packages; {AGAIN}"
            )
        size = resource.get("bytes")
        if type(size) is not int or not 0 < size <= MOST_BYTES:
            raise Refused(f"{DESCRIPTION}, resource {path}, bytes = {show(size)}: not a size from 1 to {MOST_BYTES:,}")
        names_by_path.pop(path, None)
        yield resource
    if names_by_path:
        raise Refused(f"{DESCRIPTION}, resources: {', '.join(names_by_path)} is not listed; {AGAIN}")


def verify_file(folder: Path, resource: dict[str, Any]) -> None:
    """Compare a file with its description. Raises Refused."""
    path = folder / resource["path"]
    if not path.is_file():
        raise Refused(f"{resource['path']}: is missing; {AGAIN}")
    if path.stat().st_size != resource["bytes"]:
        raise Refused(f"{resource['path']}: is not of the {resource['bytes']:,} bytes it should be; {AGAIN}")
    with path.open("rb") as file:
        sha256 = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    match = ARTEFACT.fullmatch(resource["path"])
    if sha256 != resource.get("hash") or (match and sha256 != f"sha256:{match[1]}"):
        raise Refused(f"{resource['path']}: has the hash {sha256}, not the one it should have; {AGAIN}")


def verify_columns(folder: Path, table: PackageTable) -> None:
    """Raise Refused if a table is no Parquet file, lacks a column, or has one of another type.

    Columns that were added to packages later may be lacking.
    """
    try:
        with pq.ParquetFile(folder / table.path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of a name that is not UTF-8
        raise Refused(f"{table.path}: is no Parquet file; {AGAIN}") from error
    if rows > MOST_ROWS:
        raise Refused(f"{table.path}: has {rows:,} rows, more than {MOST_ROWS:,}")
    for field in arrow_schema(table):
        if field.name not in schema.names:
            if table.may_lack(field.name):
                continue
            raise Refused(f"{table.path}, field {field.name}: is missing; {AGAIN}")
        if schema.field(field.name).type != field.type:
            other = ascii(str(schema.field(field.name).type)[:MOST_SHOWN])[1:-1]  # it may hold any words
            raise Refused(f"{table.path}, field {field.name}: is of type {other}, not {field.type}; {AGAIN}")
