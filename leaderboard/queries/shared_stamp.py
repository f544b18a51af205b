"""The board's state as all web processes of a host see it: one of them looks, and the others read what it saw.

A look is a query; a page that is ready costs less than one. So a look serves every request of the next
BOARD_LOOK_SECONDS, and all processes change to a new state at the same moment: no reader goes back to an older one.
"""

import fcntl
import hashlib
import logging
import mmap
import os
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from django.conf import settings

from leaderboard.queries.stamp import Stamp, board_stamp

log = logging.getLogger(__name__)

RECORD = struct.Struct("<d16s16s")  # when the look began on this host's clock since its start, and what it saw
CHECKED = struct.Struct("<I")
SIZE = RECORD.size + CHECKED.size


class StampFile:
    """A record in memory that the processes of a host share; a checksum tells a whole one from one half written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(self._descriptor).st_size < SIZE:
            os.posix_fallocate(self._descriptor, 0, SIZE)  # or a full disk would be met by writing to memory
        self._memory = mmap.mmap(self._descriptor, SIZE)
        self._looking = threading.Lock()
        self._sent_at = float("-inf")  # when this process last had a request look

    def read(self) -> tuple[float, Stamp]:
        """How many seconds ago the last look began, and what it saw; infinity where there was none since the start."""
        data = self._memory[:]
        record, (checksum,) = data[: RECORD.size], CHECKED.unpack(data[RECORD.size :])
        if checksum != zlib.crc32(record):
            return float("inf"), Stamp("", "")
        began, *digests = RECORD.unpack(record)
        age = time.monotonic() - began
        return (age if age >= 0 else float("inf")), Stamp(*(digest.decode() for digest in digests))

    def write(self, began: float, stamp: Stamp) -> None:
        """Tell all processes what a look saw."""
        record = RECORD.pack(began, stamp.kept.encode(), stamp.moving.encode())
        self._memory[:] = record + CHECKED.pack(zlib.crc32(record))

    def sends_looker(self, wait: float) -> bool:
        """Whether a request of this process is to look now: one at a time, and another one if that takes too long."""
        now = time.monotonic()
        if now - self._sent_at < wait:
            return False
        self._sent_at = now
        return True

    @contextmanager
    def hold(self, wait: bool) -> Iterator[bool]:
        """Whether this thread is the one of this host that looks; without `wait` it is not where another one does."""
        if not self._looking.acquire(blocking=wait):
            yield False
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            self._looking.release()
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._looking.release()


@cache
def stamp_file(_process: int) -> StampFile | None:
    """The file of this host, opened by each process itself: a lock belongs to who opened the file. None: it cannot."""
    try:
        return StampFile(settings.VAR / f"state-{settings.HOST}")
    except OSError as error:
        log.warning("each request looks at the board's state, as it cannot be shared: %s", error)
        return None


def latest_stamp() -> Stamp:
    """The board's state as of BOARD_LOOK_SECONDS ago at most, as digests; looked at now where nobody did lately.

    One thread of a host looks, and from half of that time on, while the others go on with what they have.
    """
    patience = settings.BOARD_LOOK_SECONDS
    file = stamp_file(os.getpid()) if patience else None
    if file is None:
        return digest_stamp(board_stamp())
    age, stamp = file.read()
    if age < patience / 2:
        return stamp
    with file.hold(wait=age >= patience) as is_looker:
        age, stamp = file.read()  # what another one has seen meanwhile
        if not is_looker or age < patience / 2:
            return stamp
        began = time.monotonic()
        stamp = digest_stamp(board_stamp())
        file.write(began, stamp)
    return stamp


def glance_at_stamp() -> Stamp | None:
    """The same without any query; None to the request that is to look, and to all where nobody did for too long.

    One request is sent to look, as one that goes through Django takes ten times as long as one that is ready.
    """
    patience = settings.BOARD_LOOK_SECONDS
    file = stamp_file(os.getpid()) if patience else None
    if file is None:
        return None
    age, stamp = file.read()
    if age >= patience or (age >= patience / 2 and file.sends_looker(patience / 8)):
        return None
    return stamp


def digest_stamp(stamp: Stamp) -> Stamp:
    """The same state in texts of one length."""
    return Stamp(*(hashlib.sha256(text.encode()).hexdigest()[:16] for text in stamp))
