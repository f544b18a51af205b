"""Cages, from the side that keeps the secrets: starting them, talking to them, ending them."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring.cage.confinement import NOBODY, PACKAGE
from scoring.cage.limits import (
    CageBroken,
    CageDied,
    CageError,
    CageLimits,
    CageOutOfMemory,
    CageTimeout,
    CageUnavailable,
)
from scoring.cage.pipe import Closed, Pipe
from scoring.cage.protections import ENVIRONMENT, FIXED, Protection, from_json, missing_protections

MOMENT = 0.25  # seconds between two looks at deadline, memory and whoever asked
START_SECONDS = 600.0  # for the libraries, on a slow disk of a busy machine
MOST_WORDS = 2000  # characters of what a cage says went wrong
SIGNALS = {4: "illegal instruction", 6: "it aborted", 7: "bus error", 8: "arithmetic error", 9: "killed", 11: "crash"}
SIGNALS |= {24: "out of processor time", 25: "file too large", 31: "forbidden call"}


@dataclass
class Answer:
    """What a request came to."""

    values: dict[str, Any]
    table: pa.Table | None = None

    @property
    def rows(self) -> pa.Table:
        """Its table. Raises CageBroken where there is none."""
        if self.table is None:
            raise CageBroken("an answer without a table")
        return self.table


class WorkRefused(Exception):
    """The work said no. `kind` is the name of the error in the cage, `message` what it says, `about` what else."""

    def __init__(self, kind: str, message: str, detail: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind, self.message, self.about = kind, message, detail


class Cage:
    """A process that was shut in, and did not read anything yet. Made by `open_cage`."""

    def __init__(
        self, work: socket.socket, watch: socket.socket, limits: CageLimits, check: Callable[[], None]
    ) -> None:
        self._limits, self._check = limits, check
        self._began = self._progressed = time.monotonic()
        self._watch = watch
        self._pipe = Pipe(work, self._look, MOMENT)
        self._process = 0
        self._watched = b""
        self.stage = "its start"
        self.protections: list[Protection] = []

    def begin(self) -> None:
        """Wait until it has shut itself in. Raises CageError."""
        values, _ = self._receive()
        try:
            self.protections = from_json(values["protections"])
        except (KeyError, TypeError) as error:
            raise CageBroken("it does not say what protects the host") from error

    def ask(
        self,
        verb: str,
        arguments: Mapping[str, Any],
        table: pa.Table | None = None,
        schema: pa.Schema | None = None,
        progress: Callable[[int], None] = lambda _count: None,
    ) -> Answer:
        """Have it do something. `schema`: of the table that it is to answer; `progress` gets the items finished so far.

        Raises WorkRefused, CageError, and what `progress` and the cage's `check` raise.
        """
        self._progressed = time.monotonic()
        try:
            self._pipe.send({"verb": verb, "arguments": dict(arguments)})
            if table is not None:
                self._pipe.send({}, table)
        except Closed:
            raise self._death() from None
        while True:
            values, answer = self._receive(schema)
            self._progressed = time.monotonic()
            if "stage" in values:
                self.stage = str(values["stage"])[:100]
            elif "progress" in values:
                self._look()
                progress(_whole(values["progress"]))
            elif "refused" in values:
                raise _refusal(values["refused"])
            elif "answer" in values and isinstance(values["answer"], dict):
                self.stage = "between two requests"
                return Answer(values["answer"], answer)
            else:
                raise CageBroken("a message of no known kind", self.stage)

    def resume(self, limits: CageLimits, check: Callable[[], None]) -> None:
        """Go on in the same cage with other work, which has these limits of time from now on, and another `check`."""
        self._limits, self._check = limits, check
        self._began = self._progressed = time.monotonic()

    def close(self) -> None:
        """End it, whatever it is at."""
        self._pipe.close()
        self._watch.close()  # its warden takes that for the order to kill it

    def _receive(self, schema: pa.Schema | None = None) -> tuple[dict[str, Any], pa.Table | None]:
        try:
            return self._pipe.receive(schema, self._limits.answer_bytes)
        except Closed:
            raise self._death() from None

    def _look(self) -> None:
        """Raise where the work should not go on."""
        self._check()
        moment = time.monotonic()
        if moment - self._began > self._limits.seconds:
            raise CageTimeout(f"it took longer than the {self._limits.seconds:g} s that it may take", self.stage)
        if moment - self._progressed > self._limits.idle_seconds:
            raise CageTimeout(f"it showed no progress for {self._limits.idle_seconds:g} s", self.stage)
        used = self._memory()
        if used > self._limits.memory:
            raise CageOutOfMemory(
                f"it took {used / 1e9:.1f} GB of memory, and may take {self._limits.memory / 1e9:.1f}", self.stage
            )

    def _memory(self) -> int:
        """Bytes of its own that it uses; 0 where that cannot be seen."""
        if not self._process:
            self._process = int(self._of_warden(0.0).get("process", 0))
        return sum(_own_memory(process) for process in _with_children(self._process)) if self._process else 0

    def _of_warden(self, patience: float) -> dict[str, Any]:
        """The next line of the warden, {} where it says nothing in time."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._watched:
            self._watch.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self._watch.recv(4096)
            except (TimeoutError, OSError):
                return {}
            if not piece:
                return {}
            self._watched += piece
        line, _, self._watched = self._watched.partition(b"\n")
        message: dict[str, Any] = json.loads(line)  # the warden reads nothing of strangers
        return message

    def _death(self) -> CageError:
        """How it ended, as an error."""
        message: dict[str, Any] = {}
        while not message.keys() & {"signal", "status"}:
            message = self._of_warden(5.0)
            if not message:
                return CageDied("its process is gone", self.stage)
        number = int(message.get("signal", 0))
        words = f"signal {number}, {SIGNALS.get(number, 'ended')}" if number else f"status {message['status']}"
        return CageDied(f"its process ended ({words})", self.stage, number)


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise CageBroken("progress that is no count")
    return value


def _refusal(value: Any) -> WorkRefused:
    try:
        detail = value.get("about", {})
        return WorkRefused(str(value["kind"])[:80], str(value["message"])[:MOST_WORDS], dict(detail))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CageBroken("a refusal that says nothing") from error


def _own_memory(process: int) -> int:
    """Bytes of a process that no file backs; 0 where that is not told."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def _with_children(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError, ValueError):
        for tasks in Path(f"/proc/{process}/task").glob("*/children"):
            for child in tasks.read_text().split():
                yield from _with_children(int(child))


class Nursery:
    """The zygote of this process: started when the first cage is opened, and again where it is gone.

    `module` is what runs as the zygote.
    """

    def __init__(self, module: str = "scoring.cage.zygote") -> None:
        self._module = module
        self._one_at_a_time = threading.Lock()  # threads share it
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    def send(self, request: dict[str, Any], ends: list[int]) -> None:
        """Ask for a cage, which gets the sockets of these numbers. Raises CageUnavailable."""
        content = json.dumps(request | {"supervisor": os.getpid()}).encode()
        with self._one_at_a_time:
            for last in (False, True):
                control = self._live_control()
                try:
                    socket.send_fds(control, [content], ends)
                    if not control.recv(16):
                        raise ConnectionResetError("it ended")
                    return
                except OSError as error:
                    self._stop()
                    if last:
                        raise CageUnavailable(f"the process that cages come from is gone: {error}") from error

    def prepare(self) -> None:
        """Start it before it is needed: the libraries take seconds. Raises CageUnavailable."""
        with self._one_at_a_time:
            self._live_control()

    def stop(self) -> None:
        """End it; the next cage starts another."""
        with self._one_at_a_time:
            self._stop()

    def abandon(self) -> None:
        """End it as this process ends: a thread that waits for it to start holds the lock."""
        if self._process and self._control and self._owner == os.getpid():
            self._control.close()
            self._process.kill()
            self._process.wait()

    def _live_control(self) -> socket.socket:
        if self._owner != os.getpid():  # this process was forked: the zygote is another one's
            self._process = self._control = None
        if self._process and self._control and self._process.poll() is None:
            return self._control
        self._stop()
        control, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._owner, self._control = os.getpid(), control
        with zygote_end:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, a module of ours
                [sys.executable, "-P", "-s", "-m", self._module, str(zygote_end.fileno())],
                env=clean_environment(os.environ),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[zygote_end.fileno()],
                start_new_session=True,  # a terminal's interrupt is for the supervisor
            )
        control.settimeout(START_SECONDS)
        try:
            ready = control.recv(16)
        except OSError as error:
            self._stop()
            raise CageUnavailable(f"the process that cages come from did not start: {error}") from error
        if not ready:
            self._stop()
            raise CageUnavailable("the process that cages come from ended as it started: see the log of the worker")
        return control

    def _stop(self) -> None:
        """End it, and no cage with it: each has a warden of its own."""
        if self._control:
            self._control.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None


NURSERY = Nursery()
atexit.register(NURSERY.abandon)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the zygote is started with: names on a list, and where the engine lies."""
    variables = {name: environment[name] for name in ENVIRONMENT if name in environment}
    return {
        **variables,
        **FIXED,
        "PYTHONPATH": str(PACKAGE.parent),
        "PLUMBLINE_CAGE_OF": "root" if os.getuid() == 0 else "",
    }


@contextlib.contextmanager
def open_cage(
    limits: CageLimits,
    readable: Iterable[Path] = (),
    *,
    check: Callable[[], None] = lambda: None,
    strict: bool = False,
    cuda: bool = False,
) -> Iterator[Cage]:
    """A cage for the block, which may read `readable`. `check` is called several times a second while it works.

    What `check` raises ends it. `strict`: raise CageUnavailable where a protection is missing on this host.
    """
    work_socket, cage_end = socket.socketpair()
    watch, warden = socket.socketpair()
    with (
        work_socket,
        watch,
        tempfile.TemporaryDirectory(prefix="plumbline-cage-", ignore_cleanup_errors=True) as scratch,
    ):
        if os.getuid() == 0:
            os.chown(scratch, NOBODY, NOBODY)
        request = {
            "limits": asdict(limits),
            "readable": [str(path) for path in readable],
            "scratch": scratch,
            "cuda": cuda,
        }
        with cage_end, warden:
            NURSERY.send(request, [cage_end.fileno(), warden.fileno()])
        cage = Cage(work_socket, watch, limits, check)
        try:
            cage.begin()
            if strict and (open_ones := missing_protections(cage.protections)):
                raise CageUnavailable(
                    "; ".join(f"{one.title.lower()} ({one.detail})" for one in open_ones)
                    + ": this host lacks protections that CAGE=required asks for"
                )
            yield cage
        finally:
            cage.close()
