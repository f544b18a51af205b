"""The files that a contributor fills in."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from scoring.contributed import generations, likelihoods
from scoring.contributed.cells import Text, escape_text

TemplateFormat = Literal["jsonl", "csv"]


def generations_template(prompts: Iterable[Text], k: int, kind: TemplateFormat) -> Iterator[str]:
    """Lines, with their ends, that have k rows for each prompt and no outputs yet.

    In CSV a prompt that a spreadsheet would run as a formula has an apostrophe before it. Models get the prompt
    without.
    """
    names = [column.name for column in generations.COLUMNS]
    rows = ((prompt.id, prompt.text, index, "", None, None, None) for prompt in prompts for index in range(k))
    return _lines(names, rows, kind)


def likelihoods_template(sentences: Iterable[Text], kind: TemplateFormat) -> Iterator[str]:
    """Lines, with their ends, that have a row for each sentence and no log-likelihoods yet."""
    names = [column.name for column in likelihoods.COLUMNS]
    none: list[float] = []
    return _lines(names, ((item.id, item.text, none, None) for item in sentences), kind)


def _lines(names: list[str], rows: Iterable[tuple[Any, ...]], kind: TemplateFormat) -> Iterator[str]:
    if kind == "jsonl":
        return (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    return _csv(names, rows)


def _csv(names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    line = _csv_line()
    yield line(names)
    for identifier, text, *rest in rows:
        yield line([identifier, escape_text(text), *("" if cell == [] else cell for cell in rest)])


def _csv_line() -> Callable[[Iterable[Any]], str]:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # ends lines as RFC 4180 has it

    def line(cells: Iterable[Any]) -> str:
        writer.writerow(cells)
        content = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return content

    return line
