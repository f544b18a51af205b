"""What holds for any labelled set, and for any damage to one."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.evaluation_sets import EvaluationSetError, LabelledSentence, from_table, read_safenlp, to_table
from tests.scoring.evaluation_sets.conftest import RECORDS, SECRET

_strings = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
_sentences = st.builds(
    LabelledSentence,
    id=_strings,
    text=_strings,
    harmful=st.booleans(),
    toxicity=st.floats(1, 5),
    demographics=st.lists(_strings, min_size=1, max_size=3, unique=True).map(tuple),
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


def read(content: bytes) -> list[LabelledSentence] | None:
    """The sentences of a file with that content; None where it is refused, which must never quote a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.json"
        path.write_bytes(content)
        try:
            return read_safenlp(path)
        except EvaluationSetError as refused:
            message = str(refused)
    if SECRET in message:
        raise AssertionError("the message quotes a text")
    return None


def as_record(sentence: LabelledSentence) -> dict[str, Any]:
    return {
        "id": sentence.id,
        "text": sentence.text,
        "label": "hate" if sentence.harmful else "neutral",
        "toxicity_score": sentence.toxicity,
        "target_groups": list(sentence.demographics),
    }


@pytest.mark.slow
@given(st.lists(_sentences, max_size=6))
def test_a_table_gives_back_the_sentences_it_was_made_of(sentences: list[LabelledSentence]) -> None:
    assert from_table(to_table(sentences)) == sentences


@pytest.mark.slow
@given(st.lists(_sentences, min_size=1, max_size=5, unique_by=lambda sentence: sentence.id))
def test_a_good_file_gives_back_the_sentences_it_was_made_of(sentences: list[LabelledSentence]) -> None:
    one_group = [LabelledSentence(s.id, s.text, s.harmful, s.toxicity, ("g",)) for s in sentences]
    both = [
        *one_group,
        LabelledSentence("harmful one", "a", True, 4.0, ("g",)),
        LabelledSentence("benign one", "b", False, 1.0, ("g",)),
    ]
    if len({s.id for s in both}) == len(both):
        assert read(json.dumps([as_record(sentence) for sentence in both]).encode()) == both


@pytest.mark.slow
@given(st.integers(0, len(RECORDS) - 1), st.sampled_from(list(RECORDS[0])), _json)
def test_a_corrupted_value_is_refused_or_read_as_it_stands(position: int, field: str, value: Any) -> None:
    records = copy.deepcopy(RECORDS)
    records[position][field] = value
    sentences = read(json.dumps(records).encode())
    if sentences is not None:
        expected = [
            {**record, "id": str(record["id"]), "target_groups": list(dict.fromkeys(record["target_groups"]))}
            for record in records
        ]
        assert [as_record(sentence) for sentence in sentences] == expected


@given(st.data())
def test_a_file_cut_short_is_refused(data: st.DataObject) -> None:
    whole = json.dumps(RECORDS, ensure_ascii=False).encode()
    assert read(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(st.data())
def test_a_damaged_byte_never_raises_anything_but_an_evaluation_set_error(data: st.DataObject) -> None:
    whole = bytearray(json.dumps(RECORDS, ensure_ascii=False).encode())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    sentences = read(bytes(whole))
    assert sentences is None or len(sentences) == len(RECORDS)
