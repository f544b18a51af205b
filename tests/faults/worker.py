"""Real Celery workers in processes of their own, on the tests' database and broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import connection

from tests.faults.forge import Forked, can_fork
from tests.limits import measure_slowness
from tests.postgresql import address_of

ROOT = Path(__file__).parent.parent.parent
LAST_WORDS = 10_000  # characters
ALL_QUEUES = "default,gpu,readings,downloads"
NO_CAGES = "default,downloads"  # a worker for these runs nothing of strangers: it starts without a zygote


def list_processes(folder: Path) -> list[int]:
    """Processes of the board in `folder`: their environment says so, or their command line names something in it."""
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            is_ours = f"PLUMBLINE_VAR={folder}\0".encode() in (entry / "environ").read_bytes()
            if is_ours or f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return pids


def database_url() -> str:
    """The address of the database that the tests write to."""
    if connection.vendor == "sqlite":
        return f"sqlite:///{connection.settings_dict['NAME']}"
    return address_of(connection.settings_dict["NAME"])


@contextmanager
def worker(
    queues: str = ALL_QUEUES, name: str = "celery", seconds_fast: float = 0, **environment: str
) -> Iterator[Forked | subprocess.Popen[bytes]]:
    """A worker for `queues`, and beat; killed at the end of the block, their last words told if that fails.

    seconds_fast: how much too late their clock is.
    """
    log = settings.VAR / f"worker-{time.monotonic_ns()}.log"
    clock = ["tests.faults.shifted_clock", str(seconds_fast)] if seconds_fast else []
    celery = [*clock, "celery", "--app", "leaderboard", "--skip-checks"]  # they import all pages: the tests make them
    worker_command = [*celery, "worker", "--queues", queues, "--hostname", f"{name}@%h"]
    worker_command += ["--concurrency", "2", "--loglevel", "INFO"]
    beat_command = [*celery, "beat", "--loglevel", "INFO", "--pidfile=", "--schedule", f"{log.with_suffix('')}-beat"]
    variables = os.environ | {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "LEASE_SECONDS": "3",
        "SWEEP_SECONDS": "1",
        **environment,
    }
    processes = [start(command, variables, log) for command in (worker_command, beat_command)]
    try:
        yield processes[0]
    except BaseException:
        sys.stdout.write(f"last words of a worker and its beat:\n{log.read_text(errors='replace')[-LAST_WORDS:]}")
        raise
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start(command: list[str], variables: dict[str, str], log: Path) -> Forked | subprocess.Popen[bytes]:
    """Run a module with its arguments in a session of its own; what it says is appended to `log`."""
    if can_fork(variables):
        return Forked(command, variables, ROOT, log)
    with log.open("ab") as output:
        whole = [sys.executable, "-m", *command]
        return subprocess.Popen(whole, cwd=ROOT, env=variables, stdout=output, stderr=output, start_new_session=True)


def stretch(seconds: float) -> float:
    """So many seconds of an idle machine, on this one as it is this minute."""
    return seconds * slowness_in(int(time.monotonic() // 60))


@cache
def slowness_in(_minute: int) -> float:
    """How slow this machine was when it was first asked in a minute: many wait, and each look is work."""
    return measure_slowness(time.perf_counter)


def wait_until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Poll until `condition` holds; fail when it does not in time, by the clock of an idle machine."""
    deadline = time.monotonic() + stretch(seconds)
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {seconds:g} s")
        time.sleep(0.05)
