"""PLUMBLINE_VAR is for one user: folders 0700, files 0600. It holds sessions, addresses, keys and submissions."""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from scoring.refusals import Refused

FOLDER_MODE, FILE_MODE, UMASK = 0o700, 0o600, 0o077
OTHERS = 0o077  # the bits of group and others
LOCK_NAME = "up.lock"


def prepare_folder(folder: Path) -> None:
    """Make `folder`, or close one of ours and what lies in it; what this process writes is for its user alone."""
    os.umask(UMASK)
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for path in (folder, *folder.iterdir()):
        with suppress(PermissionError, FileNotFoundError):  # somebody else's, of which a check tells; or gone by now
            restrict(path)


def restrict(path: Path) -> bool:
    """Remove the rights of group and others from a file or folder; returns whether they had any. Skips links."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode) or not mode & OTHERS:
        return False
    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    return True


def restrict_all(folder: Path) -> int:
    """Restrict `folder` and everything in it; returns the number of changes. Skips what disappears meanwhile."""
    count = int(restrict(folder))
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                count += restrict(Path(parent) / name)
    return count


def open_to_others(folder: Path) -> Iterator[Path]:
    """What of `folder`, itself and its direct contents, group or others have rights to."""
    for path in (folder, *folder.iterdir()):
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if mode & OTHERS and not stat.S_ISLNK(mode):
                yield path


@contextmanager
def hold_folder(folder: Path, broker_socket: Path) -> Iterator[TextIO]:
    """Hold the folder for one board; yields the locked file, which a child that outlives this process can hold too.

    Raises Refused where another board has it: its broker's socket would be deleted by a second broker.
    """
    with (folder / LOCK_NAME).open("a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise Refused(_in_use(folder, f"process {lock.read().strip() or 'unknown'}")) from error
        if answers(broker_socket):
            raise Refused(_in_use(folder, f"a broker that answers at {broker_socket}"))
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield lock


def _in_use(folder: Path, holder: str) -> str:
    return (
        f"PLUMBLINE_VAR = {folder}: another board runs there ({holder}). "
        "Stop that one first (Ctrl-C, or SIGTERM to its process), or set PLUMBLINE_VAR to another folder."
    )


def answers(address: Path) -> bool:
    """Whether somebody listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(address))
        except OSError:  # nobody, or no such socket
            return False
    return True
