"""Verify a set: restore it into a scratch database and a scratch storage, and recompute there what is published."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from django.conf import settings
from django.db import DatabaseError, connection

from leaderboard.operations.backups import records
from leaderboard.operations.backups.places import BackupPlace
from leaderboard.operations.backups.sets import choose_set
from scoring.refusals import Refused


@dataclass(frozen=True)
class TrialRestore:
    """What came of a trial. differences: sentences; empty where the set is whole and its numbers follow."""

    name: str
    counts: dict[str, int]
    differences: tuple[str, ...]


def verify_set(place: BackupPlace, target: str, name: str, identity: Path | None) -> TrialRestore:
    """Restore a set on trial and run `verify` there. Raises Refused where it cannot be restored."""
    envelope = choose_set(place, name)
    with tempfile.TemporaryDirectory(dir=settings.VAR, prefix="trial-") as folder, scratch_database(folder) as url:
        storages = {"PLUMBLINE_VAR": folder, "STORAGE_URL": "", "STORAGE_ALSO_URL": ""}
        environment = os.environ | {"DATABASE_URL": url} | storages
        key = ["--identity", str(identity.resolve())] if identity else []
        process = _manage(environment, "restore", target, envelope.name, *key)
        if process.returncode:
            raise Refused(f"set {envelope.name} cannot be restored: {_last_line(process.stderr)}")
        answer = _manage(environment, "verify", "--json")
        try:
            content: dict[str, Any] = json.loads(answer.stdout)
        except ValueError as error:
            raise Refused(
                f"set {envelope.name} is restored, and cannot be verified: {_last_line(answer.stderr)}"
            ) from error
    losses = [f"{count} files were lost before the backup was made" for count in [envelope.lost] if count]
    trial = TrialRestore(
        envelope.name,
        {key: value for key, value in content.items() if isinstance(value, int)},
        (*content["differences"], *losses),
    )
    if not trial.differences and records.is_recording():
        records.note_verified(envelope.name)
    return trial


def _manage(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("CommandError: ") if lines else "no reason was given"


@contextmanager
def scratch_database(folder: str) -> Iterator[str]:
    """The address of an empty database of the board's kind, which is deleted again. Raises Refused."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{folder}/plumbline.sqlite3"
        return
    name = f"plumbline_trial_{uuid4().hex[:12]}"
    session = connection.copy()
    try:
        with session.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        try:
            yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
        finally:
            with session.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    except DatabaseError as error:
        raise Refused(
            f"no scratch database can be made on the server ({str(error).strip()}): give the role the right, as in "
            "`ALTER ROLE plumbline CREATEDB`"
        ) from error
    finally:
        session.close()
