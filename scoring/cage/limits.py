"""What a cage is allowed, and the ways in which it ends before its work does."""

from dataclasses import dataclass

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, slots=True)
class CageLimits:
    """What the work in a cage may use.

    seconds: of wall time, start included, and on all processors together `processors` times as much; `lives` times that
    where the same cage is to do several works, one after the other.
    idle_seconds: between two signs of progress. memory: bytes of its own; `address_space` is what it may map beyond
    what the libraries take, files included: None where the device maps more than there is, as CUDA does.
    answer_bytes: of everything it may answer to one request. open_files, file_bytes (of each it writes), threads:
    as their names say.
    """

    seconds: float = 3600.0
    idle_seconds: float = 900.0
    memory: int = 4 * GIB
    address_space: int | None = 8 * GIB
    answer_bytes: int = 256 * MIB
    open_files: int = 256
    file_bytes: int = 64 * MIB
    lives: int = 1


LOOK_UP = CageLimits(seconds=10.0, idle_seconds=10.0, memory=GIB, address_space=GIB, answer_bytes=MIB)


class CageError(RuntimeError):
    """The work in a cage came to nothing. `stage` is what it was at."""

    def __init__(self, message: str, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class CageDied(CageError):
    """The process ended by itself, as when a library aborts. `signal`: its number; 0 where it left."""

    def __init__(self, message: str, stage: str = "", signal: int = 0) -> None:
        super().__init__(message, stage)
        self.signal = signal


class CageOutOfMemory(CageError):
    """The process took more memory than it may."""


class CageTimeout(CageError):
    """The process took longer than it may, or showed no progress for too long."""


class CageBroken(CageError):
    """What the process answered is no answer: it was ended."""


class CageUnavailable(CageError):
    """No cage can be had here, or none that is closed as it must be: a fault of this host, and of no model."""
