"""Continuations of a log put in the places of our prompts, which are found by their text."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from scoring.contributed.cells import Cells, Text, plain_reason
from scoring.contributed.places import Places
from scoring.contributed.report import Flaw, Matched, Problems, describe_value, shown_id
from scoring.contributed.tools.provenance import Decoding

FINISHES = {  # how tools name them; others are unknown
    "stop": "stop",
    "endoftext": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
}


class LoggedOutput(NamedTuple):
    """What a log has of one continuation; `error`: why it has no text."""

    text: object
    n_tokens: int | None = None
    finish: str | None = None
    error: str | None = None


class LogContinuations:
    """Collects the continuations of one log."""

    def __init__(self, tool: str, prompts: Sequence[Text], k: int, leave_out_others: bool, problems: Problems) -> None:
        self._tool, self._prompts, self._k, self._problems = tool, prompts, k, problems
        self._leave_out_others = leave_out_others
        self._cells = Cells(prompts, problems)
        self._places = Places("continuations", [prompt.id for prompt in prompts], k, problems)
        self._exact: dict[str, list[int]] = {}
        self._loose: dict[str, list[int]] = {}
        for number, prompt in enumerate(prompts):
            self._exact.setdefault(prompt.text, []).append(number)
            self._loose.setdefault(_loose(prompt.text), []).append(number)
        self._of_key: dict[tuple[str, object], int] = {}  # a prompt's place, by its text and the log's own key
        self._given: dict[str, int] = {}  # to how many keys of the log the prompts with a text were given
        self._found = {True: set[int](), False: set[int]()}  # matched exactly, or but for whitespace
        self._others: set[int] = set()  # hashes of the texts
        self._reworded: set[int] = set()
        self._decoding: Decoding | None = None
        problems.matched = self.matched

    def take(
        self,
        line: int,
        key: object,
        prompt: object,
        outputs: Sequence[LoggedOutput],
        first: int = 0,
        is_reworded: bool = False,
    ) -> None:
        """Take the outputs of a prompt from index `first`.

        `key` tells the log's own prompts apart, where several have one text. `is_reworded`: the model got other words.
        """
        if not isinstance(prompt, str):
            self._cells.of_another_type(line, "prompt", prompt, "the file as the tool wrote it")
            return
        number = self._number(line, key, prompt)
        if number is None:
            return
        if is_reworded:
            self._reworded.add(number)
        if first + len(outputs) > self._k:
            index_words = f"{shown_id(self._prompts[number].id)}: {first + len(outputs):,} of {self._k}"
            self._problems.add(Flaw.TOO_MANY, line, None, index_words, "choose a protocol of as many")
            return
        for index, output in enumerate(outputs, start=first):
            row = self._row(line, output)
            if self._places.take(line, "prompt", number, index):
                self._places.fill(number, index, row, len(row[0] or ""))

    def drawn(self, line: int, decoding: Decoding) -> None:
        """Note how the outputs of a record were drawn: all in a file the same way."""
        if self._decoding is None:
            self._decoding = decoding
        elif self._decoding != decoding:
            self._problems.add(
                Flaw.MIXED, line, None, "another decoding than before", "send one file for each protocol"
            )

    @property
    def decoding(self) -> Decoding:
        """How the outputs were drawn."""
        return self._decoding or Decoding()

    @property
    def reworded(self) -> int:
        """How many prompts were given to the model with other words around them."""
        return len(self._reworded)

    def matched(self) -> Matched:
        """How many prompts were found so far."""
        exact, loose = self._found[True], self._found[False] - self._found[True]
        return Matched(len(self._prompts), len(exact), len(loose), len(self._others))

    def table(self) -> pa.Table:
        """All continuations. Raises ContributionRefused where one is missing or anything is wrong."""
        return self._places.table()

    def _number(self, line: int, key: object, text: str) -> int | None:
        """The place of a prompt in our set."""
        exact = text in self._exact
        pool = self._exact[text] if exact else self._loose.get(_loose(text))
        if pool is None:
            self._others.add(hash(text))
            if not self._leave_out_others:
                remedy = "send the outputs of this set's prompts alone, or leave the others out"
                self._problems.add(Flaw.FOREIGN_ID, line, "prompt", describe_value(text), remedy)
            return None
        prompt_text = text if exact else _loose(text)
        number = self._of_key.get((prompt_text, key))
        if number is None:
            count = self._given.get(prompt_text, 0)
            number = pool[count % len(pool)]
            self._given[prompt_text] = count + 1
            self._of_key[prompt_text, key] = number
        self._found[exact].add(number)
        return number

    def _row(self, line: int, output: LoggedOutput) -> tuple[Any, ...]:
        most = self._problems.limits.reason_characters
        if output.error is not None:
            return None, output.n_tokens, None, plain_reason(self._tool, output.error, most), False, None
        if output.text in ("", None):
            return None, output.n_tokens, None, plain_reason(self._tool, "no text", most), False, None
        text = self._cells.text(line, "text", output.text)
        return text, output.n_tokens, FINISHES.get(output.finish or ""), None, False, None


def _loose(text: str) -> str:
    return " ".join(text.split())
