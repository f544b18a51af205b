"""Labelled sets in the SafeNLP format: read whole, or refused with a message that quotes no text."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scoring import artefacts
from scoring.evaluation_sets import (
    EvaluationSetError,
    LabelledSentence,
    build_starter,
    counts,
    from_table,
    irregularities,
    irregularities_in_words,
    read_safenlp,
    to_table,
)
from tests.data import TOXIGEN, needs_toxigen
from tests.scoring.evaluation_sets.conftest import RECORDS, SECRET

Write = Callable[[Any], Path]
TOXIGEN_COUNTS = {
    "asian": (357, 526),
    "black": (296, 295),
    "chinese": (171, 266),
    "jewish": (234, 302),
    "latino": (368, 375),
    "lgbtq": (248, 356),
    "mental dis": (231, 393),
    "mexican": (231, 228),
    "middle-eastern": (172, 259),
    "muslim": (203, 345),
    "native-american": (195, 307),
    "physical dis": (233, 358),
    "women": (336, 305),
}


def test_texts_ids_and_demographics_are_kept_as_written(records: list[dict[str, Any]], written: Write) -> None:
    sentences = read_safenlp(written(records))
    assert [sentence.text for sentence in sentences] == [record["text"] for record in records]
    assert [sentence.id for sentence in sentences] == ["0", "2", "c-3", "7"]
    assert [sentence.harmful for sentence in sentences] == [True, False, True, False]
    assert [sentence.toxicity for sentence in sentences] == [4.5, 1.0, 5.0, 2.25]
    assert sentences[2].demographics == ("cats", "dogs")


def test_keys_the_format_does_not_have_are_ignored(records: list[dict[str, Any]], written: Write) -> None:
    plain = read_safenlp(written(records))
    assert read_safenlp(written([{**record, "source": None} for record in records])) == plain


def test_a_sentence_about_several_demographics_counts_in_each(records: list[dict[str, Any]], written: Write) -> None:
    # dogs: harmful 0 and c-3, benign 2; cats: harmful c-3, benign 7
    found = counts(read_safenlp(written(records)))
    assert list(found.items()) == [("cats", {"harmful": 1, "benign": 1}), ("dogs", {"harmful": 2, "benign": 1})]


NOT_AN_ID = "give an integer or a string"
NOT_A_RATING = "give a number from 1 to 5"
NO_NAMES = "holds something other than names; give a list of strings"
WRONG_VALUES = [
    # field, value, what the message says
    ("id", True, f"is a JSON boolean; {NOT_AN_ID}"),
    ("id", None, f"is a JSON null; {NOT_AN_ID}"),
    ("id", 2.0, f"is a JSON number; {NOT_AN_ID}"),
    ("id", [], f"is a JSON list; {NOT_AN_ID}"),
    ("id", "", f"is empty or holds half a surrogate pair; {NOT_AN_ID}"),
    ("id", " ", f"is empty or holds half a surrogate pair; {NOT_AN_ID}"),
    ("id", "\ud800", f"is empty or holds half a surrogate pair; {NOT_AN_ID}"),
    ("id", 0, "is also that of record 1; give every record an id of its own"),
    ("id", "0", "is also that of record 1; give every record an id of its own"),
    ("text", None, "is a JSON null; give a string"),
    ("text", 12, "is a JSON number; give a string"),
    ("text", [SECRET], "is a JSON list; give a string"),
    ("text", {"text": SECRET}, "is a JSON object; give a string"),
    ("text", "", "is empty; leave the record out"),
    ("text", " \n\t\u3000", "is empty; leave the record out"),
    ("text", SECRET + "\udfff", "holds half a surrogate pair"),
    ("label", "Hate", "is unknown, a string of 4 characters; give hate or neutral"),
    ("label", SECRET, f"is unknown, a string of {len(SECRET)} characters; give hate or neutral"),
    ("label", 1, "is unknown, a JSON number; give hate or neutral"),
    ("label", None, "is unknown, a JSON null; give hate or neutral"),
    ("toxicity_score", SECRET, f"is a JSON string; {NOT_A_RATING}"),
    ("toxicity_score", "4.5", f"is a JSON string; {NOT_A_RATING}"),
    ("toxicity_score", True, f"is a JSON boolean; {NOT_A_RATING}"),
    ("toxicity_score", None, f"is a JSON null; {NOT_A_RATING}"),
    ("toxicity_score", math.nan, f"is nan; {NOT_A_RATING}"),
    ("toxicity_score", math.inf, f"is inf; {NOT_A_RATING}"),
    ("toxicity_score", -math.inf, f"is -inf; {NOT_A_RATING}"),
    ("toxicity_score", 0.99, f"is 0.99; {NOT_A_RATING}"),
    ("toxicity_score", 6, f"is 6; {NOT_A_RATING}"),
    ("toxicity_score", 10**400, f"is 1{'0' * 19}; {NOT_A_RATING}"),  # too large for a float, and shown cut short
    ("target_groups", "dogs", "names no demographic; give a list of one or more"),
    ("target_groups", None, "names no demographic; give a list of one or more"),
    ("target_groups", [], "names no demographic; give a list of one or more"),
    ("target_groups", ["dogs", 3], NO_NAMES),
    ("target_groups", ["dogs", ""], NO_NAMES),
    ("target_groups", [" "], NO_NAMES),
    ("target_groups", ["\ud800"], NO_NAMES),
]


@pytest.mark.parametrize(("field", "value", "says"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_its_record_and_field_and_without_the_text(
    field: str, value: Any, says: str, records: list[dict[str, Any]], written: Write
) -> None:
    records[2][field] = value
    with pytest.raises(EvaluationSetError) as caught:
        read_safenlp(written(records))
    message = str(caught.value)
    assert (caught.value.record, caught.value.field) == (3, field)
    assert "set.json, record 3" in message
    assert f", {field}: {says}" in message
    assert SECRET not in message
    if field != "id":
        assert "(id c-3)" in message


@pytest.mark.parametrize("field", RECORDS[0])
def test_a_missing_key_is_named(field: str, records: list[dict[str, Any]], written: Write) -> None:
    del records[1][field]
    with pytest.raises(EvaluationSetError, match=f"record 2.*, {field}: is missing; each record needs") as caught:
        read_safenlp(written(records))
    assert (caught.value.record, caught.value.field) == (2, field)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("record", [None, 3, SECRET, [SECRET]])
def test_a_record_that_is_no_object_is_refused(record: Any, records: list[dict[str, Any]], written: Write) -> None:
    with pytest.raises(EvaluationSetError, match=r"record 5 is a JSON .*; give an object with") as caught:
        read_safenlp(written([*records, record]))
    assert (caught.value.record, caught.value.field) == (5, "")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'[{"id": 1, "text": "\xff"}]', r"not UTF-8 \(byte offset 20\): save it"),
        (b"", r"not JSON \(line 1, column 1: Expecting value\)"),
        (b'[\n{"id": 1,\n "text" "a"}]', r"not JSON \(line 3, column 9"),
        (b"[{}] []", r"not JSON \(line 1, column 6"),
        (b'{"id": 1}', "holds a JSON object; give one list"),
        (b"NaN", "holds a JSON number; give one list"),
        (b"null", "holds a JSON null; give one list"),
        (b"[]", "0 records; give"),
        (b"[" * 200_000, "nested too deeply; give"),
        (b"[" + b"9" * 5000 + b"]", "too many digits; give"),
    ],
)
def test_a_file_that_is_no_list_of_records_is_refused(content: bytes, says: str, written: Write) -> None:
    with pytest.raises(EvaluationSetError, match=says) as caught:
        read_safenlp(written(content))
    assert "set.json" in str(caught.value)
    assert caught.value.record is None


@pytest.mark.parametrize(("label", "missing"), [("hate", "benign"), ("neutral", "harmful")])
def test_a_demographic_needs_both_labels(
    label: str, missing: str, records: list[dict[str, Any]], written: Write
) -> None:
    records.append({**records[0], "id": 9, "label": label, "target_groups": ["birds", "dogs"]})
    with pytest.raises(EvaluationSetError, match=f"demographic 'birds' has no {missing} sentence") as caught:
        read_safenlp(written(records))
    assert (caught.value.record, caught.value.field) == (None, "target_groups")


def test_a_demographic_named_twice_in_a_record_counts_once(records: list[dict[str, Any]], written: Write) -> None:
    records[0]["target_groups"] = ["dogs", "dogs"]
    assert counts(read_safenlp(written(records)))["dogs"] == {"harmful": 2, "benign": 1}


def test_a_text_in_the_wrong_column_stays_out_of_messages(records: list[dict[str, Any]], written: Write) -> None:
    long = SECRET * 2
    for swapped in (
        {"target_groups": [long]},
        {"id": long, "label": "x"},
        {"id": "slug", "text": "slug", "label": "x"},
    ):
        with pytest.raises(EvaluationSetError) as caught:
            read_safenlp(written([*records[:3], {**records[3], **swapped}]))
        assert SECRET not in str(caught.value)
        assert "slug" not in str(caught.value)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_safenlp(tmp_path / "nothing.json")


def test_a_table_is_an_artefact_and_gives_the_same_sentences(tmp_path: Path) -> None:
    sentences = build_starter()
    path = tmp_path / "set.parquet"
    artefacts.write(to_table(sentences), "labelled_sentences", path)
    assert from_table(artefacts.read(path, "labelled_sentences")) == sentences


def test_an_empty_list_of_sentences_makes_an_empty_table_with_its_columns() -> None:
    assert to_table([]).schema.names == ["id", "text", "harmful", "toxicity", "demographics"]
    assert from_table(to_table([])) == []


def test_a_table_without_a_column_is_refused_by_name() -> None:
    table = to_table([LabelledSentence("1", SECRET, True, 4.0, ("dogs",))]).drop_columns(["toxicity"])
    with pytest.raises(EvaluationSetError, match="no column toxicity"):
        from_table(table)


def test_toxigen_has_the_published_counts(real_data: Path) -> None:
    path = real_data / "safenlp" / "toxiGen.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    sentences = read_safenlp(path)
    assert {name: (found["harmful"], found["benign"]) for name, found in counts(sentences).items()} == TOXIGEN_COUNTS
    assert len(sentences) == 6514
    assert sum(sentence.harmful for sentence in sentences) == 2767
    assert len({sentence.text for sentence in sentences}) == 6438
    assert sum(len(sentence.demographics) > 1 for sentence in sentences) == 1017
    assert [sentence.text for sentence in sentences] == [row["text"] for row in json.loads(path.read_bytes())]
    assert any(sentence.text.startswith(" ") for sentence in sentences)
    assert any("_x000D_" in sentence.text for sentence in sentences)
    assert from_table(to_table(sentences)) == sentences


@pytest.mark.slow
def test_implicit_hate_has_one_demographic_and_two_values_of_toxicity(real_data: Path) -> None:
    path = real_data / "safenlp" / "implicitHate.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    sentences = read_safenlp(path)
    assert counts(sentences) == {"all_groups": {"harmful": 7100, "benign": 7100}}
    assert {(sentence.harmful, sentence.toxicity) for sentence in sentences} == {(True, 2.25), (False, 1.0)}
    assert len({sentence.text for sentence in sentences}) == 14_189


def test_repeated_contradictory_and_escaped_texts_are_counted_and_said():
    rows = [
        ("one", True, 4.0),
        ("one", False, 2.0),
        ("two", True, 4.0),
        ("two", True, 5.0),
        ("three", True, 4.0),
        ("three", True, 4.0),
        ("four_x000D_", False, 1.0),
        ("five", False, 1.0),
    ]
    sentences = [LabelledSentence(str(n), text, harmful, t, ("a",)) for n, (text, harmful, t) in enumerate(rows)]
    found = irregularities(sentences)
    assert found == {"repeated": 3, "contradictory": 1, "differing": 1, "escaped": 1}
    assert len(irregularities_in_words(found)) == 4
    assert irregularities(sentences[-1:]) == {}


@pytest.mark.slow
@needs_toxigen
def test_the_irregular_texts_of_toxigen():
    found = irregularities(read_safenlp(TOXIGEN))
    assert found == {"repeated": 76, "contradictory": 5, "differing": 46, "escaped": 34}
