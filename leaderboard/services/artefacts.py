"""Artefacts on the storage: written whole under a temporary name, then renamed, then referred to."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
from django.core.files import File
from django.core.files.storage import FileSystemStorage, default_storage

from leaderboard.models import Artefact
from scoring import artefacts


def put(table: pa.Table, kind: str, name: str) -> None:
    """Write `table` to the storage as `name`: either all of it is there afterwards, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        artefacts.write(table, kind, path)
        move_in(path, name)


def get(name: str, kind: str) -> pa.Table:
    """Read what `put` wrote. Raises FileNotFoundError, or ArtefactError where the file is not of `kind`."""
    with default_storage.open(name, "rb") as file:
        return artefacts.read(cast(BinaryIO, file), kind)


def store(table: pa.Table, kind: str) -> Artefact:
    """Keep `table` for ever, named by the hash of its bytes; storing the same bytes again changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        artefacts.write(table, kind, path)
        described = Artefact(
            sha256=artefacts.sha256(path),
            kind=kind,
            rows=table.num_rows,
            size=path.stat().st_size,
            schema_version=artefacts.SCHEMA_VERSION,
        )
        if not default_storage.exists(described.storage_name):
            move_in(path, described.storage_name)
    values = {field: getattr(described, field) for field in ("kind", "rows", "size", "schema_version")}
    return Artefact.objects.get_or_create(sha256=described.sha256, defaults=values)[0]


def is_stored(artefact: Artefact) -> bool:
    """Whether the file is there: a board may know an artefact by its hash only."""
    return bool(default_storage.exists(artefact.storage_name))


def load(artefact: Artefact | None) -> pa.Table:
    """Read a stored artefact. Raises FileNotFoundError where nothing is stored yet."""
    if artefact is None:
        raise FileNotFoundError("nothing is stored yet: there is no artefact to read")
    return get(artefact.storage_name, artefact.kind)


def move_in(path: Path, name: str) -> None:
    """Put a file on the storage as `name`: all of it, or nothing."""
    if not isinstance(
        default_storage._wrapped if hasattr(default_storage, "_wrapped") else default_storage, FileSystemStorage
    ):
        with path.open("rb") as file:  # object stores write whole objects or none
            default_storage.save(name, File(file))
        return
    target = Path(default_storage.path(name))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The copy happens beside the target, so that the rename stays on one file system.
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as copy:
        copy.write(path.read_bytes())
        copy.flush()
        os.fsync(copy.fileno())
    os.chmod(copy.name, 0o644)
    os.replace(copy.name, target)
