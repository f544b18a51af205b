"""JSON that strangers wrote: read within limits of size, depth, values and numbers."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scoring.language_models.refusals import ModelRefused

KB, MB = 2**10, 2**20
MOST_DEPTH = 32  # no file of an honest model nests deeper than 10
LARGEST = 1e40  # of a number; "no limit" is written as 1e30
KEY = re.compile(r"[A-Za-z_][\w.-]{0,39}", re.ASCII)
MOST_OF_A_KEY = 40  # characters of a stranger's own that a message repeats
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def quote(key: str) -> str:
    """A key as messages name it: those of honest files as they stand, others in part and in quotation marks."""
    return key if KEY.fullmatch(key) else f"{key[:MOST_OF_A_KEY]!a}"


def read_json(path: Path, name: str, most_bytes: int, most_values: int) -> dict[str, Any]:
    """The JSON object in the file `path` of the model `name`.

    Raises ModelRefused where it is longer than `most_bytes`, holds more than `most_values` values (counted before it is
    parsed), repeats a key or is no JSON object in UTF-8.
    """
    size = path.stat().st_size
    if size > most_bytes:
        raise ModelRefused(f"{path.name} of {name} has {size:,} bytes, and at most {most_bytes:,} are read: shorten it")
    return parse_json(path.read_bytes(), path.name, name, most_values)


def parse_json(content: bytes, file: str, name: str, most_values: int) -> dict[str, Any]:
    """The JSON object that `content` is. Raises as `read_json` does."""
    # Every value but the first of a list or an object follows one of these; so memory is bounded before parsing.
    values = content.count(b",") + content.count(b"[") + content.count(b"{")
    if values > most_values:
        raise ModelRefused(f"{file} of {name} holds more than {most_values:,} values: shorten it")
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_without_repetition)
    except RecursionError as error:
        raise ModelRefused(f"{file} of {name} nests deeper than {MOST_DEPTH} levels: flatten it") from error
    except ValueError as error:
        raise ModelRefused(f"{file} of {name} is not JSON ({error}): correct it") from error
    if not isinstance(value, dict):
        raise ModelRefused(f"{file} of {name} is not a JSON object: correct it")
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of a repeated key one reader takes the first value, another the last: what was checked must be what is used.
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is repeated in an object")
    return content


def walk(content: object, file: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each value of `content` that is no object, with its key; those of a list with the key of the list.

    Raises ModelRefused where it nests too deep, a number is not finite or too large, or a text is no Unicode.
    """
    stack: list[tuple[str, Any, int]] = [("", content, 0)]
    while stack:
        key, value, depth = stack.pop()
        if depth > MOST_DEPTH:
            raise ModelRefused(f"{file} of {name} nests deeper than {MOST_DEPTH} levels: flatten it")
        if isinstance(value, dict):
            stack += [(str(inner), child, depth + 1) for inner, child in value.items()]
            _check_text(file, name, key, value.keys())
        elif isinstance(value, list):
            stack += [(key, child, depth + 1) for child in value]
        else:
            _check_scalar(file, name, key, value)
            yield key, value


def _check_scalar(file: str, name: str, key: str, value: object) -> None:
    if isinstance(value, str):
        _check_text(file, name, key, [value])
    elif isinstance(value, float) and not math.isfinite(value):
        if key != "time_step_limit" or math.isnan(value):  # Mamba 2 writes "no limit" as an infinite time step
            raise ModelRefused(f"{file} of {name} gives {quote(key)} = {value}, which is no finite number: correct it")
    elif isinstance(value, (int, float)) and abs(value) > LARGEST:
        raise ModelRefused(f"{file} of {name} gives {quote(key)} a number larger than {LARGEST:g}: correct it")


def _check_text(file: str, name: str, key: str, texts: Iterable[str]) -> None:
    for text in texts:
        if LONE_SURROGATE.search(text):
            raise ModelRefused(f"{file} of {name} holds half a surrogate pair below {quote(key)}: correct it")
