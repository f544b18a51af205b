"""Landlock: a process gives up all files but those it names, TCP, and signals to others; for good, as anybody.

Called by number: the C library has no wrappers. The structures are those of linux/landlock.h; see landlock(7).
"""

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
VERSION = 1  # flag of CREATE_RULESET: answer the version of the interface
PATH_BENEATH = 1
READ_FILE, READ_DIR = 1 << 2, 1 << 3
WRITE_FILE, TRUNCATE, IOCTL_DEVICE = 1 << 1, 1 << 14, 1 << 15
OF_FILES = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE | 1  # what a rule for a file, not a folder, may name
ALL_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # from 5: with IOCTL_DEVICE too
TCP_SINCE, ALL_TCP = 4, 0b11
SCOPES_SINCE, ALL_SCOPES = 6, 0b11  # abstract sockets and signals
NO_NEW_PRIVILEGES = 38  # of prctl(2)

_c = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Which version of Landlock the kernel has; 0 where it has none, or it is switched off."""
    try:
        return max(0, int(_c.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))))
    except (AttributeError, ValueError):  # not Linux
        return 0


def restrict(readable: Iterable[Path], writable: Iterable[Path]) -> None:
    """Leave this thread, and what it starts, nothing but reading of `readable` and all of `writable`.

    Paths that do not exist are passed over. Raises OSError where the kernel refuses.
    """
    interface = version()
    everything = ALL_FILES.get(interface, (1 << 16) - 1)
    ruleset = _Ruleset(
        everything, ALL_TCP if interface >= TCP_SINCE else 0, ALL_SCOPES if interface >= SCOPES_SINCE else 0
    )
    handle = _check_call(_c.syscall(CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), 0))
    try:
        for paths, rights in ((readable, READ_FILE | READ_DIR), (writable, everything & ~1)):
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError):
                    _allow(handle, path, rights)
        _check_call(_c.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check_call(_c.syscall(RESTRICT_SELF, handle, 0))
    finally:
        os.close(handle)


def _allow(handle: int, path: Path, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights if path.is_dir() else rights & OF_FILES, parent)
        _check_call(_c.syscall(ADD_RULE, handle, PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _check_call(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
