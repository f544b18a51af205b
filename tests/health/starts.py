"""How long the processes of a board take to start, and the memory they have then, in a folder of their own."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PATIENCE = 600.0  # seconds


def measure_starts() -> dict[str, tuple[float, float]]:
    """Seconds until web answers, a worker hears and a command has ended, and their memory in MiB."""
    from tests import environment

    os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
    try:
        run_command("migrate", "--verbosity", "0")
        import django

        django.setup()
        from leaderboard.celery import app
        from leaderboard.supervision import processes

        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        commands = processes("127.0.0.1", port)
        return {
            "web": measure_process(commands["web"], lambda: is_answered(f"http://127.0.0.1:{port}/healthz")),
            "worker": measure_process(
                commands["worker"].replace("%%", "%"), lambda: bool(app.control.ping(timeout=0.2))
            ),
            "command": run_command("check"),
        }
    finally:
        environment.pytest_unconfigure()


def is_answered(address: str) -> bool:
    """Whether a page is served there."""
    with suppress(URLError, OSError), urlopen(address, timeout=5) as answer:  # noqa: S310 (our own address)
        return answer.status == 200
    return False


def measure_process(command: str, is_ready: Callable[[], bool]) -> tuple[float, float]:
    """Seconds from the start of a process until it is ready, and MiB of it and its children then; it is ended."""
    began = time.monotonic()
    variables = os.environ | {"PYTHONWARNINGS": "ignore"}  # of a run as root, of no static files yet
    process = subprocess.Popen(shlex.split(command), env=variables, start_new_session=True)
    try:
        while not is_ready():
            if process.poll() is not None or time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"it does not start: {command}")
            time.sleep(0.05)
        return time.monotonic() - began, sum(map(read_memory, list_group(process.pid)))
    finally:
        with suppress(ProcessLookupError):  # it has ended, and nothing that it started is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def list_group(leader: int) -> list[int]:
    """The processes of a group that live."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            pids += [int(entry.name)] if os.getpgid(int(entry.name)) == leader else []
    return pids


def read_memory(pid: int) -> float:
    """MiB of a process in memory; pages that several share count for each in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def run_command(*words: str) -> tuple[float, float]:
    """Seconds and the most MiB of a command of the board."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "manage.py", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"manage.py {' '.join(words)} failed")
    return time.monotonic() - began, usage.ru_maxrss / 1024
