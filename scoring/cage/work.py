"""What is done in a cage: models are read and run, files that others made are read. Nothing here is trusted with more
than it needs; see `zygote.py` for where it runs and `models.py` and `files.py` for who asks.
"""

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import torch

# What loading and running any model imports: here, once for all cages.
import transformers.generation.utils
import transformers.masking_utils
import transformers.modeling_layers
import transformers.modeling_utils
import transformers.models.auto.tokenization_auto  # noqa: F401

from scoring.cage.pipe import Closed, Pipe
from scoring.cage.schemas import CONTINUATIONS, LIKELIHOODS, PROMPTS, READINGS, TEXTS
from scoring.contributed import ContributionRefused, Limits, read_generations, read_likelihoods
from scoring.contributed.tools import read_log, results_of
from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import GenerationSettings, continuations, continuations_table, with_log_perplexities
from scoring.language_models import LoadedModel
from scoring.language_models.describing import describe
from scoring.language_models.loading import load_files
from scoring.language_models.tokenizer_report import read_all
from scoring.likelihood import LikelihoodSettings, SpecialTokens, likelihoods_table, token_log_likelihoods
from scoring.self_test import self_test

PROGRESS_EVERY = 0.2  # seconds
MOST_WORDS = 1500  # characters of what went wrong
LONGEST_WORD = 1000  # characters of what a log says of itself in one place
MOST_STOPS = 10_000
REQUEST_BYTES = 2**31  # texts that are sent in; the supervisor is trusted
# A text with all letters, digits and common marks: a tokenizer that fails on these fails on anything.
PROBE = "The quick brown fox jumps over the lazy dog, 0123456789 times: it's (really) \"done\"; isn't it?"

Values = dict[str, Any]
Answered = tuple[Values, pa.Table | None]


class Room:
    """What a cage holds between two requests: at most one model."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._said = 0.0
        self.model: LoadedModel | None = None

    @property
    def loaded(self) -> LoadedModel:
        """The model. Raises ValueError where none was opened."""
        if self.model is None:
            raise ValueError("no model was opened")
        return self.model

    def enter(self, stage: str) -> None:
        """Say what comes now, so that the supervisor knows what it was if it ends this process."""
        self._pipe.send({"stage": stage})

    def progress(self, finished: int) -> None:
        """Say how many items are finished, now and then."""
        now = time.monotonic()
        if now - self._said >= PROGRESS_EVERY:
            self._said = now
            self._pipe.send({"progress": finished})


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
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception, and is told like any other
            pipe.send({"refused": _told(error)})
            if not isinstance(error, Exception):
                return
            continue
        pipe.send({"answer": values}, answer)


def _next(pipe: Pipe) -> tuple[Values, pa.Table | None]:
    request, _ = pipe.receive()
    wanted = WITH_TEXTS.get(request["verb"])
    return request, pipe.receive(wanted, REQUEST_BYTES)[1] if wanted else None


def _told(error: BaseException) -> Values:
    about: Values = {}
    if isinstance(error, ContributionRefused):
        about = {"report": error.report.as_dict()}
    kind = type(error).__name__
    if isinstance(error, torch.OutOfMemoryError):
        kind = "MemoryError"
    return {"kind": kind, "message": str(error)[:MOST_WORDS], "about": about}


def _describe(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("reading the configuration")
    description = describe(Path(arguments["path"]), arguments["name"], arguments["files"])
    about = {"licence": description.licence, "weights": list(description.weights)}
    return {"architecture": asdict(description.architecture), **about}, None


def _open(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("loading the model")
    room.model = load_files(Path(arguments["path"]), arguments["name"], precision=arguments["precision"])
    room.enter("trying the tokenizer")
    room.model.tokenizer([PROBE, "a"], add_special_tokens=False, split_special_tokens=True, verbose=False)
    about = {"device": str(room.model.device), "files": list(room.model.files)}
    return {"architecture": asdict(room.model.architecture), **about}, None


def _self_test(room: Room, _arguments: Values, _table: pa.Table | None) -> Answered:
    room.enter("comparing the engine with the model's plain forward")
    return self_test(room.loaded).as_json(), None


def _special_tokens(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    settings = LikelihoodSettings(**arguments["settings"])
    return {"shown": SpecialTokens.of(room.loaded, settings).shown(room.loaded)[:1000]}, None


def _read_texts(room: Room, _arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("reading the texts with the tokenizer")
    reading = read_all(room.loaded, _texts(table))
    rows = pa.table({"changed": reading.changed, "rate": reading.rates}, schema=READINGS)
    return {"pieces": reading.pieces, "ordinary": list(reading.ordinary)}, rows


def _likelihoods(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("computing likelihoods")
    settings = LikelihoodSettings(**arguments["settings"])
    texts = _texts(table)
    found = list(token_log_likelihoods(room.loaded, texts, settings, room.progress))
    return {}, likelihoods_table([""] * len(found), found).select(LIKELIHOODS.names)


def _continuations(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    room.enter("continuing prompts")
    settings = GenerationSettings(**arguments["settings"])
    prompts = _prompts(table)
    found = continuations(room.loaded, prompts, settings, room.progress)
    if arguments["log_perplexities"]:
        room.enter("computing likelihoods")
        found = with_log_perplexities(room.loaded, prompts, found)
    return {}, continuations_table(prompts, found).select(CONTINUATIONS.names)


class Watched(io.RawIOBase):
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
    with _opened(room, arguments) as file:
        limits = Limits(**arguments["limits"])
        return {}, read_generations(file, arguments["name"], _prompts(table), arguments["k"], limits)


def _read_likelihoods(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    with _opened(room, arguments) as file:
        return {}, read_likelihoods(file, arguments["name"], _prompts(table), Limits(**arguments["limits"]))


def _read_log(room: Room, arguments: Values, table: pa.Table | None) -> Answered:
    beside = io.BytesIO(json.dumps(arguments["results"]).encode()) if arguments["results"] else None
    with _opened(room, arguments) as file:
        output = read_log(
            file,
            arguments["name"],
            _prompts(table),
            arguments["k"],
            Limits(**arguments["limits"]),
            leave_out_others=arguments["leave_out_others"],
            results=beside,
        )
    provenance = asdict(output.provenance)
    for name, value in provenance.items():
        if isinstance(value, str):
            provenance[name] = value[:LONGEST_WORD]
    stop = provenance["decoding"]["stop"]  # they may be anything: how many they are is what counts
    provenance["decoding"]["stop"] = [""] * min(len(stop), MOST_STOPS)
    return {"provenance": provenance, "matched": asdict(output.matched)}, output.table


def _read_results(room: Room, arguments: Values, _table: pa.Table | None) -> Answered:
    with _opened(room, arguments) as file:
        return results_of(file), None


@contextmanager
def _opened(room: Room, arguments: Values) -> Iterator[BinaryIO]:
    room.enter("reading the file")
    with Path(arguments["path"]).open("rb") as file:
        yield cast(BinaryIO, Watched(file, room))


def _prompts(table: pa.Table | None) -> list[Prompt]:
    return [Prompt(**row) for row in (table.to_pylist() if table else [])]


def _texts(table: pa.Table | None) -> list[str]:
    texts: list[str] = table["text"].to_pylist() if table else []
    return texts


VERBS: dict[str, Callable[[Room, Values, pa.Table | None], Answered]] = {
    "describe": _describe,
    "open": _open,
    "self test": _self_test,
    "special tokens": _special_tokens,
    "read texts": _read_texts,
    "likelihoods": _likelihoods,
    "continuations": _continuations,
    "read generations": _read_generations,
    "read likelihoods": _read_likelihoods,
    "read log": _read_log,
    "read results": _read_results,
}
WITH_TEXTS = {
    "read texts": TEXTS,
    "likelihoods": TEXTS,
    "continuations": PROMPTS,
    "read generations": PROMPTS,
    "read likelihoods": PROMPTS,
    "read log": PROMPTS,
}
