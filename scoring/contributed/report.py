"""What is wrong with a contributed file: counts of each kind of problem, and the first ones with place and remedy.

A report never shows a text, which may be offensive, but its length; of names only what looks like one.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NoReturn

from scoring.contributed.limits import Limits

_NAME = re.compile(r"[A-Za-z0-9._:/@-]{1,40}")
_LONGEST_SHOWN = 40


class Flaw(StrEnum):
    """Kinds of problems, each with words for a list of counts."""

    FORMAT = "another format than expected"
    NOT_GZIP = "damaged gzip"
    NOT_UTF8 = "not UTF-8"
    NOT_JSON = "not JSON"
    NOT_CSV = "not CSV"
    NOT_PARQUET = "not Parquet"
    NOT_ZIP = "not a zip file"
    TRUNCATED = "cut off"
    TOO_LARGE = "too large"
    BOMB = "decompression bomb"
    TOO_LONG = "too long"
    TOO_MANY_ROWS = "too many rows"
    NO_ROWS = "no rows"
    MISSING_COLUMN = "column missing"
    UNKNOWN_COLUMN = "unknown column"
    COLUMN_TWICE = "column named twice"
    CELLS = "wrong number of cells"
    TYPE = "wrong type"
    NESTED_TYPE = "nested type"
    EXTENSION_TYPE = "extension type"
    NOT_FINITE = "not a finite number"
    POSITIVE = "log-likelihood above 0"
    NEGATIVE = "negative number"
    INDEX = "index beyond the last"
    FOREIGN_ID = "id or prompt of another set"
    OTHER_PROMPT = "another prompt than that of the id"
    DUPLICATE = "given twice"
    TOO_MANY = "too many continuations"
    MISSING = "missing"
    EMPTY = "neither output nor reason"
    BOTH = "both output and reason"
    NUL = "NUL character"
    CONTROL = "control character"
    NOT_UNICODE = "half a surrogate pair"
    FORMULA = "spreadsheet formula"
    VERSION = "format version not supported"
    MIXED = "settings differ within the file"
    UNFINISHED = "not finished"
    PATH = "unsafe path"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: on which line, row or record (`unit`; numbered from 1; None: of the file), and in which field.

    `value` describes what was found there, `remedy` says what to do.
    """

    kind: Flaw
    unit: str
    line: int | None
    field: str | None
    value: str
    remedy: str

    def __str__(self) -> str:
        place = ", ".join(filter(None, [f"{self.unit} {self.line:,}" if self.line else None, self.field])) or "file"
        return f"{place}: {self.kind} ({self.value}); {self.remedy}"


@dataclass(frozen=True, slots=True)
class Matched:
    """Which prompts of a log are ours: matched exactly, or but for whitespace; and the log's prompts that are not."""

    prompts: int
    exact: int = 0
    but_for_whitespace: int = 0
    others: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Why a file was refused. `rows` were read; `complete`: to the end of the file, or only to the last problem."""

    rows: int
    complete: bool
    counts: dict[Flaw, int]
    problems: tuple[Problem, ...]  # the first ones
    matched: Matched | None = None  # of a log of a tool

    @property
    def total(self) -> int:
        """How many problems there are in all."""
        return sum(self.counts.values())

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**asdict(self), "problems": [asdict(problem) for problem in self.problems]}

    def __str__(self) -> str:
        counts = ", ".join(f"{kind}: {count:,}" for kind, count in self.counts.items())
        end = "" if self.complete else "; nothing after that was read"
        return "\n".join([f"{self.rows:,} rows read{end}. {counts}.", *map(str, self.problems)])


class ContributionRefused(Exception):
    """A contributed file is not taken in, in no part; `report` says why."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Problems:
    """Collects what is wrong while a file is read."""

    def __init__(self, limits: Limits, unit: str = "line") -> None:
        self.limits, self.unit = limits, unit
        self.rows, self._blank = 0, 0
        self.matched: Callable[[], Matched | None] = lambda: None
        self._counts: Counter[Flaw] = Counter()
        self._first: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: Flaw, line: int | None, field: str | None, value: str, remedy: str) -> None:
        """Record a problem that does not keep the rest from being read. Raises ContributionRefused at the most."""
        self._counts[kind] += 1
        if len(self._first) < self.limits.described:
            self._first.append(Problem(kind, self.unit, line, field, value, remedy))
        if self._counts.total() == self.limits.problems:
            raise self.refused(complete=False)

    def stop(self, kind: Flaw, line: int | None, field: str | None, value: str, remedy: str) -> NoReturn:
        """Record a problem after which nothing can be read. Raises ContributionRefused."""
        self.add(kind, line, field, value, remedy)
        raise self.refused(complete=False)

    def read_row(self) -> None:
        """Count a row. Raises ContributionRefused beyond the most rows."""
        if self.rows == self.limits.rows:
            self.stop(Flaw.TOO_MANY_ROWS, None, None, f"more than {self.limits.rows:,}", "send fewer rows")
        self.rows += 1

    def read_blank(self) -> None:
        """Count a blank line, which is passed over. Raises ContributionRefused beyond the most rows."""
        self._blank += 1
        if self._blank > self.limits.rows:
            self.stop(Flaw.TOO_MANY_ROWS, None, None, f"more than {self.limits.rows:,} blank lines", "leave them out")

    def refused(self, *, complete: bool = True) -> ContributionRefused:
        """The exception to raise, with all that was found so far."""
        counts = dict(self._counts)
        return ContributionRefused(Report(self.rows, complete, counts, tuple(self._first), self.matched()))

    def refuse(self) -> None:
        """Raise ContributionRefused where there is any problem."""
        if self:
            raise self.refused()


def describe_value(value: object) -> str:
    """A value of a file, without any text."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else _number(value)
    if isinstance(value, str):
        return f"a string of {len(value):,} characters"
    return f"a list of {len(value):,}" if isinstance(value, list) else "an object"


def _number(value: float) -> str:
    return "a very large number" if isinstance(value, int) and value.bit_length() > 64 else str(value)


def shown_name(name: object) -> str:
    """An id or the name of a column from a file, where it looks like one."""
    return repr(name) if isinstance(name, str) and _NAME.fullmatch(name) else describe_value(name)


def shown_member(name: str) -> str:
    """The name of a member of JSON, where it looks like one."""
    return name if _NAME.fullmatch(name) else describe_value(name)


def shown_id(identifier: str) -> str:
    """An id of ours, escaped and shortened."""
    text = ascii(identifier)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
