"""Texts in files: one a line, JSON Lines, or a JSON list."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path


class UnreadableTexts(ValueError):
    """A file of texts is not one; the message says where and what to do."""


def read_texts(path: Path, field: str = "text") -> Iterator[str]:
    """Yield the texts of a file; field: as of `text_of`. Raises UnreadableTexts, naming the line, and OSError."""
    try:
        if path.suffix == ".json":
            items = json.loads(_decode(path.read_bytes().removeprefix(BOM_UTF8), str(path)))
            if not isinstance(items, list):
                raise UnreadableTexts(f"{path} is not a list: give a list of objects with {field}")
            yield from (text_of(item, f"{path}, record {number}", field) for number, item in enumerate(items, start=1))
            return
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}, line {number}"
                content = line.removeprefix(BOM_UTF8) if number == 1 else line
                text = _decode(content, place).removesuffix("\n").removesuffix("\r")
                yield text_of(json.loads(text), place, field) if path.suffix == ".jsonl" else text
    except UnreadableTexts:
        raise
    except (ValueError, RecursionError) as error:  # Python's limits on digits and depth among them
        raise UnreadableTexts(f"{path} is not JSON ({error}): correct it, or name it .txt") from error


def _decode(content: bytes, place: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableTexts(
            f"{place} is not UTF-8 ({error.reason} at its byte {error.start + 1}): save the file as UTF-8"
        ) from error


def text_of(item: object, place: str, field: str = "text") -> str:
    """The text of a record, which is that text itself or has it at `field`: names and numbers between dots.

    Raises UnreadableTexts, naming place and field, where no string is there.
    """
    value = item
    for name in [] if isinstance(item, str) else field.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = None
    if not isinstance(value, str):
        raise UnreadableTexts(f'{place}, {field}: is missing or no string; give an object as in {{"text": "..."}}')
    return value
