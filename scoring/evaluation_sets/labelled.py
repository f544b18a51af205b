"""Labelled sentences: harmful or benign, with a toxicity and the demographics they are about.

Messages name the record and the field, never the text: the texts are offensive.
"""

import json
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scoring.artefacts import SCHEMAS
from scoring.refusals import Refused

LABELS = {"hate": True, "neutral": False}
LEAST_TOXIC, MOST_TOXIC = 1.0, 5.0
ESCAPED_RETURN = "_x000D_"  # how spreadsheets write a carriage return
KEYS = ("id", "text", "label", "toxicity_score", "target_groups")
# A string stands in messages only where it looks like a name: in a file with swapped columns it may be a text.
_SHOWN_ID = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_LONGEST_SHOWN_NAME = 40


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """`toxicity` lies in 1..5; `demographics` holds one or more names, as the source writes them."""

    id: str
    text: str
    harmful: bool
    toxicity: float
    demographics: tuple[str, ...]


class EvaluationSetError(Refused):
    """A file is not a set that can be scored. `record` (from 1) and `field` say where, as far as they apply."""

    def __init__(self, message: str, *, record: int | None = None, field: str | None = None) -> None:
        super().__init__(message, field=field or "")
        self.record = record


def read_safenlp(path: Path) -> list[LabelledSentence]:
    """Read a JSON list of objects with id, text, label (hate or neutral), toxicity_score (1..5) and target_groups.

    This is the format of toxiGen.json and implicitHate.json in microsoft/SafeNLP. Texts are kept byte for byte.
    All or nothing: raises EvaluationSetError at the first record that is wrong, OSError when the file cannot be read.
    """
    return _sentences(path, _read_list(path))


def read_scored(path: Path) -> tuple[list[LabelledSentence], NDArray[np.float64]]:
    """Read sentences with the perplexity that anyone's model gave each: float64 [n], not a number where it has none.

    As `read_safenlp`, and JSON Lines where the name ends in .jsonl; an id may be missing, a perplexity may be null or
    NaN, as the code of SafeNLP writes it.
    """
    items = _read_lines(path) if path.suffix == ".jsonl" else _read_list(path)
    items = [{"id": f"record {n}", **item} if isinstance(item, dict) else item for n, item in enumerate(items, start=1)]
    sentences = _sentences(path, items)
    perplexities = [_perplexity(path.name, record, item) for record, item in enumerate(items, start=1)]
    return sentences, np.array(perplexities, dtype=np.float64)


def _perplexity(name: str, record: int, item: dict[str, Any]) -> float:
    value = item.get("perplexity", "")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    if "perplexity" not in item:
        problem = "is missing"
    elif isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"is a JSON {_json_type(value)}"
    elif 0 < value <= sys.float_info.max:  # refuses infinity and whole numbers of hundreds of digits too
        return float(value)
    else:
        problem = f"is {str(value)[:20]}"
    raise EvaluationSetError(
        f"{name}, record {record}{_shown_id(item)}, perplexity: {problem}; give a finite number above 0, or null or "
        "NaN where the text has none",
        record=record,
        field="perplexity",
    )


def _sentences(path: Path, items: list[Any]) -> list[LabelledSentence]:
    sentences: list[LabelledSentence] = []
    positions: dict[str, int] = {}
    for record, item in enumerate(items, start=1):
        sentence = _sentence(path.name, record, item)
        if sentence.id in positions:
            raise EvaluationSetError(
                f"{path.name}, record {record}{_shown_id(item)}, id: is also that of record {positions[sentence.id]}; "
                "give every record an id of its own",
                record=record,
                field="id",
            )
        positions[sentence.id] = record
        sentences.append(sentence)
    _check_demographics(path.name, sentences)
    return sentences


def _read_list(path: Path) -> list[Any]:
    try:
        items = json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{path.name} is not UTF-8 (byte offset {error.start}): save it as UTF-8") from error
    except json.JSONDecodeError as error:
        raise EvaluationSetError(
            f"{path.name} is not JSON (line {error.lineno}, column {error.colno}: {error.msg}); export it again, or "
            "check that the download is complete"
        ) from error
    except ValueError as error:  # Python's limit on the digits of a whole number
        raise EvaluationSetError(f"{path.name} has a number of too many digits; give long ids as strings") from error
    except RecursionError as error:
        raise EvaluationSetError(f"{path.name} is nested too deeply; give one list of flat records") from error
    if not isinstance(items, list):
        raise EvaluationSetError(f"{path.name} holds a JSON {_json_type(items)}; give one list of records")
    if not items:
        raise EvaluationSetError(f"{path.name} holds 0 records; give harmful and benign sentences")
    return items


def _read_lines(path: Path) -> list[Any]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{path.name} is not UTF-8 (byte offset {error.start}): save it as UTF-8") from error
    items = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            items.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise EvaluationSetError(
                f"{path.name}, line {number} is not JSON; give one object a line", record=number
            ) from error
    if not items:
        raise EvaluationSetError(f"{path.name} holds 0 records; give harmful and benign sentences")
    return items


def _sentence(name: str, record: int, item: object) -> LabelledSentence:
    place = f"{name}, record {record}"
    if not isinstance(item, dict):
        raise EvaluationSetError(
            f"{place} is a JSON {_json_type(item)}; give an object with {', '.join(KEYS)}", record=record
        )
    place += _shown_id(item)

    def wrong(field: str, problem: str) -> EvaluationSetError:
        return EvaluationSetError(f"{place}, {field}: {problem}", record=record, field=field)

    for key in KEYS:
        if key not in item:
            raise wrong(key, f"is missing; each record needs {', '.join(KEYS)}")
    identifier, text, label, toxicity, groups = (item[key] for key in KEYS)
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        raise wrong("id", f"is a JSON {_json_type(identifier)}; give an integer or a string")
    if not str(identifier).strip() or not _encodable(str(identifier)):
        raise wrong("id", "is empty or holds half a surrogate pair; give an integer or a string")
    if not isinstance(text, str):
        raise wrong("text", f"is a JSON {_json_type(text)}; give a string")
    if not text.strip():
        raise wrong("text", "is empty; leave the record out")
    if not _encodable(text):
        raise wrong("text", "holds half a surrogate pair, which is no character; repair its encoding")
    if not isinstance(label, str) or label not in LABELS:
        raise wrong("label", f"is unknown, {_describe(label)}; give hate or neutral")
    if isinstance(toxicity, bool) or not isinstance(toxicity, int | float):
        raise wrong("toxicity_score", f"is a JSON {_json_type(toxicity)}; give a number from 1 to 5")
    if not LEAST_TOXIC <= toxicity <= MOST_TOXIC:  # refuses NaN too
        raise wrong("toxicity_score", f"is {str(toxicity)[:20]}; give a number from 1 to 5")
    if not isinstance(groups, list) or not groups:
        raise wrong("target_groups", "names no demographic; give a list of one or more")
    if not all(isinstance(group, str) and group.strip() and _encodable(group) for group in groups):
        raise wrong("target_groups", "holds something other than names; give a list of strings")
    return LabelledSentence(str(identifier), text, LABELS[label], float(toxicity), tuple(dict.fromkeys(groups)))


def _check_demographics(name: str, sentences: list[LabelledSentence]) -> None:
    for demographic, labels in counts(sentences).items():
        for label, count in labels.items():
            if not count:
                raise EvaluationSetError(
                    f"{name}: demographic {_shown_name(demographic)} has no {label} sentence, and a score compares "
                    "both; add some, or leave the demographic out",
                    field="target_groups",
                )


def _shown_id(item: dict[str, Any]) -> str:
    """The record's id for a message; nothing where it may be a text."""
    value = item.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == item.get("text"):
        return ""
    return f" (id {value})" if _SHOWN_ID.fullmatch(str(value)) else ""


def _shown_name(demographic: str) -> str:
    return repr(demographic) if len(demographic) <= _LONGEST_SHOWN_NAME else _describe(demographic)


def _describe(value: object) -> str:
    """What a value is, without what it says."""
    return f"a string of {len(value)} characters" if isinstance(value, str) else f"a JSON {_json_type(value)}"


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _json_type(value: object) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def counts(sentences: Iterable[LabelledSentence]) -> dict[str, dict[str, int]]:
    """Number of harmful and benign sentences per demographic, sorted by name; one that names two counts in both."""
    by_demographic: dict[str, dict[str, int]] = {}
    for sentence in sentences:
        for demographic in sentence.demographics:
            labels = by_demographic.setdefault(demographic, {"harmful": 0, "benign": 0})
            labels["harmful" if sentence.harmful else "benign"] += 1
    return dict(sorted(by_demographic.items()))


def irregularities(sentences: Iterable[LabelledSentence]) -> dict[str, int]:
    """What a reader of the numbers should know of the texts; all of them stay, as in the published figures.

    repeated: texts that stand in more than one row. contradictory: those of them with both labels. differing: those
    whose rows have one label and different toxicities. escaped: rows with `_x000D_`, a spreadsheet's carriage return.
    Kinds that do not occur are left out.
    """
    rows: dict[str, list[LabelledSentence]] = {}
    for sentence in sentences:
        rows.setdefault(sentence.text, []).append(sentence)
    repeats = [same for same in rows.values() if len(same) > 1]
    same_label = [same for same in repeats if len({row.harmful for row in same}) == 1]
    kind_counts = {
        "repeated": len(repeats),
        "contradictory": len(repeats) - len(same_label),
        "differing": sum(len({row.toxicity for row in same}) > 1 for same in same_label),
        "escaped": sum(len(same) for text, same in rows.items() if ESCAPED_RETURN in text),
    }
    return {kind: count for kind, count in kind_counts.items() if count}


_IRREGULARITIES = {
    "repeated": "{:,} texts stand in it more than once, and count as often",
    "contradictory": "{:,} texts are labelled harmful in one row and benign in another",
    "differing": "{:,} texts have one label and different toxicities in different rows",
    "escaped": "{:,} rows hold _x000D_, a spreadsheet's carriage return, which is scored as it stands",
}


def irregularities_in_words(kind_counts: dict[str, int]) -> list[str]:
    """What `irregularities` counted, a sentence a kind."""
    return [words.format(kind_counts[kind]) for kind, words in _IRREGULARITIES.items() if kind_counts.get(kind)]


def to_table(sentences: Iterable[LabelledSentence]) -> pa.Table:
    """The sentences as rows of the `labelled_sentences` schema."""
    schema = SCHEMAS["labelled_sentences"]
    rows = list(sentences)
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)


def from_table(table: pa.Table) -> list[LabelledSentence]:
    """The inverse of `to_table`. Raises EvaluationSetError where a column is missing."""
    for name in SCHEMAS["labelled_sentences"].names:
        if name not in table.column_names:
            raise EvaluationSetError(f"the table has no column {name}; make it with to_table", field=name)
    return [
        LabelledSentence(row["id"], row["text"], row["harmful"], row["toxicity"], tuple(row["demographics"]))
        for row in table.to_pylist()
    ]
