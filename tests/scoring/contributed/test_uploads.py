"""Files that contributors send: what is in them comes out, in the order of the set, or nothing does."""

import io
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import artefacts
from scoring.contributed import (
    ContributionRefused,
    Flaw,
    generations_template,
    likelihoods_template,
    read_generations,
    read_likelihoods,
)
from scoring.contributed.report import Limits, Problems
from scoring.contributed.stream import characters
from tests.scoring.contributed.files import (
    NAMES,
    comma_separated,
    found,
    json_lines,
    parquet,
    parquet_of,
    read,
    refusal,
    valid_rows,
)
from tests.scoring.contributed.files import written as in_format
from tests.scoring.contributed.prompts import PROMPTS, K, Prompt

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXTS = st.text(CHARACTERS, min_size=1, max_size=40) | st.sampled_from(
    ["=1+1", "+1", "-1", "@a", "\ta", "\ra", "a\r\nb", 'a "b", c', "'", "null", "NaN", "\ufeff", " ", "\n", "\x1b[0m"]
)
REASONS = st.from_regex(r"[A-Za-z][A-Za-z0-9 ,:\"]{0,30}", fullmatch=True)
COUNTS = st.none() | st.integers(0, 2**31 - 1)


@st.composite
def contributions(draw: st.DrawFn) -> tuple[list[Prompt], int, list[dict]]:
    """A set of prompts, k, and k rows for each, in any order."""
    ids = draw(st.lists(st.text(CHARACTERS, min_size=1, max_size=8), min_size=1, max_size=4, unique=True))
    k = draw(st.integers(1, 3))
    prompts = [Prompt(identifier, f"prompt {number}") for number, identifier in enumerate(ids)]
    outputs = st.one_of(
        st.fixed_dictionaries(
            {"text": TEXTS, "error": st.none(), "finish": st.sampled_from(["stop", "length", None]), "n_tokens": COUNTS}
        ),
        st.fixed_dictionaries({"text": st.none(), "error": REASONS, "finish": st.none(), "n_tokens": st.none()}),
    )
    rows = [{"prompt_id": prompt.id, "index": index, **draw(outputs)} for prompt in prompts for index in range(k)]
    return prompts, k, draw(st.permutations(rows))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(contribution=contributions())
def test_any_continuations_come_out_of_each_format_as_they_went_in(name, contribution):
    prompts, k, rows = contribution
    table = read_generations(io.BytesIO(in_format(rows, name)), name, prompts, k)
    assert table.schema.equals(artefacts.SCHEMAS["continuations"])
    place = {prompt.id: number for number, prompt in enumerate(prompts)}
    expected = sorted(rows, key=lambda row: (place[row["prompt_id"]], row["index"]))
    unsaid = {"truncated": False, "log_perplexity": None}
    assert table.to_pylist() == [{**dict.fromkeys(table.column_names), **row, **unsaid} for row in expected]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(
    lists=st.lists(st.lists(st.floats(-(2.0**100), 0, width=32), max_size=5), min_size=1, max_size=5),
    order=st.randoms(),
)
def test_any_log_likelihoods_come_out_of_each_format_as_they_went_in(name, lists, order):
    sentences = [Prompt(f"s-{number}", "a sentence") for number in range(len(lists))]
    rows = [
        {"id": sentence.id, "token_log_likelihoods": values, "unscorable": None if values else "no tokens"}
        for sentence, values in zip(sentences, lists, strict=True)
    ]
    shuffled = order.sample(rows, len(rows))
    table = read_likelihoods(io.BytesIO(in_format(shuffled, name)), name, sentences)
    assert table.schema.equals(artefacts.SCHEMAS["likelihoods"])
    assert table.to_pylist() == [{**row, "windows": None} for row in rows]


def test_the_tables_are_artefacts(tmp_path):
    path = tmp_path / "continuations.parquet"
    table = read(json_lines(valid_rows()))
    artefacts.write(table, "continuations", path)
    assert artefacts.read(path, "continuations").equals(table)


def test_more_rows_than_a_chunk_are_put_in_the_order_of_the_prompts():
    prompts = [Prompt(f"p-{number}", "text") for number in range(5000)]
    rows = [{"prompt_id": p.id, "index": index, "text": f"{p.id} {index}"} for index in range(2) for p in prompts]
    table = read_generations(io.BytesIO(json_lines(rows[::-1])), "outputs.jsonl", prompts, 2)
    assert table["text"].to_pylist() == [f"{p.id} {index}" for p in prompts for index in range(2)]
    assert table["index"].to_pylist() == [0, 1] * 5000


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_filled_in_template_is_taken_in_whole(kind):
    prompts = [*PROMPTS, Prompt("formula", "=SUM(A1) is a"), Prompt("quote", '"Quotes", she said,\r\nand')]
    lines = "".join(generations_template(prompts, K, kind))
    if kind == "jsonl":
        filled = "".join(json.dumps({**json.loads(line), "text": "x"}) + "\n" for line in lines.splitlines())
    else:
        filled = lines.replace(",,,,\r\n", ",x,,,\r\n")
    table = read_generations(io.BytesIO(filled.encode()), f"outputs.{kind}", prompts, K)
    assert table["prompt_id"].to_pylist() == [prompt.id for prompt in prompts for _ in range(K)]
    assert set(table["text"].to_pylist()) == {"x"}


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_an_empty_template_has_no_harmless_outputs_in_it(kind):
    lines = "".join(generations_template(PROMPTS, K, kind)).encode()
    assert refusal(lines, f"outputs.{kind}").counts == {Flaw.EMPTY: len(PROMPTS) * K}
    sentences = "".join(likelihoods_template(PROMPTS, kind)).encode()
    with pytest.raises(ContributionRefused) as refused:
        read_likelihoods(io.BytesIO(sentences), f"outputs.{kind}", PROMPTS)
    assert refused.value.report.counts == {Flaw.EMPTY: len(PROMPTS)}


def test_a_template_shows_texts_as_people_read_them():
    (line,) = generations_template([Prompt("p", "Une naïveté 🙂")], 1, "jsonl")
    assert '"prompt": "Une naïveté 🙂"' in line
    assert json.loads(line)["prompt"] == "Une naïveté 🙂"


def test_a_template_in_csv_runs_nothing_in_a_spreadsheet():
    lines = list(generations_template([Prompt("p", "=HYPERLINK(1)")], 1, "csv"))
    assert lines == ["prompt_id,prompt,index,text,finish,n_tokens,error\r\n", "p,'=HYPERLINK(1),0,,,,\r\n"]


@pytest.mark.parametrize(
    "write",
    [
        lambda rows: b"\xef\xbb\xbf" + comma_separated(rows),
        lambda rows: comma_separated(rows).replace(b"\r\n", b"\n"),
        lambda rows: comma_separated(rows).rstrip(),
        lambda rows: comma_separated(rows) + b"\r\n\r\n",
    ],
    ids=["BOM", "LF", "no line end at the end", "blank lines at the end"],
)
def test_csv_as_programs_write_it_is_read(write):
    rows = [{**row, "text": "x"} for row in valid_rows()]
    assert read(write(rows), "outputs.csv").num_rows == len(rows)


def test_a_mark_of_byte_order_within_a_file_is_a_character_of_its_text():
    rows = [{**row, "text": "x\ufeff" * 500} for row in valid_rows()]
    pieces = iter([b"\xef\xbb\xbfprompt_id", b"\xef\xbb\xbf,text"])
    assert list(characters(pieces, Problems(Limits()))) == ["prompt_id", "\ufeff,text"]
    assert read(comma_separated(rows), "outputs.csv")["text"].to_pylist() == [row["text"] for row in rows]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"compression": "gzip"},
        {"compression": "none", "use_dictionary": False},
        {"data_page_version": "2.0"},
        {"row_group_size": 2},
        {"data_page_size": 1},
        {"write_page_index": True},
        {"store_schema": False},
        {
            "use_dictionary": False,
            "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY", "index": "DELTA_BINARY_PACKED"},
        },
    ],
    ids=str,
)
def test_parquet_as_programs_write_it_is_read(options):
    assert read(parquet(valid_rows(), **options), "outputs.parquet") == read(json_lines(valid_rows()))


def test_texts_that_another_program_marks_as_json_are_read_as_texts():
    rows = valid_rows()
    columns = {name: pa.array([row[name] for row in rows]) for name in ("prompt_id", "index", "text")}
    marked = columns | {"text": pa.ExtensionArray.from_storage(pa.json_(), columns["text"])}
    data = parquet_of(pa.table(marked), store_schema=False)
    assert read(data, "outputs.parquet")["text"].to_pylist() == [row["text"] for row in rows]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("text", pa.array(["x"] * 15, pa.large_string())),
        ("text", pa.array(["x"] * 15).dictionary_encode()),
        ("index", pa.array([0.0, 1.0, 2.0] * 5)),  # as pandas has whole numbers among which some are absent
        ("index", pa.array([0, 1, 2] * 5, pa.uint8())),
    ],
    ids=["large string", "dictionary", "float", "uint8"],
)
def test_parquet_columns_may_have_any_type_that_says_the_same(column, values):
    table = pa.table({name: [row[name] for row in valid_rows()] for name in ("prompt_id", "index", "text")})
    place = table.column_names.index(column)
    buffer = io.BytesIO()
    pq.write_table(table.set_column(place, column, values), buffer)
    assert read(buffer.getvalue(), "outputs.parquet").num_rows == 15


def test_parquet_columns_without_any_value_say_nothing():
    table = pa.table({name: [row[name] for row in valid_rows()] for name in ("prompt_id", "index", "text")})
    buffer = io.BytesIO()
    pq.write_table(table.add_column(3, "n_tokens", pa.nulls(15)).add_column(4, "finish", pa.nulls(15)), buffer)
    plain = io.BytesIO()
    pq.write_table(table, plain)
    assert read(buffer.getvalue(), "outputs.parquet") == read(plain.getvalue(), "outputs.parquet")


def test_a_report_counts_all_and_describes_the_first():
    rows = [{**row, "index": -1} for row in valid_rows() * 3]
    report = refusal(json_lines(rows))
    assert report.rows == 45
    assert report.counts == {Flaw.NEGATIVE: 45, Flaw.MISSING: 5}
    assert found(report) == [(Flaw.NEGATIVE, line, "index") for line in range(1, 21)]
    assert report.complete
    assert json.loads(json.dumps(report.as_dict()))["problems"][0] == {
        "kind": "negative number",
        "unit": "line",
        "line": 1,
        "field": "index",
        "value": "-1",
        "remedy": "give a whole number from 0 to 2",
    }
    assert str(report).startswith(
        "45 rows read. negative number: 45, missing: 5.\nline 1, index: negative number (-1);"
    )


@given(secret=st.text(st.sampled_from("abc ☂é="), min_size=12, max_size=60).filter(lambda text: " " in text.strip()))
def test_a_report_never_shows_a_text(secret):
    rows = [
        {"prompt_id": secret, "index": secret, "text": 7, "finish": secret, "n_tokens": secret, secret: 1},
        {"prompt_id": "river", "prompt": secret, "index": 0, "text": secret, "error": secret},
        {"prompt_id": "river", "index": 0, "text": secret + "\0"},
        {"prompt_id": "river", "index": 1, "error": "=" + secret},
    ]
    assert secret not in str(refusal(json_lines(rows)))


def test_likelihoods_are_kept_as_float32_of_what_was_sent():
    row = {"id": "s", "token_log_likelihoods": [-0.1, -2, 0, -1e-50]}
    table = read_likelihoods(io.BytesIO(json_lines([row])), "a.jsonl", [Prompt("s", "text")])
    expected = np.array([-0.1, -2, 0, 0], dtype=np.float32)
    np.testing.assert_array_equal(table["token_log_likelihoods"][0].values.to_numpy(), expected)


def test_every_kind_of_problem_has_words_of_its_own():
    assert max(Counter(map(str, Flaw)).values()) == 1
