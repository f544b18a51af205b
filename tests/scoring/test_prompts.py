"""Prompt sets: read whole, or refused with a message that quotes no text; published scores are kept apart."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring import artefacts
from scoring.evaluation_sets import EvaluationSetError
from scoring.evaluation_sets.prompts import (
    ATTRIBUTES,
    LONGEST_LINE,
    Prompt,
    PublishedContinuation,
    prompt_scores_table,
    prompts_from_table,
    prompts_table,
    published_continuations_table,
    published_scores_table,
    read_bold,
    read_prompts,
)
from tests.data import DATA

SECRET = "zebra-crossing unspoken sentence"
RTP_SAMPLE = DATA / "real_toxicity_prompts" / "sample_993.jsonl"
BOLD = DATA / "bold" / "prompts"
BOLD_COUNTS = {
    "gender": 3204,
    "political_ideology": 1984 - 3,  # which are empty strings, as are two of those on religious ideologies
    "profession": 10_195,
    "race": 7657,
    "religious_ideology": 639 - 2,
}


def rtp(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A record as RealToxicityPrompts has them."""
    return {
        "filename": "0766186-bc7f.txt",
        "begin": 340 + number,
        "end": 564,
        "challenging": False,
        "prompt": {"text": f"{SECRET} {number}", "toxicity": 0.29, "threat": None, "flirtation": 1},
        "continuation": {"text": f" {SECRET} goes on", "toxicity": 0.05, "insult": None},
        **changes,
    }


@pytest.fixture
def written(tmp_path: Path):
    """Write records as JSON lines, text or bytes as they are; return the file."""

    def write(content: Any, name: str = "set.jsonl") -> Path:
        path = tmp_path / name
        if isinstance(content, list):
            content = "\n".join(json.dumps(record) for record in content) + "\n"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_record_of_real_toxicity_prompts_keeps_its_scores_and_its_continuation(written):
    (found,) = read_prompts(written([rtp()]))
    assert found == Prompt(
        id="0766186-bc7f.txt:340-564",
        text=f"{SECRET} 0",
        scores={"toxicity": 0.29, "threat": None, "flirtation": 1.0},
        challenging=False,
        published=PublishedContinuation(f" {SECRET} goes on", {"toxicity": 0.05, "insult": None}),
    )


def test_flat_records_need_a_text_alone(written):
    found = read_prompts(written([{"text": " a"}, {"prompt": "b ", "group": "dogs", "other": [1]}]))
    assert found == [Prompt("1", " a"), Prompt("2", "b ", group="dogs")]


def test_flat_records_may_have_ids_and_scores(written):
    found = read_prompts(written([{"id": 7, "text": "a", "toxicity": 0.5}, {"id": "x", "prompt": "b", "insult": None}]))
    assert found == [Prompt("7", "a", scores={"toxicity": 0.5}), Prompt("x", "b", scores={"insult": None})]


def test_csv_has_the_same_columns(written):
    text = 'id,prompt,group,toxicity,challenging,note\nx,"said ""a"",\nand",dogs,0.5,true,n\ny,b,,,,\n'
    assert read_prompts(written(text, "set.csv")) == [
        Prompt("x", 'said "a",\nand', "dogs", {"toxicity": 0.5}, challenging=True),
        Prompt("y", "b"),
    ]


@pytest.mark.parametrize("name", ["set.jsonl", "set.csv"])
def test_a_byte_order_mark_and_blank_lines_are_passed_over(written, name):
    text = "text\na\n\nb\n" if name.endswith("csv") else '{"text": "a"}\n\n{"text": "b"}'
    assert [prompt.text for prompt in read_prompts(written(b"\xef\xbb\xbf" + text.encode(), name))] == ["a", "b"]


BAD_RECORDS = [
    # changes, field, what the message says
    ({"prompt": None}, "prompt", "is a JSON null; give a string"),
    ({"prompt": ""}, "prompt", "is empty"),
    ({"prompt": {"toxicity": 0.5}}, "prompt.text", "is missing"),
    ({"prompt": {"text": " \n"}}, "prompt.text", "is empty"),
    ({"prompt": {"text": SECRET + "\udfff"}}, "prompt.text", "half a surrogate pair"),
    ({"prompt": {"text": SECRET, "toxicity": 1.01}}, "prompt.toxicity", "is 1.01; give a number from 0 to 1, or null"),
    ({"prompt": {"text": SECRET, "threat": -0.1}}, "prompt.threat", "is -0.1"),
    ({"prompt": {"text": SECRET, "threat": float("nan")}}, "prompt.threat", "is nan"),
    ({"prompt": {"text": SECRET, "threat": SECRET}}, "prompt.threat", "is a string of"),
    ({"prompt": {"text": SECRET, "threat": True}}, "prompt.threat", "is a JSON boolean"),
    ({"continuation": SECRET}, "continuation", "is a string of"),
    ({"continuation": {}}, "continuation.text", "is missing"),
    ({"continuation": {"text": SECRET, "insult": 2}}, "continuation.insult", "is 2"),
    ({"challenging": "yes"}, "challenging", "give true or false"),
    ({"group": 3}, "group", "is a JSON number; give a name"),
    ({"begin": "340"}, "begin", "give a whole number"),
    ({"begin": True}, "begin", "give a whole number"),
    ({"filename": 1}, "filename", "give a name"),
    ({"id": None}, "id", "is a JSON null; give an integer or a string"),
    ({"id": " "}, "id", "is empty"),
    ({"begin": 340}, "id", "is also that of record 1"),
]


@pytest.mark.parametrize(("changes", "field", "said"), BAD_RECORDS, ids=[f"{f}: {s}" for _, f, s in BAD_RECORDS])
def test_a_bad_record_is_refused_by_line_and_field_without_its_text(written, changes, field, said):
    with pytest.raises(EvaluationSetError) as refused:
        read_prompts(written([rtp(), rtp(1, **changes), rtp(2)]))
    assert (refused.value.record, refused.value.field) == (2, field)
    assert f"set.jsonl, line 2, {field}: " in str(refused.value)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("missing", ["prompt", "filename", "begin", "end"])
def test_a_missing_key_is_named(written, missing):
    record = {key: value for key, value in rtp(1).items() if key != missing}
    with pytest.raises(EvaluationSetError, match=f"line 2, {missing}: is missing"):
        read_prompts(written([rtp(), record]))


BAD_FILES = {
    "empty": (b"", "set.jsonl holds 0 prompts"),
    "blank": (b"\n \n", "set.jsonl holds 0 prompts"),
    "not UTF-8": (b'{"text": "a"}\n{"text": "\xe9"}\n', "line 2 is not UTF-8"),
    "not JSON": (b'{"text": "a"}\ntext: b\n', "line 2 is not JSON"),
    "cut short": (json.dumps(rtp()).encode()[:-9], "line 1 is not JSON"),
    "a list": (b"[1]\n", "line 1 is a JSON list"),
    "too many digits": (b'{"id": ' + b"9" * 5000 + b', "text": "a"}', "line 1 has a number of too many digits"),
    "nested deeply": (b"[" * 100_000, "line 1 is nested too deeply"),
    "one endless line": (b'{"text": "' + b"a" * LONGEST_LINE + b'"}', "line 1 is longer than"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_set_is_refused_by_name_and_line(written, name):
    content, said = BAD_FILES[name]
    with pytest.raises(EvaluationSetError, match=said):
        read_prompts(written(content))


BAD_CSV = {
    "empty": (b"", "set.csv holds 0 prompts"),
    "header alone": (b"text\n", "set.csv holds 0 prompts"),
    "no text": (b"id,note\n1,a\n", r"line 2 \(id 1\), prompt: is missing"),
    "an empty text": (b"id,text\n1,\n", r"line 2 \(id 1\), prompt: is missing"),
    "too few cells": (b"id,text\n1\n", "line 2 has 1 cells under 2 columns"),
    "a column twice": (b"text,text\na,b\n", "names a column twice"),
    "a score that is no number": (b"text,toxicity\na,high\n", "toxicity: is a string of 4 characters"),
    "a score too large": (b"text,toxicity\na,50\n", "toxicity: is 50.0"),
    "an open quote": (b'text\n"a\n', "is not CSV"),
    "not UTF-8": (b"text\n\xe9\n", "is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_file_is_refused_by_name_and_line(written, name):
    content, said = BAD_CSV[name]
    with pytest.raises(EvaluationSetError, match=said):
        read_prompts(written(content, "set.csv"))


def test_prompts_and_scores_are_artefacts_of_their_own(written, tmp_path):
    prompts = read_prompts(written([rtp(), rtp(1, continuation=None), {"text": "b", "group": "dogs"}]))
    tables = {
        "prompts": prompts_table(prompts),
        "prompt_scores": prompt_scores_table(prompts),
        "published_continuations": published_continuations_table(prompts),
    }
    for kind, table in tables.items():
        artefacts.write(table, kind, tmp_path / kind)
        assert artefacts.read(tmp_path / kind, kind).equals(table)
    assert tables["prompts"].column_names == ["id", "text", "group"]
    assert prompts_from_table(tables["prompts"]) == [Prompt(p.id, p.text, p.group) for p in prompts]
    first, second = prompts[0].id, prompts[1].id
    assert [tuple(row.values()) for row in tables["prompt_scores"].to_pylist()] == [
        (of, name, score) for of in (first, second) for name, score in prompts[0].scores.items()
    ]
    assert tables["published_continuations"].to_pylist() == [{"prompt_id": first, "text": f" {SECRET} goes on"}]
    assert published_scores_table(prompts).to_pylist() == [
        {"id": first, "attribute": "toxicity", "score": 0.05},
        {"id": first, "attribute": "insult", "score": None},
    ]


def test_bold_is_read_by_domain_subgroup_and_entity(tmp_path):
    (tmp_path / "b_prompt.json").write_text(json.dumps({"sub": {"One": ["a ", "", "b "], "Two": ["c "]}}))
    (tmp_path / "a_prompt.json").write_text(json.dumps({"other": {"One": ["d "]}}))
    assert read_prompts(tmp_path) == [
        Prompt("a/other/One/1", "d ", "other"),
        Prompt("b/sub/One/1", "a ", "sub"),
        Prompt("b/sub/One/3", "b ", "sub"),
        Prompt("b/sub/Two/1", "c ", "sub"),
    ]


BAD_BOLD = {
    "not JSON": ("{", "x_prompt.json is not JSON"),
    "a list": ("[1]", "subgroups are a JSON list"),
    "entities of another kind": ('{"a": [1]}', "entities are a JSON list"),
    "no list": ('{"a": {"b": "c"}}', "holds a JSON string; give a list"),
    "an empty text": ('{"a": {"b": ["c", "", " "]}}', "record 3, text: is empty"),
    "no text": ('{"a": {"b": [1]}}', "record 1, text: is a JSON number"),
    "an empty name": ('{"": {}}', "subgroups has an empty name"),
    "nothing": ("{}", "holds 0 prompts"),
}


@pytest.mark.parametrize("name", BAD_BOLD)
def test_a_bad_file_of_bold_is_refused_by_name_and_record(tmp_path, name):
    content, said = BAD_BOLD[name]
    (tmp_path / "x_prompt.json").write_text(content)
    with pytest.raises(EvaluationSetError, match=said):
        read_bold(tmp_path)


def test_a_folder_without_bold_is_refused(tmp_path):
    with pytest.raises(EvaluationSetError, match=r"no file named \*_prompt.json"):
        read_prompts(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_byte_is_refused_or_read_and_never_quoted(written, place, byte):
    whole = bytearray("\n".join(json.dumps(rtp(number)) for number in range(3)).encode())
    whole[place % len(whole)] = byte
    message = ""
    try:
        found = len(read_prompts(written(bytes(whole))))
    except EvaluationSetError as refused:
        found, message = 3, str(refused)
    assert found == 3
    assert SECRET not in message


@pytest.mark.slow
def test_a_hundred_thousand_lines_are_read(tmp_path):
    path = tmp_path / "large.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps(rtp(number)) + "\n" for number in range(100_000))
    found = read_prompts(path)
    assert len(found) == 100_000
    assert found[-1].id == "0766186-bc7f.txt:100339-564"


@pytest.mark.skipif(not RTP_SAMPLE.exists(), reason="the sample of RealToxicityPrompts is not here")
def test_the_sample_of_real_toxicity_prompts_is_whole():
    found = read_prompts(RTP_SAMPLE)
    assert len(found) == 993
    assert [prompt.text for prompt in found] == [
        json.loads(line)["text"] for line in RTP_SAMPLE.read_bytes().splitlines()
    ]
    scores = prompt_scores_table(found)
    assert scores.num_rows == 993 * 8
    assert set(scores["attribute"].to_pylist()) == set(ATTRIBUTES)
    toxicity = [prompt.scores["toxicity"] for prompt in found]
    assert (min(toxicity) > 0.5, round(sum(toxicity) / 993, 3)) == (True, 0.876)


@pytest.mark.slow
@pytest.mark.skipif(not BOLD.exists(), reason="BOLD is not here")
def test_bold_has_the_published_counts():
    found = read_prompts(BOLD)
    domains = [prompt.id.split("/")[0] for prompt in found]
    assert {domain: domains.count(domain) for domain in BOLD_COUNTS} == BOLD_COUNTS
    assert len(found) == 23_679 - 5
    assert len({(prompt.id.split("/")[0], prompt.group) for prompt in found}) == len({p.group for p in found}) == 43
