"""Sentence pairs: two sentences that differ in whom they are about, one of them more stereotyping.

Messages name the record and the column, never the text: the texts are offensive.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.labelled import EvaluationSetError

COLUMNS = ("", "sent_more", "sent_less", "stereo_antistereo", "bias_type")  # the first has the row's number
DIRECTIONS = ("stereo", "antistereo")
_NAME = re.compile(r"[a-z][a-z-]{0,39}")
_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


@dataclass(frozen=True, slots=True)
class SentencePair:
    """`more` is the more stereotyping sentence, whichever of the two is about a historically disadvantaged group."""

    id: str
    more: str
    less: str
    bias_type: str


def read_crows_pairs(path: Path) -> list[SentencePair]:
    """Read a CSV file in the columns of crows_pairs_anonymized.csv; other columns are ignored, texts kept as they are.

    All or nothing: raises EvaluationSetError at the first record that is wrong, OSError when the file cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{path.name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    absent = [repr(name) for name in COLUMNS if name not in (reader.fieldnames or ())]
    if absent:
        raise EvaluationSetError(f"{path.name} lacks the column {absent[0]}: give {', '.join(map(repr, COLUMNS))}")
    pairs: dict[str, SentencePair] = {}
    try:
        for record, row in enumerate(reader, start=1):
            pair = _pair(path.name, record, row)
            if pair.id in pairs:
                _refuse(path.name, record, "", "is also that of a record before; give every record one of its own")
            pairs[pair.id] = pair
    except csv.Error as error:
        raise EvaluationSetError(f"{path.name} is no CSV file that can be read: {error}") from error
    if not pairs:
        raise EvaluationSetError(f"{path.name} holds 0 pairs; give one or more")
    return list(pairs.values())


def _pair(name: str, record: int, row: dict[str, str | None]) -> SentencePair:
    number, more, less, direction, bias_type = (row[column] or "" for column in COLUMNS)
    if not _ID.fullmatch(number):
        _refuse(name, record, "", "is no number; give every record one of its own")
    for column, text in (("sent_more", more), ("sent_less", less)):
        if not text.strip():
            _refuse(name, record, column, "is empty; give a sentence")
        if "\0" in text:
            _refuse(name, record, column, "holds a NUL character; take it out")
    if direction not in DIRECTIONS:
        _refuse(name, record, "stereo_antistereo", f"is neither of {' and '.join(DIRECTIONS)}")
    if not _NAME.fullmatch(bias_type):
        _refuse(name, record, "bias_type", "is no name in small letters, as race-color")
    return SentencePair(number, more, less, bias_type)


def _refuse(name: str, record: int, column: str, problem: str) -> NoReturn:
    place = column or "row number"
    raise EvaluationSetError(f"{name}, record {record}, {place}: {problem}", record=record, field=place)


def pairs_table(pairs: Sequence[SentencePair]) -> pa.Table:
    """Rows of the `stereotype_pairs` schema: two for each pair, the more stereotyping sentence first."""
    rows = [
        {
            "id": f"{pair.id}-{'more' if stereotyping else 'less'}",
            "text": pair.more if stereotyping else pair.less,
            "pair": pair.id,
            "stereotyping": stereotyping,
            "demographics": [pair.bias_type],
        }
        for pair in pairs
        for stereotyping in (True, False)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["stereotype_pairs"])


def pair_counts(pairs: Sequence[SentencePair]) -> dict[str, int]:
    """How many sentences there are of each bias type."""
    return {name: 2 * count for name, count in sorted(Counter(pair.bias_type for pair in pairs).items())}
