"""Sentence triples in the forms of StereoSet: a stereotype, an anti-stereotype and an unrelated end of one context.

Messages name the record and the field, never the text: the texts are offensive.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.labelled import EvaluationSetError

ASSOCIATIONS = ("stereotype", "anti-stereotype", "unrelated")
INTRASENTENCE, INTERSENTENCE = "intrasentence", "intersentence"
TASKS = (INTRASENTENCE, INTERSENTENCE)
BLANK = "BLANK"
_NAME = re.compile(r"[a-z][a-z-]{0,39}")


@dataclass(frozen=True, slots=True)
class Triple:
    """A context and its three sentences, by association; ids are those of the sentences, by association too."""

    id: str
    task: str
    target: str  # the term that the context is about
    domain: str
    context: str
    sentences: Mapping[str, str]
    ids: Mapping[str, str]


def read_stereoset(path: Path) -> list[Triple]:
    """Read StereoSet's dev.json, or the same as JSON lines with a field for each association; texts are kept.

    Lines have no identifiers: triples are numbered from 1, and a sentence is named by its triple and association.
    All or nothing: raises EvaluationSetError at the first record that is wrong, OSError when the file cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{path.name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    try:
        rows = list(_rows_of_lines(text) if path.suffix == ".jsonl" else _rows_of_document(path.name, json.loads(text)))
    except EvaluationSetError:
        raise
    except (ValueError, RecursionError) as error:  # Python's limits on digits and depth among them
        raise EvaluationSetError(f"{path.name} is not JSON: {error}; give dev.json, or JSON lines as .jsonl") from error
    triples = [_triple(f"{path.name}, record {record}", row) for record, row in enumerate(rows, start=1)]
    if not triples:
        raise EvaluationSetError(f"{path.name} holds 0 triples; give one or more")
    repeated_ids = [id_ for id_, count in Counter(triple.id for triple in triples).items() if count > 1]
    if repeated_ids:
        raise EvaluationSetError(f"{path.name} has two triples with the id {repeated_ids[0]}; give each one of its own")
    return triples


def _rows_of_lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        row = json.loads(line)
        if isinstance(row, dict):
            sentences = [{"gold_label": key, "sentence": row.get(key), "id": f"{number}-{key}"} for key in ASSOCIATIONS]
            yield row | {"task": row.get("type"), "id": f"{number}", "sentences": sentences}
        else:
            yield row


def _rows_of_document(name: str, document: Any) -> Iterator[Any]:
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or not all(isinstance(data.get(task, []), list) for task in TASKS):
        raise EvaluationSetError(f"{name} lacks data with lists {' and '.join(TASKS)}: give StereoSet's dev.json")
    for task in TASKS:
        for row in data.get(task, []):
            yield row | {"task": task} if isinstance(row, dict) else row


def _triple(place: str, row: Any) -> Triple:
    if not isinstance(row, dict):
        raise EvaluationSetError(f"{place} is no object; give one with context, target, bias_type and three sentences")
    for key in ("id", "task", "target", "bias_type", "context"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise EvaluationSetError(f"{place}, {key}: is no text; give one", field=key)
    if row["task"] not in TASKS:
        raise EvaluationSetError(f"{place}, type: is neither of {' and '.join(TASKS)}", field="type")
    if not _NAME.fullmatch(row["bias_type"]):
        raise EvaluationSetError(f"{place}, bias_type: is no name in small letters, as profession", field="bias_type")
    entries = row.get("sentences")
    by_association: dict[str, Any] = {
        entry["gold_label"]: entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("gold_label"), str)
    }
    for association in ASSOCIATIONS:
        entry = by_association.get(association, {})
        if not isinstance(entry.get("sentence"), str) or not entry["sentence"].strip():
            raise EvaluationSetError(f"{place}, {association}: is no sentence; give one", field=association)
        if not isinstance(entry.get("id"), str):
            raise EvaluationSetError(f"{place}, {association}: has no id; give one", field=association)
    return Triple(
        id=row["id"],
        task=row["task"],
        target=row["target"],
        domain=row["bias_type"],
        context=row["context"],
        sentences={key: by_association[key]["sentence"] for key in ASSOCIATIONS},
        ids={key: by_association[key]["id"] for key in ASSOCIATIONS},
    )


def triples_table(triples: Sequence[Triple]) -> pa.Table:
    """Rows of the `stereotype_triples` schema, three for each triple, in the order of ASSOCIATIONS.

    A sentence that follows a context is preceded by it and a space, and by a full stop where the context has no end, as
    in the code published with StereoSet. Masked models are asked for the words that fill the blank, or for the whole
    sentence that follows; others for all of a text with a filled blank, or for the sentence that follows.
    """
    return pa.Table.from_pylist(
        [
            {
                "id": triple.ids[association],
                **_text_and_passage(triple, association),
                "triple": triple.id,
                "association": association,
                "task": triple.task,
                "target": triple.target,
                "demographics": [triple.domain],
            }
            for triple in triples
            for association in ASSOCIATIONS
        ],
        schema=SCHEMAS["stereotype_triples"],
    )


def _text_and_passage(triple: Triple, association: str) -> dict[str, Any]:
    sentence = triple.sentences[association]
    if triple.task == INTERSENTENCE:
        context = triple.context if triple.context[-1] in ".!?" else f"{triple.context}."
        text, start = f"{context} {sentence}", len(context) + 1
        return {"text": text, "start": start, "end": len(text), "left_start": start}
    start, end = _filled_blank(triple, sentence)
    return {"text": sentence, "start": start, "end": end, "left_start": 0}


def _filled_blank(triple: Triple, sentence: str) -> tuple[int, int]:
    """Where the words that fill the blank stand in the sentence: where it differs from its context."""
    beginning, _, end = triple.context.partition(BLANK)
    fits = BLANK in triple.context and len(beginning) + len(end) < len(sentence)
    if fits and sentence.lower().startswith(beginning.lower()) and sentence.lower().endswith(end.lower()):
        return len(beginning), len(sentence) - len(end)
    words = sentence.split(" ")
    others = [text.split(" ") for text in triple.sentences.values()]
    limit = min(map(len, others)) - 1
    first = next((place for place in range(limit) if len({row[place] for row in others}) > 1), limit)
    last = next(
        (place for place in range(limit - first) if len({row[-1 - place] for row in others}) > 1), limit - first
    )
    start = len(" ".join(words[:first])) + bool(first)
    return start, len(sentence) - (len(" ".join(words[len(words) - last :])) + 1 if last else 0)


def triple_counts(triples: Sequence[Triple]) -> dict[str, int]:
    """How many sentences there are of each domain."""
    counts = Counter(triple.domain for triple in triples)
    return {name: len(ASSOCIATIONS) * count for name, count in sorted(counts.items())}
