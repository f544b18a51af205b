"""Texts that people labelled as harmful or not, with what else is known of them: what report cards are made on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.labelled import LabelledSentence
from scoring.refusals import Refused


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and its label.

    groups: the demographics that it is about. language: a code such as en, "" where it is not known. functionality:
    what a text of a test suite tests, else "". paraphrase_of: the id of the text that it says again, else "".
    """

    id: str
    text: str
    harmful: bool
    groups: tuple[str, ...] = ()
    language: str = ""
    functionality: str = ""
    paraphrase_of: str = ""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts [n] with ids, whether each is harmful, and what else is known of it.

    groups: the texts that are about each demographic, bool [n] by name. languages, functionalities, paraphrase_of: as
    in LabelledText, "" where a text has none.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    harmful: NDArray[np.bool_]
    groups: Mapping[str, NDArray[np.bool_]]
    languages: NDArray[np.str_]
    functionalities: NDArray[np.str_]
    paraphrase_of: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.texts)


class UnreadableLabels(Refused):
    """A file of labelled texts is not one; the message says where and what to do."""


def gather_texts(rows: Sequence[LabelledText]) -> LabelledTexts:
    """The rows as columns."""
    names = sorted({group for row in rows for group in row.groups})
    return LabelledTexts(
        tuple(row.id for row in rows),
        tuple(row.text for row in rows),
        np.array([row.harmful for row in rows], dtype=bool),
        {name: np.array([name in row.groups for row in rows], dtype=bool) for name in names},
        np.array([row.language for row in rows], dtype=np.str_),
        np.array([row.functionality for row in rows], dtype=np.str_),
        np.array([row.paraphrase_of for row in rows], dtype=np.str_),
    )


def label_sentences(sentences: Iterable[LabelledSentence]) -> list[LabelledText]:
    """The sentences of an evaluation set, which are English, as labelled texts."""
    return [
        LabelledText(sentence.id, sentence.text, sentence.harmful, sentence.demographics, "en")
        for sentence in sentences
    ]


def texts_table(rows: Sequence[LabelledText]) -> pa.Table:
    """The texts as rows of the `labelled_texts` schema."""
    schema = SCHEMAS["labelled_texts"]
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)


def texts_from_table(table: pa.Table) -> list[LabelledText]:
    """The inverse of `texts_table`."""
    return [LabelledText(**{**row, "groups": tuple(row["groups"])}) for row in table.to_pylist()]


def count_by_group(rows: Iterable[LabelledText]) -> dict[str, dict[str, int]]:
    """Number of harmful and benign texts about each demographic, sorted by name."""
    numbers: dict[str, dict[str, int]] = {}
    for row in rows:
        for group in row.groups:
            labels = numbers.setdefault(group, {"harmful": 0, "benign": 0})
            labels["harmful" if row.harmful else "benign"] += 1
    return dict(sorted(numbers.items()))
