"""How each kind of fault is made, and ended. Each is a context: the fault is there for the block."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg2

from tests.faults.campaign.board import WORKERS, Board, PostgreSQL, mount, wait_for
from tests.faults.campaign.phases import Command, Phase

MOUNT_SECONDS = 20.0  # until nobody writes, so that a file system can be made read-only


@contextmanager
def inject(kind: str, board: Board, phase: Phase) -> Iterator[None]:
    """The fault of that kind, while the block runs; what is killed is killed once, at its beginning."""
    name = kind.removesuffix(" for long")
    if name in MAKERS:
        with MAKERS[name](board):
            yield
    elif name == "kill the command":
        assert isinstance(phase, Command)
        phase.kill()
        yield
    elif name == "its worker stopped":
        with stopped(board, (phase.worker,)):
            yield
    else:
        verb, _, process = name.removesuffix(" stopped").partition(" ")
        names = WORKERS if process == "all workers" else (process or verb,)
        with killed(board, names) if verb == "kill" else stopped(board, names):
            yield


@contextmanager
def killed(board: Board, names: tuple[str, ...]) -> Iterator[None]:
    """SIGKILL. The supervisor starts them again."""
    for name in names:
        board.signal(name, signal.SIGKILL)
    yield


@contextmanager
def stopped(board: Board, names: tuple[str, ...]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end."""
    pids = [pid for name in names for pid in board.signal(name, signal.SIGSTOP)]
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def broker_lost(board: Board) -> Iterator[None]:
    """It keeps everything in memory alone: whoever kills it loses all messages."""
    with killed(board, ("broker",)):
        yield


@contextmanager
def broker_stopped(board: Board) -> Iterator[None]:
    with stopped(board, ("broker",)):
        yield


@contextmanager
def connections_ended(board: Board) -> Iterator[None]:
    """All of them, whatever they are at."""
    with closing(psycopg2.connect(board.database.address)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    yield


@contextmanager
def database_crashed(board: Board) -> Iterator[None]:
    """Ended without a checkpoint, and started again at once."""
    with database_away(board):
        pass
    yield


@contextmanager
def database_away(board: Board) -> Iterator[None]:
    assert isinstance(board.database, PostgreSQL)
    board.database.crash()
    try:
        yield
    finally:
        board.database.start()


@contextmanager
def database_stopped(board: Board) -> Iterator[None]:
    """Whoever asks it waits: all its processes are stopped, and the system goes on taking connections for them."""
    assert isinstance(board.database, PostgreSQL)
    processes = board.database.find_processes()
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@contextmanager
def database_locked(board: Board) -> Iterator[None]:
    """Another process of the machine holds the only lock that writers need."""
    path = board.database.address.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


@contextmanager
def disk_filled(board: Board) -> Iterator[None]:
    """Not one byte is free on the disk with all files of the board."""
    filler = board.disk.folder / "filler"
    for size in (2**30, 2**24, 2**18, 4096):
        while not subprocess.run(
            ["fallocate", "--offset", str(size_of(filler)), "--length", str(size), str(filler)],
            capture_output=True,
            check=False,
        ).returncode:
            pass
    try:
        yield
    finally:
        filler.unlink()


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


@contextmanager
def storage_read_only(board: Board) -> Iterator[None]:
    """The file system of the storage takes no writes."""
    change = ["mount", "-o", "remount,bind,ro", str(board.disk.storage)]
    wait_for(
        lambda: not subprocess.run(change, capture_output=True, check=False).returncode,
        MOUNT_SECONDS,
        "nobody writes to the storage, so that it can be made read-only",
    )
    try:
        yield
    finally:
        mount("-o", "remount,bind,rw", str(board.disk.storage))


@contextmanager
def storage_away(board: Board) -> Iterator[None]:
    """An empty file system hides the storage, as where nothing is mounted."""
    mount("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(board.disk.storage))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(board.disk.storage)], check=True)


@contextmanager
def files_truncated(board: Board) -> Iterator[None]:
    """Every stored file has lost its second half; the whole ones come back at the end."""
    wholes = []
    for path in sorted(board.disk.storage.glob("[0-9a-f][0-9a-f]/*.parquet")):
        aside = path.with_suffix(".whole")
        with suppress(FileNotFoundError):
            path.rename(aside)
            path.write_bytes(aside.read_bytes()[: size_of(aside) // 2])
            wholes.append((aside, path))
    try:
        yield
    finally:
        for aside, path in wholes:
            aside.replace(path)


def bucket_failing(mode: str) -> Callable[[Board], AbstractContextManager[None]]:
    """The bucket does not give or take files as it should."""

    def fail(board: Board) -> AbstractContextManager[None]:
        assert board.bucket is not None
        return board.bucket.failing(mode)

    return fail


MAKERS: dict[str, Callable[[Board], AbstractContextManager[None]]] = {
    "kill broker, its data lost": broker_lost,
    "broker stopped": broker_stopped,
    "end all connections to the database": connections_ended,
    "crash of the database": database_crashed,
    "database away": database_away,
    "database stopped": database_stopped,
    "locked database": database_locked,
    "full disk": disk_filled,
    "read-only storage": storage_read_only,
    "storage away": storage_away,
    "truncated files": files_truncated,
    "bucket answers 500": bucket_failing("500"),
    "slow bucket": bucket_failing("slow"),
    "bucket breaks answers off": bucket_failing("truncated"),
}
