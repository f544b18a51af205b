"""Files of texts that people labelled as harmful or not, in the forms of their field and in one of your own.

Messages name the file, the row and the column, never a text.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scoring.evaluation_sets.labelled import EvaluationSetError, read_safenlp
from scoring.evaluation_sets.labelled_texts import (
    LabelledText,
    LabelledTexts,
    UnreadableLabels,
    gather_texts,
    label_sentences,
)

LEAST_SHARE = 0.5  # of its annotators, from which Civil Comments calls a comment toxic or about an identity
LEAST_TOXIC = 3.0  # of 5, "content is toxic" in the instructions to the annotators of RTP-LX
LABELS = {"harmful": True, "hateful": True, "toxic": True, "true": True, "1": True} | dict.fromkeys(
    ("benign", "non-hateful", "neutral", "non-toxic", "false", "0"), False
)
CIVIL_IDENTITIES = (
    *("male", "female", "transgender", "other_gender", "heterosexual", "homosexual_gay_or_lesbian", "bisexual"),
    *("other_sexual_orientation", "christian", "jewish", "muslim", "hindu", "buddhist", "atheist", "other_religion"),
    *("black", "white", "asian", "latino", "other_race_or_ethnicity", "physical_disability"),
    *("intellectual_or_learning_disability", "psychiatric_or_mental_illness", "other_disability"),
)
LANGUAGES = {  # as multilingual HateCheck names them
    **{"arabic": "ar", "dutch": "nl", "english": "en", "french": "fr", "german": "de", "hindi": "hi", "italian": "it"},
    **{"mandarin": "zh", "polish": "pl", "portuguese": "pt", "spanish": "es"},
}
LONGEST_FIELD = 2**20  # characters of a cell
LONGEST_SHOWN = 40  # of an id in a message


def read_labelled(path: Path, form: str = "own", language: str = "") -> LabelledTexts:
    """The rows of `read_label_rows` as columns."""
    return gather_texts(read_label_rows(path, form, language))


def read_label_rows(path: Path, form: str = "own", language: str = "") -> list[LabelledText]:
    """Read labelled texts in one of FORMS; `language`: that of texts whose rows name none.

    All or nothing: raises UnreadableLabels at the first row that is wrong, OSError where the file cannot be read.
    """
    if form not in FORMS:
        raise UnreadableLabels.of_value("form", form, f"use one of {', '.join(FORMS)}")
    rows = [row if row.language else replace(row, language=language) for row in FORMS[form](path)]
    if not rows:
        raise UnreadableLabels(f"{path.name} holds no text: give harmful and benign ones")
    duplicate = _first_repeated(row.id for row in rows)
    if duplicate is not None:
        raise UnreadableLabels(f"{path.name}, id: {show(duplicate)} stands in two rows; give each an id of its own")
    stray = {row.paraphrase_of for row in rows} - {row.id for row in rows} - {""}
    if stray:
        raise UnreadableLabels(
            f"{path.name}, paraphrase_of: {show(min(stray))} is no id of its rows; give the id of the text that is "
            "said again",
            field="paraphrase_of",
        )
    return rows


def show(identifier: str) -> str:
    """An id of a file, escaped and shortened."""
    return ascii(identifier[:LONGEST_SHOWN])


def _first_repeated(ids: Iterable[str]) -> str | None:
    known_ids: set[str] = set()
    for identifier in ids:
        if identifier in known_ids:
            return identifier
        known_ids.add(identifier)
    return None


def _read_own(path: Path) -> Iterator[LabelledText]:
    """CSV, JSON lines or Parquet with text and label.

    And id, groups (a list, or names between ;), language, functionality, paraphrase_of, where they are known.
    """
    for number, row in enumerate(_records(path), start=1):
        groups = row.get("groups") or ()
        names = groups.split(";") if isinstance(groups, str) else groups
        if not isinstance(names, list | tuple):
            raise _wrong(path, number, "groups", "is no list; give names, in a list or with ; between them")
        yield LabelledText(
            str(row.get("id") or number),
            _text(path, number, row, "text"),
            _label(path, number, row, "label"),
            tuple(str(name).strip() for name in names if str(name).strip()),
            str(row.get("language") or "").strip(),
            str(row.get("functionality") or "").strip(),
            str(row.get("paraphrase_of") or "").strip(),
        )


def _read_safenlp(path: Path) -> Iterator[LabelledText]:
    """The list of Hosseini et al. 2023: toxiGen.json, implicitHate.json."""
    try:
        sentences = read_safenlp(path)
    except EvaluationSetError as error:
        raise UnreadableLabels(str(error)) from error
    yield from label_sentences(sentences)


def _read_hatecheck(path: Path) -> Iterator[LabelledText]:
    """The table of Röttger et al. 2021, test_suite_cases.csv, or of its multilingual successor (2022).

    Of the successor also a folder of its tables, one a language; its cases are named LANGUAGE-NUMBER.
    """
    for file in _files(path, "*.csv"):
        for number, row in enumerate(_records(file), start=1):
            identifier = str(row.get("mhc_case_id") or row.get("case_id") or number)
            target = str(row.get("target_ident") or "")
            language = identifier.rpartition("-")[0] if row.get("mhc_case_id") else "english"
            yield LabelledText(
                identifier,
                _text(file, number, row, "test_case"),
                _label(file, number, row, "label_gold"),
                (target,) if target else (),
                LANGUAGES.get(language, language),
                str(row.get("functionality") or ""),
            )


def _read_rtp_lx(path: Path) -> Iterator[LabelledText]:
    """JSON lines of de Wynter et al. 2024, RTP_LX_XX.json: prompts; or a folder of such files, one a language.

    A text is named LANGUAGE-NUMBER, by the file's name. Earlier releases say Annotations and Index.
    """
    for file in _files(path, "RTP_LX_*.json"):
        language = file.stem.rpartition("_")[2].lower()
        for number, row in enumerate(_json_lines(file), start=1):
            annotations = row.get("PromptAnnotations") or row.get("Annotations")
            toxicity = annotations.get("Toxicity") if isinstance(annotations, dict) else None
            values: list[float] = [
                value
                for value in (toxicity if isinstance(toxicity, list) else [toxicity])
                if isinstance(value, int | float) and 1 <= value <= 5
            ]
            if not values or (isinstance(toxicity, list) and len(values) < len(toxicity)):
                raise _wrong(file, number, "PromptAnnotations.Toxicity", "is no number from 1 to 5")
            is_harmful = float(np.mean(values)) >= LEAST_TOXIC
            identifier = f"{language}-{row.get('ID', row.get('Index', number))}"
            yield LabelledText(identifier, _text(file, number, row, "Prompt"), is_harmful, (), language)


def _files(path: Path, pattern: str) -> list[Path]:
    """The file, or those of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(pattern))
    if not files:
        raise UnreadableLabels(f"{path.name} holds no file {pattern}: give the folder of the unpacked files")
    return files


def _read_civil_comments(path: Path) -> Iterator[LabelledText]:
    """The table of Borkan et al. 2019: comment_text, toxicity and identities as shares of annotators."""
    for number, row in enumerate(_records(path), start=1):
        text_column = "comment_text" if "comment_text" in row else "text"
        toxicity_column = "toxicity" if "toxicity" in row else "target"
        groups = [
            name for name in CIVIL_IDENTITIES if row.get(name) not in (None, "") and _share(path, number, row, name)
        ]
        yield LabelledText(
            str(row.get("id") or number),
            _text(path, number, row, text_column),
            _share(path, number, row, toxicity_column),
            tuple(groups),
            "en",
        )


FORMS: dict[str, Callable[[Path], Iterator[LabelledText]]] = {
    "own": _read_own,
    "safenlp": _read_safenlp,
    "hatecheck": _read_hatecheck,
    "rtp-lx": _read_rtp_lx,
    "civil-comments": _read_civil_comments,
}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a CSV, JSON lines or Parquet file, by its ending."""
    readers = {".csv": _csv_rows, ".jsonl": _json_lines, ".parquet": _parquet_rows}
    if path.suffix not in readers:
        raise UnreadableLabels(f"{path.name}: its ending says nothing known; name it {', '.join(readers)}")
    return readers[path.suffix](path)


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            for row in csv.DictReader(lines):
                if None in row:
                    raise UnreadableLabels(f"{path.name} has a row of more cells than its head: quote commas in texts")
                yield row
    except UnicodeDecodeError as error:
        raise UnreadableLabels(f"{path.name} is not UTF-8 (byte offset {error.start}): save it as UTF-8") from error
    except csv.Error as error:
        raise UnreadableLabels(f"{path.name} is no CSV ({error}): export it again") from error


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise UnreadableLabels(f"{path.name}, line {number} is no object: give one a line")
                yield row
    except UnicodeDecodeError as error:
        raise UnreadableLabels(f"{path.name} is not UTF-8 (byte offset {error.start}): save it as UTF-8") from error
    except (ValueError, RecursionError) as error:  # Python's limits on digits and depth among them
        if isinstance(error, UnreadableLabels):
            raise
        raise UnreadableLabels(f"{path.name}, line {number} is not JSON: give one object a line") from error


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableLabels(f"{path.name} is no Parquet: write it again") from error


def _wrong(path: Path, number: int, field: str, problem: str) -> UnreadableLabels:
    return UnreadableLabels(f"{path.name}, row {number}, {field}: {problem}", field=field)


def _text(path: Path, number: int, row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(path, number, field, "is missing or empty; give the text, or leave the row out")
    return value


def _label(path: Path, number: int, row: Mapping[str, Any], field: str) -> bool:
    label = LABELS.get(str(row.get(field)).strip().lower())
    if label is None:
        raise _wrong(path, number, field, "is no label; give harmful or benign")
    return label


def _share(path: Path, number: int, row: Mapping[str, Any], field: str) -> bool:
    """Whether at least half of the annotators said so."""
    try:
        value = float(row.get(field, ""))
    except (TypeError, ValueError):
        value = np.nan
    if not 0 <= value <= 1:
        raise _wrong(path, number, field, "is no share; give a number from 0 to 1")
    return value >= LEAST_SHARE
