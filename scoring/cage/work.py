"""What is done in a cage: requests are served, and files that others made are read; `model_work.py` has models.

Nothing here is trusted with more than it needs; see `zygote.py` for where it runs and `models.py` and `files.py` for
who asks.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from scoring.cage.pipe import Closed, Pipe
from scoring.cage.room import Answered, Room, Values
from scoring.cage.schemas import PASSAGES, PROMPTS, TEXTS, read_prompts
from scoring.contributed import ContributionRefused, Limits, read_generations, read_likelihoods
from scoring.contributed.tools import read_log, results_of

MOST_WORDS = 1500  # characters of what went wrong
LONGEST_WORD = 1000  # characters of what a log says of itself in one place
MOST_STOPS = 10_000
REQUEST_BYTES = 2**31  # texts that are sent in; the supervisor is trusted


def serve(pipe: Pipe) -> None:
    """Answer requests until the supervisor hangs up, or something goes wrong that may leave no whole state behind."""
    room = Room(pipe)
    while True:
        try:
            request, table = _next(pipe)
        except Closed:
            return
        try:
            values, answer = VERBS[request["verb"]](room, request["arguments"], table)
        except Closed:
            return
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception, and is reported like any other
            pipe.send({"refused": _describe_error(error)})
            if not isinstance(error, Exception):
                return
            continue
        pipe.send({"answer": values}, answer)


def _next(pipe: Pipe) -> tuple[Values, pa.Table | None]:
    request, _ = pipe.receive()
    schema = WITH_TEXTS.get(request["verb"])
    return request, pipe.receive(schema, REQUEST_BYTES)[1] if schema else None


def _describe_error(error: BaseException) -> Values:
    detail: Values = {}
    if isinstance(error, ContributionRefused):
        detail = {"report": error.report.as_dict()}
    return {"kind": type(error).__name__, "message": str(error)[:MOST_WORDS], "about": detail}


class WatchedFile(io.RawIOBase):
    """A file that says how far it was read."""

    def __init__(self, file: BinaryIO, room: Room) -> None:
        self._file, self._room = file, room

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """As of any file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As of any file."""
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        """As of any file."""
        piece = self._file.read(size)
        self._room.progress(self._file.tell())
        return piece


def _read_generations(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    with _open_upload(room, arguments) as file:
        limits = Limits(**arguments["limits"])
        return {}, read_generations(file, arguments["name"], read_prompts(table), arguments["k"], limits)


def _read_likelihoods(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    with _open_upload(room, arguments) as file:
        return {}, read_likelihoods(file, arguments["name"], read_prompts(table), Limits(**arguments["limits"]))


def _read_log(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    results = io.BytesIO(json.dumps(arguments["results"]).encode()) if arguments["results"] else None
    with _open_upload(room, arguments) as file:
        output = read_log(
            file,
            arguments["name"],
            read_prompts(table),
            arguments["k"],
            Limits(**arguments["limits"]),
            leave_out_others=arguments["leave_out_others"],
            results=results,
        )
    provenance = asdict(output.provenance)
    for name, value in provenance.items():
        if isinstance(value, str):
            provenance[name] = value[:LONGEST_WORD]
    stop = provenance["decoding"]["stop"]  # they may be anything: how many they are is what counts
    provenance["decoding"]["stop"] = [""] * min(len(stop), MOST_STOPS)
    return {"provenance": provenance, "matched": asdict(output.matched)}, output.table


def _read_results(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    with _open_upload(room, arguments) as file:
        return results_of(file), None


@contextmanager
def _open_upload(room: Room, arguments: Values) -> Iterator[BinaryIO]:
    room.enter("reading the file")
    with Path(arguments["path"]).open("rb") as file:
        yield cast(BinaryIO, WatchedFile(file, room))


VERBS: dict[str, Callable[[Room, Values, pa.Table | None], Answered]] = {
    "read generations": _read_generations,
    "read likelihoods": _read_likelihoods,
    "read log": _read_log,
    "read results": _read_results,
}
if find_spec("torch"):  # a web server may be installed without the engine, and reads files alone
    from scoring.cage.model_work import VERBS as MODEL_VERBS

    VERBS |= MODEL_VERBS
pa.array([None])  # with the first list that it converts, pyarrow imports pandas where it is: once for all cages
WITH_TEXTS = {
    "read texts": TEXTS,
    "token ids": TEXTS,
    "likelihoods": PASSAGES,
    "continuations": PROMPTS,
    "read generations": PROMPTS,
    "read likelihoods": PROMPTS,
    "read log": PROMPTS,
}
