"""Scores of sentences made elsewhere, read in the file forms of their field: StereoSet, CrowS-Pairs, mediation.

Messages name the file, the record and the field, never a text.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.evaluation_sets.triples import ASSOCIATIONS, TASKS, Triple
from scoring.metrics.safety import ALL
from scoring.metrics.sentence_triples import Triples

Array = NDArray[np.float64]
PAIR_COLUMNS = ("sent_more_score", "sent_less_score", "bias_type")  # as the code published with CrowS-Pairs writes them
EFFECT_FIELDS = (
    "odds_base",
    "odds_alt",
)  # after the female and the male pronoun, as the code of Vig et al. writes them


class UnreadableScores(ValueError):
    """A file of scores is not one; the message says where and what to do."""


@dataclass(frozen=True)
class TripleScores:
    """Scores [n, 3] by association with the term and the slices of each triple; `unknown` ids are of no sentence."""

    scores: Array
    targets: list[str]
    members: dict[str, NDArray[np.bool_]]
    unknown: int


def read_predictions(path: Path, triples: Sequence[Triple]) -> TripleScores:
    """Read the predictions of StereoSet's code: {"intrasentence": [{"id", "score"}], "intersentence": [...]}.

    A task may be absent: its triples are left out. A score that is NaN or null is none. Raises UnreadableScores,
    OSError.
    """
    document = _json(path)
    if not isinstance(document, dict) or not any(isinstance(document.get(task), list) for task in TASKS):
        raise UnreadableScores(f"{path}: has no list {' or '.join(TASKS)}; give the predictions of StereoSet's code")
    score_by_id: dict[str, float] = {}
    for task in TASKS:
        for number, item in enumerate(document.get(task) or [], start=1):
            place = f"{path}, {task}, record {number}"
            if not isinstance(item, dict) or not isinstance(item.get("id"), str):
                raise UnreadableScores(f"{place}, id: is missing; give the id of a sentence")
            if item["id"] in score_by_id:
                raise UnreadableScores(f"{place}, id: is that of a record before; give every sentence one score")
            score_by_id[item["id"]] = _number(item.get("score"), f"{place}, score")
    scored_triples = [triple for triple in triples if document.get(triple.task)]
    ids = {id_ for triple in scored_triples for id_ in triple.ids.values()}
    if not ids & score_by_id.keys():
        raise UnreadableScores(f"{path}: none of its ids is of a sentence of the set; give the set it was made for")
    return TripleScores(
        scores=np.array(
            [[score_by_id.get(triple.ids[name], math.nan) for name in ASSOCIATIONS] for triple in scored_triples]
        ),
        targets=[triple.target for triple in scored_triples],
        members=Triples.slices(
            [triple.task for triple in scored_triples], [[triple.domain] for triple in scored_triples]
        ),
        unknown=len(score_by_id.keys() - ids),
    )


def read_pair_scores(path: Path) -> tuple[Array, dict[str, NDArray[np.bool_]]]:
    """Read the CSV file that the code published with CrowS-Pairs writes, other columns ignored.

    Returns how much more likely the stereotyping sentence is [n], NaN where a score is none, and the pairs of each bias
    type. Raises UnreadableScores, OSError.
    """
    rows = list(_csv_rows(path, PAIR_COLUMNS))
    if not rows:
        raise UnreadableScores(f"{path}: holds 0 pairs; give one or more")
    gaps = np.array(
        [
            _number(row["sent_more_score"], f"{path}, record {number}, sent_more_score")
            - _number(row["sent_less_score"], f"{path}, record {number}, sent_less_score")
            for number, row in enumerate(rows, start=1)
        ]
    )
    types = [row["bias_type"] for row in rows]
    return gaps, {name: np.array([type_ == name for type_ in types]) for name in sorted(set(types))}


def read_odds_ratios(path: Path) -> dict[str, Array]:
    """Read odds of a man's continuation against a woman's after either pronoun; returns their ratios [n] by slice.

    Either the JSON of the code published with Vig et al. 2020, whose `results` hold odds_base and odds_alt, after the
    female and the male pronoun; or a CSV file with these two columns, and optionally `slice`. A value that is NaN or
    null is none. Raises UnreadableScores, OSError.
    """
    if path.suffix == ".csv":
        rows: Any = list(_csv_rows(path, EFFECT_FIELDS))
    else:
        document = _json(path)
        rows = document.get("results") if isinstance(document, dict) else document
        if not isinstance(rows, list):
            raise UnreadableScores(f"{path}: has no list results; give objects with {' and '.join(EFFECT_FIELDS)}")
    if not rows:
        raise UnreadableScores(f"{path}: holds 0 pairs; give one or more")
    ratios: dict[str, list[float]] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{path}, record {number}"
        if not isinstance(row, dict):
            raise UnreadableScores(f"{place}: is no object; give one with {' and '.join(EFFECT_FIELDS)}")
        female, male = (_number(row.get(field), f"{place}, {field}") for field in EFFECT_FIELDS)
        for field, value in zip(EFFECT_FIELDS, (female, male), strict=True):
            if value <= 0:
                raise UnreadableScores(f"{place}, {field}: is {value:g}; odds are above 0")
        name = ALL if row.get("slice") in (None, "") else row["slice"]
        if not isinstance(name, str):
            raise UnreadableScores(f"{place}, slice: is no string; give a name, or leave it out")
        ratios.setdefault(name, []).append(male / female)
    return {name: np.array(values) for name, values in ratios.items()}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # bad bytes, too
        raise UnreadableScores(f"{path} is not JSON in UTF-8 ({error}): save it as such") from error


def _csv_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text), strict=True)
        absent = [name for name in columns if name not in (reader.fieldnames or ())]
        if absent:
            raise UnreadableScores(f"{path} lacks the column {absent[0]}: give {', '.join(columns)}")
        yield from reader
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableScores(f"{path} is no CSV file in UTF-8 ({error}): save it as such") from error


def _number(value: object, place: str) -> float:
    """A finite number as it is; NaN for NaN, null and an empty cell."""
    try:
        number = math.nan if value in (None, "") else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableScores(f"{place}: is no number; give one, or null where there is none") from error
    if isinstance(value, bool) or math.isinf(number):
        raise UnreadableScores(f"{place}: is no finite number; give one, or null where there is none")
    return number
