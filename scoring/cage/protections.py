"""What protects a host from what is in a cage, tried out from within."""

import errno
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring.cage import landlock
from scoring.cage.confinement import LINUX

# Names of variables that a cage is started with, where they are set: how libraries compute, and nothing else.
ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLUMBLINE_CAGE_OF"),
)
FIXED = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
AT_START = frozenset(os.environ)  # libraries add some of their own as they are imported
ADDED = ("HOME", "TMPDIR", "PYTHONPATH", "PWD", "LC_CTYPE")
CLOSED = {errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.ENETDOWN, errno.EADDRNOTAVAIL}


@dataclass(frozen=True, slots=True)
class Protection:
    """One of the things that keep a cage closed. `holds`: None where this host has no use for it."""

    name: str
    title: str
    holds: bool | None
    detail: str


TITLES = {
    "environment": "No credentials in its environment",
    "network": "No network",
    "sockets": "Reaches no server of this host",
    "reading": "Reads only the model and the libraries",
    "writing": "Writes only to its scratch folder",
    "processes": "Cannot reach other processes",
    "user": "A user of its own",
    "privileges": "Cannot gain rights",
    "limits": "Limits of processor time, files, file size, processes",
    "memory": "Limit of memory",
}


def probe(public_folder: Path, supervisor: int) -> list[Protection]:
    """Try what a stranger's code would: each protection with whether it held, and how that shows.

    public_folder: a folder that anyone may write to, as /tmp is. supervisor: the number of its process.
    """
    tests: dict[str, Callable[[], tuple[bool | None, str]]] = {
        "environment": _environment,
        "network": _network,
        "sockets": _sockets,
        "reading": lambda: _try_refused("reading /etc/passwd", Path("/etc/passwd").read_bytes),
        "writing": lambda: _try_refused("writing beside the scratch folder", lambda: _write(public_folder)),
        "processes": lambda: _processes(supervisor),
        "user": _user,
        "privileges": _privileges,
        "limits": _limits,
        "memory": _memory,
    }
    return [Protection(name, TITLES[name], *test()) for name, test in tests.items()]


def missing_protections(protections: Iterable[Protection]) -> list[Protection]:
    """Those that do not hold."""
    return [protection for protection in protections if protection.holds is False]


def as_json(protections: Iterable[Protection]) -> list[dict[str, Any]]:
    """As JSON has them."""
    return [
        {name: getattr(protection, name) for name in ("name", "title", "holds", "detail")} for protection in protections
    ]


def from_json(rows: list[dict[str, Any]]) -> list[Protection]:
    """From what a cage answered. Raises KeyError, TypeError."""
    return [
        Protection(
            str(row["name"])[:40],
            TITLES[row["name"]],
            None if row["holds"] is None else bool(row["holds"]),
            str(row["detail"])[:300],
        )
        for row in rows
    ]


def _environment() -> tuple[bool, str]:
    others = sorted(AT_START - {*ENVIRONMENT, *FIXED, *ADDED})
    return not others, f"it has {', '.join(others)[:200]}" if others else f"{len(AT_START)} variables, all on the list"


def _network() -> tuple[bool, str]:
    # An open network refuses a connection to a port that nobody listens to; a closed one does not get so far.
    open_to = []
    for kind, name in ((socket.SOCK_STREAM, "TCP"), (socket.SOCK_DGRAM, "UDP")):
        try:
            with socket.socket(socket.AF_INET, kind) as end:
                end.settimeout(1)
                end.connect(("127.0.0.1", 9))
                end.send(b"?")
        except OSError as error:
            if error.errno in CLOSED:
                continue
        open_to.append(name)
    return not open_to, f"{' and '.join(open_to)} to this machine" if open_to else "neither TCP nor UDP finds a way out"


def _sockets() -> tuple[bool, str]:
    return _try_refused("making a socket of this machine", lambda: socket.socket(socket.AF_UNIX).close())


def _try_refused(action: str, attempt: Callable[[], object]) -> tuple[bool, str]:
    try:
        attempt()
    except OSError as error:
        return True, f"{action}: {os.strerror(error.errno or 0)}"
    return False, f"{action} succeeds"


def _write(folder: Path) -> None:
    path = folder / f"probe-{os.getpid()}"
    path.write_bytes(b"")
    path.unlink()


def _processes(supervisor: int) -> tuple[bool, str]:
    return _try_refused("a signal to the worker", lambda: os.kill(supervisor, 0))


def _user() -> tuple[bool | None, str]:
    user = os.getuid()
    if os.environ.get("PLUMBLINE_CAGE_OF") == "root":
        return user != 0, f"user {user}, the worker is root"
    return None, f"user {user}, the worker's: only root can start a process as another"


def _privileges() -> tuple[bool | None, str]:
    if not LINUX:
        return None, "Linux only"
    fields = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    capabilities = int(fields.get("CapEff", "0"), 16)
    # The right to read what root may is harmless where Landlock says which files these are.
    harmless = capabilities == 0 or (capabilities == 1 << 2 and landlock.version() > 0)
    return fields.get("NoNewPrivs") == "1" and harmless, f"capabilities {capabilities:#x}, no new privileges"


def _limits() -> tuple[bool, str]:
    names = ["RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CORE", *(["RLIMIT_NPROC"] if LINUX else [])]
    values = {name: resource.getrlimit(getattr(resource, name))[1] for name in names}
    open_ended = [name for name, value in values.items() if value == resource.RLIM_INFINITY]
    return not open_ended, ", ".join(
        f"{name.removeprefix('RLIMIT_').lower()} {value}" for name, value in values.items()
    )


def _memory() -> tuple[bool, str]:
    if sys.platform != "linux":
        return False, "nothing limits it here"
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if most == resource.RLIM_INFINITY:
        return True, "the worker watches it"
    return True, f"address space {most / 1e9:.1f} GB, and the worker watches what is used"
