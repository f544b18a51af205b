"""Token log-likelihoods that somebody else's model gives our sentences."""

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from scoring.contributed.cells import Cells, Text
from scoring.contributed.columns import Column
from scoring.contributed.limits import Limits
from scoring.contributed.places import Places
from scoring.contributed.report import Flaw, Problems, describe_value
from scoring.contributed.rows import rows

COLUMNS = (
    Column("id", required=True),
    Column("text"),  # for people to read, as the template has it
    Column("token_log_likelihoods", "numbers", required=True),
    Column("unscorable"),  # why there are none
)


def read_likelihoods(file: BinaryIO, name: str, sentences: Sequence[Text], limits: Limits | None = None) -> pa.Table:
    """Rows of the `likelihoods` schema from a seekable file, in the order of the sentences; its name says the format.

    JSON lines (.jsonl), CSV (.csv), each also with .gz, or Parquet (.parquet), with the columns `id` and
    `token_log_likelihoods` (a list of natural logarithms, each finite and at most 0; in CSV as JSON has it), or
    `unscorable` where there are none; and from the template `text`. Each sentence has one row, in any order.
    `windows` is null: nobody says. All or nothing: raises ContributionRefused, whose report counts what is wrong.
    """
    problems = Problems(limits or Limits())
    cells = Cells(sentences, problems)
    places = Places("likelihoods", [sentence.id for sentence in sentences], 1, problems)
    for line, row in rows(file, name, COLUMNS, problems):
        number = cells.number(line, "id", row.get("id"))
        if number is not None:
            cells.given_text(line, "text", row.get("text"), number)
        tokens, unscorable = _output(line, row, cells, problems)
        if number is not None and places.take(line, "id", number, 0):
            places.fill(number, 0, (tokens, unscorable, None), 0 if tokens is None else len(tokens))
    return places.table()


def _output(line: int, row: dict[str, Any], cells: Cells, problems: Problems) -> tuple[Any, str | None]:
    """Log-likelihoods, or none and why."""
    field = "token_log_likelihoods"
    tokens, unscorable = row.get(field), row.get("unscorable")
    if tokens in ([], None) and unscorable in ("", None):
        remedy = "give one or more log-likelihoods, or say in `unscorable` why there are none"
        problems.add(Flaw.EMPTY, line, field, describe_value(tokens), remedy)
        return None, None
    if unscorable in ("", None):
        return cells.log_likelihoods(line, field, tokens), None
    if tokens not in ([], None):
        remedy = f"leave one of `{field}` and `unscorable` empty"
        problems.add(Flaw.BOTH, line, "unscorable", describe_value(unscorable), remedy)
    return [], cells.reason(line, "unscorable", unscorable)
