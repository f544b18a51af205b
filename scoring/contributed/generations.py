"""Continuations of our prompts that somebody else's model wrote."""

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from scoring.contributed.cells import Cells, Text
from scoring.contributed.columns import Column
from scoring.contributed.limits import Limits
from scoring.contributed.places import Places
from scoring.contributed.report import Flaw, Problems, describe_value
from scoring.contributed.rows import rows

FINISHES = ("stop", "length")  # at the end of text, at the most tokens
COLUMNS = (
    Column("prompt_id", required=True),
    Column("prompt"),  # for people to read, as the template has it
    Column("index", "whole", required=True),
    Column("text"),
    Column("finish"),
    Column("n_tokens", "whole"),
    Column("error"),  # why there is no text
)
SAY_WHY = "give the text, or say in `error` why there is none, such as: refused, or: ended at once"


def read_generations(
    file: BinaryIO, name: str, prompts: Sequence[Text], k: int, limits: Limits | None = None
) -> pa.Table:
    """Rows of the `continuations` schema from a seekable file, in the order of the prompts; its name says the format.

    JSON lines (.jsonl), CSV (.csv), each also with .gz, or Parquet (.parquet), with the columns `prompt_id`, `index`
    (0 to k - 1), and `text` or `error`; if known `finish` (stop or length) and `n_tokens`; and from the template
    `prompt`. Each prompt has k rows, in any order. All or nothing: raises ContributionRefused, whose report counts
    what is wrong.
    """
    problems = Problems(limits or Limits())
    places = Places("continuations", [prompt.id for prompt in prompts], k, problems)
    reader = _Generations(Cells(prompts, problems), places, k, problems)
    for line, cells in rows(file, name, COLUMNS, problems):
        reader.row(line, cells)
    return places.table()


class _Generations:
    def __init__(self, cells: Cells, places: Places, k: int, problems: Problems) -> None:
        self._cells, self._places, self._k, self._problems = cells, places, k, problems

    def row(self, line: int, cells: dict[str, Any]) -> None:
        """Check a row and put it in its place."""
        number = self._cells.number(line, "prompt_id", cells.get("prompt_id"))
        index = self._index(line, cells.get("index"))
        if number is not None:
            self._cells.given_text(line, "prompt", cells.get("prompt"), number)
        row = self._output(line, cells)
        if number is not None and index is not None and self._places.take(line, "index", number, index):
            self._places.fill(number, index, row, len(row[0] or ""))

    def _index(self, line: int, value: object) -> int | None:
        index = self._cells.whole(line, "index", value, f"give a whole number from 0 to {self._k - 1}")
        if index is None or index < self._k:
            return index
        remedy = f"give {self._k} continuations of each prompt, numbered from 0 to {self._k - 1}"
        self._problems.add(Flaw.INDEX, line, "index", describe_value(index), remedy)
        return None

    def _output(self, line: int, cells: dict[str, Any]) -> tuple[Any, ...]:
        """The rest of a row of the schema."""
        text, error = cells.get("text"), cells.get("error")
        finish, n_tokens = cells.get("finish"), cells.get("n_tokens")
        if text in ("", None) and error in ("", None):
            self._problems.add(Flaw.EMPTY, line, "text", "empty", SAY_WHY)
            text = error = None
        elif text not in ("", None) and error not in ("", None):
            self._problems.add(Flaw.BOTH, line, "error", describe_value(error), "leave one of `text` and `error` empty")
        elif text not in ("", None):
            text, error = self._cells.text(line, "text", text), None
        else:
            text, error = None, self._cells.reason(line, "error", error)
        if n_tokens is not None:
            n_tokens = self._cells.whole(line, "n_tokens", n_tokens, "give a whole number from 0, or leave it out")
        if finish not in ("", None, *FINISHES):
            remedy = "stop, length, or nothing; what was withheld has no text but an `error`"
            self._cells.of_another_type(line, "finish", finish, remedy)
        return text, n_tokens, finish or None, error, False, None
