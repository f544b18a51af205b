"""How a process shuts itself in: limits, namespaces, its own user, Landlock, no sockets; each where the host has it.

Namespaces and Landlock are called through the C library: bubblewrap would have to be installed, and asks for the same
namespaces. The calls that make sockets are all that is filtered: libseccomp has no maintained binding among Python's
packages, and a long filter written by hand is the kind of code that nobody should trust. `protections.py` says what is
missing on a host.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from scoring.cage import landlock, sockets
from scoring.cage.limits import CageLimits

LINUX = sys.platform == "linux"
NOBODY = 65534
# Of unshare(2): interprocess communication, host name, users, processes, network.
NEW_IPC, NEW_UTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x08000000, 0x04000000, 0x10000000, 0x20000000, 0x40000000
KEEP_CAPABILITIES, DEATH_SIGNAL = 8, 1  # of prctl(2)
CAPABILITIES_VERSION = 0x20080522
READ_ANYTHING = 1 << 2  # CAP_DAC_READ_SEARCH
PACKAGE = Path(__file__).resolve().parent.parent
# What libraries read of a machine, beside themselves. Not /etc, /proc and /sys as wholes: they name people, passwords
# and other processes.
OF_THE_MACHINE = (
    *("/usr", "/lib", "/lib64", "/lib32", "/bin", "/opt", "/nix/store", "/etc/ld.so.cache", "/etc/alternatives"),
    *("/etc/localtime", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version"),
    *("/proc/sys/vm", "/proc/sys/kernel", "/proc/driver/nvidia", "/proc/devices"),
    *("/sys/devices/system", "/sys/bus/pci", "/sys/devices/pci0000:00", "/sys/fs/cgroup"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
GRAPHICS = Path("/dev")  # the folder of the devices of graphics cards, which are called nvidia and a number or a part

_c = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("process", ctypes.c_int)]


class _Capabilities(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def enter_namespaces() -> bool:
    """Cut what this process starts off from network, processes and shared memory of others; False where none may be.

    To be called by a process with a single thread. The process itself stays among the others of the machine.
    """
    if not LINUX:
        return False
    namespaces = NEW_NETWORK | NEW_PROCESSES | NEW_IPC | NEW_UTS
    user, group = os.getuid(), os.getgid()
    if user == 0:
        return bool(_c.unshare(namespaces) == 0)
    if _c.unshare(NEW_USER | namespaces) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def confine(limits: CageLimits, scratch: Path, readable: list[Path], processors: int, cuda: bool) -> None:
    """Give up what the work does not need; for good. Order matters: each step takes the right to the ones before.

    Whether that worked is for `probe` to say: what this host lacks is passed over.
    """
    with contextlib.suppress(OSError):
        os.setsid()
    os.umask(0o077)
    os.chdir(scratch)
    os.environ.update(HOME=str(scratch), TMPDIR=str(scratch))
    has_landlock = landlock.version() > 0
    threads = threads_of(NOBODY if os.getuid() == 0 else os.getuid()) if LINUX else 0
    if os.getuid() == 0:
        _become_nobody(may_read=has_landlock)
    elif LINUX:
        _keep_capabilities(0)
    if LINUX:
        _c.prctl(landlock.NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        die_with_parent()  # to become another user undoes it, hence not before
    if has_landlock:
        try:
            landlock.restrict([*readable, *_of_python(), *map(Path, OF_THE_MACHINE)], [scratch, *devices_for(cuda)])
        except OSError:
            _keep_capabilities(0)  # what root may read is harmless only where Landlock says which files these are
    if LINUX:
        sockets.refuse_sockets()
    _set_limits(limits, processors, threads)


def devices_for(cuda: bool) -> list[Path]:
    """The devices that work may use; `cuda`: those of graphics cards too."""
    return [*map(Path, DEVICES), *(sorted(GRAPHICS.glob("nvidia*")) if cuda else [])]


def die_with_parent() -> None:
    """Be killed when the process that started this one ends. Linux only; elsewhere a closed pipe ends the work."""
    if LINUX:
        _c.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _of_python() -> Iterator[Path]:
    """Where Python and its packages lie: not the folder of the code, which may hold a board's secrets beside it."""
    yield PACKAGE
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix):
        yield Path(prefix)
    yield from (Path(path) for path in sysconfig.get_paths().values())
    yield from (Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages")))


def _become_nobody(may_read: bool) -> None:
    """Leave root. `may_read`: keep the right to read what only root may, where Landlock says which that is."""
    if LINUX:
        _c.prctl(KEEP_CAPABILITIES, int(may_read), 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if LINUX:
        _keep_capabilities(READ_ANYTHING if may_read else 0)


def _keep_capabilities(capabilities: int) -> None:
    header = _Header(CAPABILITIES_VERSION, 0)
    sets = (_Capabilities * 2)(_Capabilities(capabilities, capabilities, 0), _Capabilities(0, 0, 0))
    _c.capset(ctypes.byref(header), ctypes.byref(sets))


def _set_limits(limits: CageLimits, processors: int, threads: int) -> None:
    limits_by_name: dict[str, int | None] = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": int(limits.lives * limits.seconds * processors) + 1,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NPROC": threads + 64 + 8 * processors if LINUX else None,
    }
    if limits.address_space is not None and LINUX:
        limits_by_name["RLIMIT_AS"] = mapped_bytes() + limits.address_space
    for name, most in limits_by_name.items():
        kind = getattr(resource, name, None)
        if kind is None or most is None:
            continue
        _, hard = resource.getrlimit(kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))


def threads_of(user: int) -> int:
    """How many threads a user has now: to the kernel each is a process. 0 where nobody says."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if folder.stat().st_uid == user:
                count += len(os.listdir(folder / "task"))
    return count


def mapped_bytes() -> int:
    """Bytes of the address space in use. Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
