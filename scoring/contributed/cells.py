"""Checks of single cells: what a row may hold. Each records what is wrong and then returns None."""

import math
import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scoring.contributed.columns import Unreadable
from scoring.contributed.report import Flaw, Problems, describe_value, shown_name

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet runs
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LARGEST = 2**31 - 1


class Text(Protocol):
    """A prompt or a sentence of an evaluation set."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...


class Cells:
    """The checks, for a set with these texts."""

    def __init__(self, texts: Sequence[Text], problems: Problems) -> None:
        self._problems = problems
        self._texts = [item.text for item in texts]
        self._numbers = {item.id: number for number, item in enumerate(texts)}

    def of_another_type(self, line: int, field: str, value: object, type_words: str) -> None:
        """Record that a cell holds something else."""
        if isinstance(value, Unreadable):
            self._problems.add(value.kind, line, field, value.value, value.remedy)
        else:
            self._problems.add(Flaw.TYPE, line, field, describe_value(value), f"give {type_words}")

    def number(self, line: int, field: str, identifier: object) -> int | None:
        """The place in the set of the text with this id."""
        if not isinstance(identifier, str):
            self.of_another_type(line, field, identifier, "the id as a string")
            return None
        number = self._numbers.get(identifier)
        if number is None:
            kind = Flaw.FOREIGN_ID
            if identifier.startswith(FORMULA):
                kind = Flaw.FORMULA
            elif _CONTROL.search(identifier):
                kind = Flaw.CONTROL
            self._problems.add(kind, line, field, shown_name(identifier), "use the ids of the template")
        return number

    def given_text(self, line: int, field: str, value: object, number: int) -> None:
        """Check that a prompt or sentence that stands beside its id, for people to read, is that of the id."""
        if value is None:
            return
        if not isinstance(value, str):
            self.of_another_type(line, field, value, "the template's string, or leave it out")
        elif value not in (self._texts[number], escape_text(self._texts[number])):
            remedy = "use the template's, byte for byte: outputs of another prompt do not count"
            self._problems.add(Flaw.OTHER_PROMPT, line, field, describe_value(value), remedy)

    def text(self, line: int, field: str, value: object) -> str | None:
        """What a model wrote; whatever it begins with, it is kept as it is."""
        if not isinstance(value, str):
            self.of_another_type(line, field, value, "a string")
            return None
        most = self._problems.limits.text_characters
        if len(value) > most:
            self._problems.add(Flaw.TOO_LONG, line, field, describe_value(value), f"give at most {most:,}")
        elif "\0" in value:
            self._problems.add(Flaw.NUL, line, field, describe_value(value), "write U+FFFD in its place")
        elif not _encodable(value):
            self._problems.add(Flaw.NOT_UNICODE, line, field, describe_value(value), "write U+FFFD in its place")
        else:
            return value
        return None

    def reason(self, line: int, field: str, value: object) -> str | None:
        """Why there is no output, in one line."""
        if not isinstance(value, str):
            self.of_another_type(line, field, value, "a string")
            return None
        add, description, most = self._problems.add, describe_value(value), self._problems.limits.reason_characters
        if value.startswith(FORMULA):
            add(Flaw.FORMULA, line, field, description, "begin with a letter: = + - @ begin a formula in spreadsheets")
        elif "\0" in value:
            add(Flaw.NUL, line, field, description, "leave it out")
        elif _CONTROL.search(value):
            add(Flaw.CONTROL, line, field, description, "write the reason in one line of plain text")
        elif len(value) > most:
            add(Flaw.TOO_LONG, line, field, description, f"give at most {most:,}")
        elif not value.strip():
            add(Flaw.EMPTY, line, field, description, "say why, such as: refused")
        elif not _encodable(value):
            add(Flaw.NOT_UNICODE, line, field, description, "write U+FFFD in its place")
        else:
            return value
        return None

    def whole(self, line: int, field: str, value: object, remedy: str) -> int | None:
        """A whole number from 0."""
        if isinstance(value, float) and not math.isfinite(value):
            self._problems.add(Flaw.NOT_FINITE, line, field, describe_value(value), remedy)
        elif isinstance(value, bool) or not isinstance(value, int):
            self.of_another_type(line, field, value, remedy.removeprefix("give "))
        elif value < 0:
            self._problems.add(Flaw.NEGATIVE, line, field, describe_value(value), remedy)
        elif value > _LARGEST:
            self._problems.add(Flaw.TOO_LARGE, line, field, describe_value(value), remedy)
        else:
            return value
        return None

    def log_likelihoods(self, line: int, field: str, value: object) -> NDArray[np.float32] | None:
        """One or more natural logarithms of probabilities, float32 [n]."""
        remedy = "a list of natural-log likelihoods, one a token"
        if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
            self.of_another_type(line, field, value, remedy)
            return None
        if len(value) > self._problems.limits.tokens:
            most = f"give at most {self._problems.limits.tokens:,} tokens"
            self._problems.add(Flaw.TOO_LONG, line, field, describe_value(value), most)
            return None
        try:
            with np.errstate(over="ignore"):
                likelihoods = np.array(value, np.float32)
        except OverflowError:  # a whole number beyond any float
            likelihoods = np.array([np.inf], np.float32)
        if not np.isfinite(likelihoods).all():
            token = f"token {int(np.argmin(np.isfinite(likelihoods))) + 1:,}"
            self._problems.add(Flaw.NOT_FINITE, line, field, token, "give a reason where there is no likelihood")
        elif (likelihoods > 0).any():
            token = f"token {int(np.argmax(likelihoods > 0)) + 1:,}"
            remedy = "give natural logarithms of probabilities, which are 0 or less"
            self._problems.add(Flaw.POSITIVE, line, field, token, remedy)
        else:
            return likelihoods
        return None


def escape_text(text: str) -> str:
    """A text as spreadsheets take it for one: with an apostrophe where it would begin a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def plain_reason(tool: str, text: str, most: int) -> str:
    """What a tool says of an output that is not there, as a reason."""
    return " ".join(f"{tool}: {_CONTROL.sub(' ', text)}".encode(errors="replace").decode().split())[:most]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
