"""The process that workers of tests are forked from: it has their libraries, and nothing of any board.

    python -m tests.faults.forge SOCKET     # the number of a socket, on which it is told what to do

What is forked runs a module as `python -m` does, in a session and an environment of its own: the same program as one
started anew, but for the seconds that importing torch takes.
"""

import atexit
import gc
import json
import os
import runpy
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

LIBRARIES = (
    "celery.bin.celery",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.thread",
    "confusable_homoglyphs.confusables",
    "django.contrib.staticfiles.storage",
    "django.core.management",
    "django.db.models",
    "django_structlog.celery.steps",
    "environs",
    "kombu.transport.redis",
    "prometheus_client",
    "pyarrow.compute",
    "pydantic",
    "redis.asyncio",
    "reportlab.platypus",
    "requests",
    "scoring.contributed.tools",
    "scoring.drift.report",
    "scoring.likelihood.engine",
    "scoring.metrics.kinds",
    "scoring.scorers.classifier",
    "scoring.scorers.detoxify",
    "scoring.succession.orders",
)
ENVIRONMENT = dict(os.environ)  # before any test changes a variable
READ_AT_IMPORT = ("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE")  # by the libraries
MOST = 2**16  # bytes of an order or an answer
PAUSE = 0.02  # seconds between two looks whether a process ended


class Forge:
    """The forge of this process, which begins with its first order."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None

    def ask(self, order: dict[str, Any]) -> Any:
        """What the forge answers."""
        if self._control is None:
            self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with other:
                command = [sys.executable, "-m", "tests.faults.forge", str(other.fileno())]
                process = subprocess.Popen(command, env=ENVIRONMENT, pass_fds=[other.fileno()], start_new_session=True)
            atexit.register(process.wait)
            atexit.register(self._control.close)  # which ends it: the last that is registered comes first
        self._control.send(json.dumps(order).encode())
        return json.loads(self._control.recv(MOST))


FORGE = Forge()


def can_fork(environment: dict[str, str]) -> bool:
    """Whether libraries would be imported the same way in that environment as in the forge."""
    return all(environment.get(name) == ENVIRONMENT.get(name) for name in READ_AT_IMPORT)


class Forked:
    """A process that the forge forked, as subprocess.Popen shows one."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, output: Path) -> None:
        """Run a module with its arguments; what it says is appended to the file `output`."""
        order = {"command": command, "environment": environment, "folder": str(folder), "output": str(output)}
        self.pid: int = FORGE.ask(order)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, or the number of the signal that ended it, negative; None while it runs."""
        if self.returncode is None:
            self.returncode = FORGE.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Its exit status. Raises TimeoutExpired after so many seconds."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(PAUSE)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Follow orders until the tests hang up, then return None; return the order in what is forked."""
    while message := control.recv(MOST):
        order: dict[str, Any] = json.loads(message)
        if "ended" in order:
            pid, status = os.waitpid(order["ended"], os.WNOHANG)
            control.send(json.dumps(os.waitstatus_to_exitcode(status) if pid else None).encode())
        elif os.fork() == 0:
            os.setsid()  # before anyone hears of it, and would end its group
            control.send(json.dumps(os.getpid()).encode())
            return order
    return None


def main() -> None:
    """Import the libraries, and be what is forked, each time."""
    gc.disable()
    for library in LIBRARIES:
        import_module(library)
    gc.freeze()
    gc.enable()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        order = serve(control)
    if order is None:
        return
    output = os.open(order["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["command"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
