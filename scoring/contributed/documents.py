"""A large JSON document, read as a stream: the members of its object, lists among them element by element."""

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from scoring.contributed import stream
from scoring.contributed.report import Flaw, Problems, shown_member

_DECODER = json.JSONDecoder()
_NEAR = 16  # characters: what follows may resolve an error so near to the end of what was read
_PART_OF_NUMBER = re.compile(r"[-+.0-9Ee]*\Z")


def members(file: BinaryIO, is_gzip: bool, problems: Problems) -> Iterator[tuple[str, int | None, Any]]:
    """Name, number and value of each element (from 1) of lists, and name, None and value of what is no list.

    Numbers may be NaN and Infinity, as Python writes them. Memory is that of one value, which may have line_bytes
    characters. Raises ContributionRefused where this is no JSON object.
    """
    document = _Document(stream.characters(stream.pieces(file, is_gzip, problems), problems), problems)
    document.take("{")
    if document.next() == "}":
        return
    while True:
        name = document.value(None)
        if not isinstance(name, str):
            document.stop("a member without a name")
        document.take(":")
        if document.next() == "[":
            yield from _elements(document, name)
        else:
            yield name, None, document.value(shown_member(name))
        if document.next() == "}":
            document.take("}")
            document.end()
            return
        document.take(",")


def _elements(document: "_Document", name: str) -> Iterator[tuple[str, int, Any]]:
    document.take("[")
    number = 0
    while document.next() != "]":
        if number:
            document.take(",")
        number += 1
        document.next()
        yield name, number, document.value(f"{shown_member(name)}, element {number:,}")
    document.take("]")


class _Document:
    """What was read and not taken yet."""

    def __init__(self, characters: Iterator[str], problems: Problems) -> None:
        self._characters, self._problems = characters, problems
        self._text, self._at, self._ended = "", 0, False

    def stop(self, finding: str, field: str | None = None) -> NoReturn:
        """Raises ContributionRefused: what stands here is not JSON, or not whole."""
        if self._ended and self._at >= len(self._text):
            self._problems.stop(Flaw.TRUNCATED, None, field, "JSON without its end", stream.SEND_AGAIN)
        self._problems.stop(Flaw.NOT_JSON, None, field, finding, "send the file as the tool wrote it")

    def _more(self, least: int = 1) -> bool:
        """Read until there are so many characters more; False where there are none."""
        new = []
        while least > 0 and not self._ended:
            piece = next(self._characters, None)
            self._ended = piece is None
            new.append(piece or "")
            least -= len(new[-1])
        self._text, self._at = self._text[self._at :] + "".join(new), 0
        return any(new)

    def next(self) -> str:
        """The next character that is not white; nothing at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, character: str) -> None:
        """Pass over a character. Raises ContributionRefused where another stands."""
        if self.next() != character:
            self.stop(f"{character} is missing")
        self._at += 1

    def end(self) -> None:
        """Raises ContributionRefused where anything follows."""
        if self.next():
            self.stop("something after its end")

    def value(self, field: str | None) -> Any:
        """The value that begins here. Raises ContributionRefused."""
        self.next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_unfinished = error.msg.startswith("Unterminated string") or error.pos > len(self._text) - _NEAR
                if not is_unfinished:
                    self.stop(error.msg, field)
            except (ValueError, RecursionError):  # Python's limits on digits and depth
                self.stop("nested too deeply, or a number too long", field)
            else:
                if self._ended or not _PART_OF_NUMBER.match(self._text, end):  # a number might go on: 1 is read of 1e
                    self._at = end
                    return value
            self._grow(field)

    def _grow(self, field: str | None) -> None:
        """Read as much again, that a long value is not decoded more than twice on average."""
        size, most = len(self._text) - self._at, self._problems.limits.line_bytes
        if size > most:
            remedy = "send a file whose records are shorter"
            self._problems.stop(Flaw.TOO_LONG, None, field, f"more than {most:,} characters in a record", remedy)
        if not self._more(max(1, size)):
            self._problems.stop(Flaw.TRUNCATED, None, field, "JSON without its end", stream.SEND_AGAIN)
