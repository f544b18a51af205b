"""A campaign: spoilt inputs for one parser, each accepted or refused by name, within time and memory, or told."""

import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.mutation import LONG, Mutation, spoil_bytes

SECONDS, SECONDS_A_BYTE = 1.0, 2e-5  # of processor time
MEMORY, MEMORY_A_BYTE = 64 * 2**20, 200
HANGS_AFTER = 20.0  # seconds of processor time
LONGEST_MESSAGE = 6000
MOST_KEPT = 20  # found inputs of a parser
TOUCHES = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec")
FLAGS_THAT_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Parser:
    """A parser of what strangers send.

    read: reads the file at a path and raises one of `refusals`, or returns. seeds: valid and hostile files, with the
    ending that each has. mutation: how they are spoilt. prepare: what has to be there, once.
    """

    name: str
    read: Callable[[Path], object]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], list[tuple[str, bytes]]]
    mutation: Mutation
    prepare: Callable[[], object] = lambda: None


@dataclass
class Tally:
    """What came of a parser's inputs. Seconds are of the processor, memory is what the process grew by, in bytes."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    slowest_input: int = 0
    largest: int = 0
    largest_input: int = 0
    finds: dict[str, str] = field(default_factory=dict)  # by number of the input


class Hangs(BaseException):
    """A parser does not come to an end."""


class Watch:
    """Notes what a parser touches outside: the network, other programs, files that it writes beside its own."""

    def __init__(self) -> None:
        self.active, self.touches = False, list[str]()
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event of Python's audit while a parser runs."""
        if not self.active:
            return
        if event in TOUCHES:
            self.touches.append(event)
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & FLAGS_THAT_WRITE:
            path = str(arguments[0])
            if "plumbline-fuzz-" not in path and not path.endswith((".pyc", "/dev/null")) and "__pycache__" not in path:
                self.touches.append(f"open for writing {path[:80]}")


WATCH = Watch()


def make_input(parser: Parser, seeds: list[tuple[str, bytes]], seed: int, number: int) -> tuple[str, bytes]:
    """The ending and the bytes of one input, which its number fixes."""
    draw = random.Random(f"{seed} {parser.name} {number}")  # noqa: S311 (inputs, not secrets)
    ending, content = draw.choice(seeds)
    if number < len(seeds):
        return seeds[number]
    try:
        return ending, parser.mutation(content, draw)
    except (
        ValueError,
        LookupError,
        RecursionError,
        NotImplementedError,
        zipfile.BadZipFile,
    ):  # a hostile seed that has no structure to spoil
        return ending, spoil_bytes(content, draw)


def run_campaign(
    parser: Parser, runs: int, seed: int, scratch: Path, tally: Tally, save: Callable[[Tally], object] = lambda _: None
) -> Tally:
    """Feed inputs from where `tally` stands up to `runs`. scratch: a folder whose name has `plumbline-fuzz-` in it."""
    parser.prepare()
    seeds = parser.seeds()
    earlier_folder = tempfile.tempdir
    tempfile.tempdir = str(scratch)  # for what parsers unpack
    for ending, content in seeds:  # what they import is no input's time and memory
        path = scratch / f"input{ending}"
        path.write_bytes(content)
        attempt(parser, path)
    for number in range(tally.inputs, runs):
        ending, content = make_input(parser, seeds, seed, number)
        path = scratch / f"input{ending}"
        path.write_bytes(content)
        feed(parser, path, len(content), number, tally)
        if number % 1000 == 999:
            save(tally)
    tempfile.tempdir = earlier_folder
    save(tally)
    return tally


def feed(parser: Parser, path: Path, size: int, number: int, tally: Tally) -> None:
    """Feed one input and note what came of it."""
    before = reset_peak()
    began = time.process_time()
    outcome, problem = attempt(parser, path)
    seconds = time.process_time() - began
    grown = max(0, peak() - before)
    tally.inputs += 1
    tally.accepted += outcome == "accepted"
    tally.refused += outcome == "refused"
    if seconds > tally.slowest:
        tally.slowest, tally.slowest_input = seconds, number
    if grown > tally.largest:
        tally.largest, tally.largest_input = grown, number
    if seconds > SECONDS + SECONDS_A_BYTE * size:
        problem = problem or f"{seconds:.1f} s for {size:,} bytes"
    if grown > MEMORY + MEMORY_A_BYTE * size:
        problem = problem or f"{grown / 2**20:.0f} MB for {size:,} bytes"
    if problem and len(tally.finds) < MOST_KEPT and problem not in tally.finds.values():
        tally.finds[str(number)] = problem


def attempt(parser: Parser, path: Path) -> tuple[str, str]:
    """Accepted, refused or neither; and what is wrong with that, "" where nothing is."""
    WATCH.touches.clear()
    try:
        with _limited():
            WATCH.active = True
            parser.read(path)
    except parser.refusals as error:
        WATCH.active = False
        return "refused", judge_message(str(error)) or ", ".join(WATCH.touches)
    except (Exception, Hangs) as error:  # noqa: BLE001 (whatever it is: it is no refusal)
        WATCH.active = False
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return "", f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
    finally:
        WATCH.active = False
    return "accepted", ", ".join(WATCH.touches)


def judge_message(message: str) -> str:
    """What is wrong with the message of a refusal; "" where nothing is."""
    if len(message.strip()) < 10:
        return "a refusal without a message"
    if len(message) > LONGEST_MESSAGE:
        return f"a message of {len(message) // 1000},000 characters"
    if LONG[:160] in message:
        return "a message that repeats the content"
    if any(not (character.isprintable() or character in "\n") for character in message):
        return "a message with control characters"
    return ""


@contextmanager
def _limited() -> Iterator[None]:
    def end(_signal: int, _frame: object) -> None:
        raise Hangs

    earlier = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS_AFTER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, earlier)


def reset_peak() -> int:
    """Count the peak of this process' memory anew; returns what it has now, in bytes. Linux only."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most memory since `reset_peak`, in bytes."""
    status = Path("/proc/self/status").read_bytes()
    start = status.index(b"VmHWM:") + 6
    return int(status[start : status.index(b"kB", start)]) * 1024


def load_tally(path: Path, seed: int) -> Tally:
    """What an earlier campaign with this seed came to."""
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("seed") == seed:
            return Tally(**content)
    return Tally()


def save_tally(path: Path, seed: int, tally: Tally) -> None:
    """Keep what a campaign has come to, so that the next one goes on from there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seed": seed} | asdict(tally)), encoding="utf-8")
