"""Prompts for a language model to go on from, with the scores that were published with them.

Messages name the line or record and the field, never the text: the texts are offensive.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.labelled import EvaluationSetError, _describe, _encodable, _json_type, _shown_id

PUBLISHED_SCORER = "perspective"  # whose scores come with prompts
# Its attributes, as RealToxicityPrompts names them.
ATTRIBUTES = (
    "toxicity",
    "severe_toxicity",
    "identity_attack",
    "insult",
    "profanity",
    "threat",
    "sexually_explicit",
    "flirtation",
)
POSITION = ("filename", "begin", "end")  # where RealToxicityPrompts took a sentence from: together they identify it
LONGEST_LINE = 2**20  # bytes


@dataclass(frozen=True, slots=True)
class PublishedContinuation:
    """How the sentence that a prompt was cut from went on, with its published scores (0..1, None where unknown)."""

    text: str
    scores: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """`group`: its demographic or domain, where the set has one. `scores`: published, by attribute, 0..1 or None.

    `challenging`: whether RealToxicityPrompts lists it among those that led every model they tried to toxicity.
    """

    id: str
    text: str
    group: str | None = None
    scores: dict[str, float | None] = field(default_factory=dict)
    challenging: bool | None = None
    published: PublishedContinuation | None = None


def read_prompts(path: Path) -> list[Prompt]:
    """Read a folder of BOLD, a CSV file (ending in .csv), or JSON lines.

    A JSON line is a record of RealToxicityPrompts (`prompt` and `continuation` are objects with a text and scores, and
    `filename`, `begin` and `end` make the id), or a flat one: `prompt` or `text`, and where there are such, `id`,
    `group`, `challenging` and scores named as in ATTRIBUTES. CSV has the same columns. Other keys are ignored. Records
    without an id are numbered from 1. Texts are kept byte for byte.

    All or nothing: raises EvaluationSetError at the first record that is wrong, OSError when a file cannot be read.
    """
    if path.is_dir():
        return read_bold(path)
    records = _csv_records(path) if path.suffix.lower() == ".csv" else _json_lines(path)
    prompts = _distinct(_prompt(place, number, item) for number, (place, item) in enumerate(records, start=1))
    if not prompts:
        raise EvaluationSetError(f"{path.name} holds 0 prompts; give one or more")
    return prompts


def read_bold(folder: Path) -> list[Prompt]:
    """Read the files `<domain>_prompt.json` of BOLD, each {subgroup: {entity: [prompt, ...]}}, in order of name.

    `group` is the subgroup; ids are domain/subgroup/entity/number. Empty strings are left out: five of the 23,679
    published prompts are. Raises as `read_prompts` does.
    """
    prompts: list[tuple[str, int, Prompt]] = []
    paths = sorted(folder.glob("*_prompt.json"))
    if not paths:
        raise EvaluationSetError(f"{folder.name} holds no file named *_prompt.json; give the folder prompts of BOLD")
    for path in paths:
        domain = path.name.removesuffix("_prompt.json")
        record = 0
        for subgroup, entities in _check_names(path.name, _json(path.name, path.read_bytes()), "subgroups"):
            for entity, texts in _check_names(path.name, entities, "entities"):
                if not isinstance(texts, list):
                    raise EvaluationSetError(f"{path.name}: an entity holds a JSON {_json_type(texts)}; give a list")
                for number, text in enumerate(texts, start=1):
                    record += 1
                    if text == "":
                        continue
                    place = f"{path.name}, record {record}"
                    prompt_text = _text(place, record, "text", text)
                    prompt = Prompt(f"{domain}/{subgroup}/{entity}/{number}", prompt_text, group=subgroup)
                    prompts.append((place, record, prompt))
    if not prompts:
        raise EvaluationSetError(f"{folder.name} holds 0 prompts; give one or more")
    return _distinct(prompts)


def _check_names(name: str, value: object, noun: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise EvaluationSetError(f"{name}: {noun} are a JSON {_json_type(value)}; give an object of {noun} by name")
    if not all(key.strip() and _encodable(key) for key in value):
        raise EvaluationSetError(f"{name}: one of the {noun} has an empty name; name it")
    return value.items()


def _distinct(numbered_prompts: Iterable[tuple[str, int, Prompt]]) -> list[Prompt]:
    """The prompts, if each has an id of its own."""
    prompts: list[Prompt] = []
    positions: dict[str, int] = {}
    for place, record, prompt in numbered_prompts:
        if prompt.id in positions:
            raise EvaluationSetError(
                f"{place}, id: is also that of record {positions[prompt.id]}; give every record an id of its own",
                record=record,
                field="id",
            )
        positions[prompt.id] = record
        prompts.append(prompt)
    return prompts


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield where each line stands and what it holds, one at a time; blank lines are passed over."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            place = f"{path.name}, line {number}"
            if len(line) > LONGEST_LINE:
                raise EvaluationSetError(f"{place} is longer than {LONGEST_LINE} bytes; give one record a line")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.strip():
                yield place, _json(place, line)


def _json(place: str, content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{place} is not UTF-8 (byte offset {error.start}): save it as UTF-8") from error
    except json.JSONDecodeError as error:
        raise EvaluationSetError(
            f"{place} is not JSON (column {error.colno}: {error.msg}); give one JSON object a line, or check that the "
            "download is complete"
        ) from error
    except ValueError as error:  # Python's limit on the digits of a whole number
        raise EvaluationSetError(f"{place} has a number of too many digits; give long ids as strings") from error
    except RecursionError as error:
        raise EvaluationSetError(f"{place} is nested too deeply; give flat records") from error


def _csv_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield where each row stands and its cells by column; empty cells are left out, scores are numbers."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            if len(set(header)) < len(header):
                raise EvaluationSetError(f"{path.name} names a column twice; give each a name of its own")
            for cells in rows:
                place = f"{path.name}, line {rows.line_num}"
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise EvaluationSetError(f"{place} has {len(cells)} cells under {len(header)} columns; correct it")
                yield place, {name: _cell(name, cell) for name, cell in zip(header, cells, strict=True) if cell}
        except UnicodeDecodeError as error:
            raise EvaluationSetError(f"{path.name} is not UTF-8 (byte offset {error.start}): save it so") from error
        except csv.Error as error:
            raise EvaluationSetError(f"{path.name}, line {rows.line_num} is not CSV: {error}") from error


def _cell(name: str, cell: str) -> object:
    """A cell's value as JSON would have it."""
    if name == "challenging" and cell.casefold() in ("true", "false"):
        return cell.casefold() == "true"
    if name in ATTRIBUTES:
        try:
            return float(cell)
        except ValueError:
            return cell  # refused where scores are checked
    return cell


def _prompt(place: str, record: int, item: object) -> tuple[str, int, Prompt]:
    """Where the record stands, its number, and the prompt in it."""
    if not isinstance(item, dict):
        raise EvaluationSetError(f"{place} is a JSON {_json_type(item)}; give an object with prompt", record=record)
    place += _shown_id({"id": item.get("id"), "text": item.get("prompt", item.get("text"))})
    key = "prompt" if "prompt" in item else "text"
    if key not in item:
        raise _wrong(place, record, "prompt", "is missing; each record needs prompt or text")
    is_nested = isinstance(item[key], dict)
    is_challenging = item.get("challenging")
    if is_challenging is not None and not isinstance(is_challenging, bool):
        raise _wrong(place, record, "challenging", f"is a JSON {_json_type(is_challenging)}; give true or false")
    text, scores = (
        _read_scored(place, record, key, item[key]) if is_nested else (item[key], _scores(place, record, "", item))
    )
    prompt = Prompt(
        id=_id(place, record, item),
        text=_text(place, record, f"{key}.text" if is_nested else key, text),
        group=_group(place, record, item.get("group")),
        scores=scores,
        challenging=is_challenging,
        published=_read_published(place, record, item.get("continuation")) if is_nested else None,
    )
    return place, record, prompt


def _id(place: str, record: int, item: dict[str, Any]) -> str:
    if "id" in item:
        identifier = item["id"]
        if isinstance(identifier, bool) or not isinstance(identifier, str | int):
            raise _wrong(place, record, "id", f"is a JSON {_json_type(identifier)}; give an integer or a string")
        if not str(identifier).strip() or not _encodable(str(identifier)):
            raise _wrong(place, record, "id", "is empty or holds half a surrogate pair; give an integer or a string")
        return str(identifier)
    if not any(name in item for name in POSITION):
        return str(record)
    for name, kind in zip(POSITION, (str, int, int), strict=True):
        if name not in item:
            raise _wrong(place, record, name, f"is missing; {', '.join(POSITION)} identify a record without an id")
        value = item[name]
        if isinstance(value, bool) or not isinstance(value, kind) or not _encodable(str(value)):
            type_words = "a name" if kind is str else "a whole number"
            raise _wrong(place, record, name, f"is {_describe(value)}; give {type_words}")
    return f"{item['filename']}:{item['begin']}-{item['end']}"


def _group(place: str, record: int, group: object) -> str | None:
    if group is None:
        return None
    if not isinstance(group, str) or not group.strip() or not _encodable(group):
        raise _wrong(place, record, "group", f"is {_describe(group)}; give a name, or leave it out")
    return group


def _read_published(place: str, record: int, continuation: object) -> PublishedContinuation | None:
    if continuation is None:
        return None
    if not isinstance(continuation, dict):
        description = _describe(continuation)
        raise _wrong(place, record, "continuation", f"is {description}; give an object with text, or leave it out")
    text, scores = _read_scored(place, record, "continuation", continuation)
    return PublishedContinuation(_text(place, record, "continuation.text", text), scores)


def _read_scored(place: str, record: int, key: str, item: dict[str, Any]) -> tuple[object, dict[str, float | None]]:
    """The text of an object of RealToxicityPrompts, not checked yet, and its scores."""
    if "text" not in item:
        raise _wrong(place, record, f"{key}.text", "is missing; give a string")
    return item["text"], _scores(place, record, f"{key}.", item)


def _scores(place: str, record: int, prefix: str, item: dict[str, Any]) -> dict[str, float | None]:
    scores: dict[str, float | None] = {}
    for name in ATTRIBUTES:
        if name not in item:
            continue
        value = item[name]
        if value is None:
            scores[name] = None
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(place, record, prefix + name, f"is {_describe(value)}; give a number from 0 to 1, or null")
        if not 0 <= value <= 1:  # refuses NaN too
            raise _wrong(place, record, prefix + name, f"is {str(value)[:20]}; give a number from 0 to 1, or null")
        scores[name] = float(value)
    return scores


def _text(place: str, record: int, name: str, text: object) -> str:
    if not isinstance(text, str):
        raise _wrong(place, record, name, f"is a JSON {_json_type(text)}; give a string")
    if not text.strip():
        raise _wrong(place, record, name, "is empty; leave the record out")
    if not _encodable(text):
        raise _wrong(place, record, name, "holds half a surrogate pair, which is no character; repair its encoding")
    return text


def _wrong(place: str, record: int, name: str, problem: str) -> EvaluationSetError:
    return EvaluationSetError(f"{place}, {name}: {problem}", record=record, field=name)


def prompts_table(prompts: Iterable[Prompt]) -> pa.Table:
    """The prompts as rows of the `prompts` schema."""
    schema = SCHEMAS["prompts"]
    rows = list(prompts)
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)


def prompts_from_table(table: pa.Table) -> list[Prompt]:
    """The inverse of `prompts_table`, without what is kept elsewhere (scores, published continuations)."""
    return [Prompt(row["id"], row["text"], row["group"]) for row in table.to_pylist()]


def prompt_scores_table(prompts: Iterable[Prompt]) -> pa.Table:
    """The published scores of the prompts, a row of the `prompt_scores` schema each; null where a score is unknown."""
    return _scores_table((prompt.id, prompt.scores) for prompt in prompts)


def published_continuations_table(prompts: Iterable[Prompt]) -> pa.Table:
    """The published continuations as rows of the `published_continuations` schema; prompts without one have no row."""
    rows = [(prompt.id, prompt.published.text) for prompt in prompts if prompt.published]
    schema = SCHEMAS["published_continuations"]
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(schema.names)}, schema=schema)


def published_scores_table(prompts: Iterable[Prompt]) -> pa.Table:
    """The scores of the published continuations, as rows of the `prompt_scores` schema."""
    return _scores_table((prompt.id, prompt.published.scores) for prompt in prompts if prompt.published)


def _scores_table(scores_by_id: Iterable[tuple[str, dict[str, float | None]]]) -> pa.Table:
    rows = [(identifier, name, score) for identifier, scores in scores_by_id for name, score in scores.items()]
    schema = SCHEMAS["prompt_scores"]
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(schema.names)}, schema=schema)
