"""Files made to harm: memory and time stay within limits, whatever a file claims of itself."""

import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.contributed import ContributionRefused, Flaw, Limits, read_generations
from scoring.contributed.pages import chunks, pages
from scoring.contributed.thrift import ThriftError
from scoring.contributed.tools import read_log
from scoring.contributed.tools.harness import results_of
from tests.scoring.contributed.files import (
    NAMES,
    found,
    json_lines,
    parquet,
    parquet_of,
    read,
    read_scores,
    refusal,
    valid_rows,
    written,
)
from tests.scoring.contributed.prompts import PROMPTS, K, Prompt
from tests.scoring.contributed.test_logs import LOGS

MEGABYTE = 2**20


class Stream(io.RawIOBase):
    """A file that is made as it is read, from its start, and has no end of its own."""

    def __init__(self, head: bytes, piece: Callable[[int], bytes], count: int, tail: bytes = b"") -> None:
        self._parts = (head, piece, count, tail)
        self.seek(0)

    def seek(self, offset: int, whence: int = 0) -> int:
        assert (offset, whence) == (0, 0)
        head, piece, count, tail = self._parts
        self._pieces = (part for parts in ([head], map(piece, range(count)), [tail]) for part in parts)
        self._rest = b""
        return 0

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


@contextmanager
def within(megabytes: int) -> Iterator[None]:
    """Python allocates at most so much more at any time. What Arrow allocates is measured by its own pool."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE
    assert pa.total_allocated_bytes() - before < megabytes * MEGABYTE


def packed(content: bytes, times: int) -> bytes:
    """Gzip of a content many times."""
    compressor = zlib.compressobj(9, wbits=31)
    return b"".join([*(compressor.compress(content) for _ in range(times)), compressor.flush()])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["outputs.jsonl.gz", "outputs.csv.gz"])
@pytest.mark.parametrize(
    "content", [b"\0" * MEGABYTE, b"ab\n" * MEGABYTE, b'"' + b"a" * MEGABYTE], ids=["0", "lines", "a"]
)
def test_a_bomb_of_gzip_is_put_out_early(name, content):
    data = packed(content, 200)
    assert len(data) < MEGABYTE
    with within(40):
        report = refusal(data, name)
    assert set(report.counts) <= {Flaw.BOMB, Flaw.TOO_LONG, Flaw.NOT_JSON, Flaw.UNKNOWN_COLUMN, Flaw.MISSING_COLUMN}
    assert not report.complete


def test_what_packs_well_but_is_small_is_taken_in():
    rows = [{**row, "text": "a" * 60_000} for row in valid_rows()]
    data = gzip.compress(json_lines(rows))
    assert len(json_lines(rows)) > 100 * len(data)
    assert read(data, "outputs.jsonl.gz").num_rows == len(rows)


@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.csv"])
def test_a_line_without_end_is_given_up(name):
    with within(40), pytest.raises(ContributionRefused) as refused:
        read_generations(Stream(b"", lambda _: b"a" * MEGABYTE, 10**6), name, PROMPTS, K)
    assert found(refused.value.report) == [(Flaw.TOO_LONG, 1, None)]


@pytest.mark.slow
def test_a_cell_of_csv_without_end_is_given_up():
    head = b'prompt_id,index,text\r\nriver,0,"'
    with within(60), pytest.raises(ContributionRefused) as refused:
        read_generations(Stream(head, lambda _: b"a\n" * 1000, 10**6), "outputs.csv", PROMPTS, K)
    assert refused.value.report.problems[0].kind == Flaw.TOO_LONG


@pytest.mark.parametrize(
    ("limits", "kinds"),
    [
        (Limits(sent_bytes=100), {Flaw.TOO_LARGE}),
        (Limits(uncompressed_bytes=100), {Flaw.TOO_LARGE, Flaw.BOMB}),
        (Limits(rows=14), {Flaw.TOO_MANY_ROWS}),
        (Limits(text_characters=5), {Flaw.TOO_LONG}),
        (Limits(line_bytes=20), {Flaw.TOO_LONG}),
    ],
    ids=["sent", "uncompressed", "rows", "text", "line"],
)
@pytest.mark.parametrize("name", NAMES)
def test_each_limit_is_kept_in_each_format(name, limits, kinds):
    if name == "outputs.parquet" and limits.line_bytes == 20:
        pytest.skip("Parquet has no lines")
    counts = refusal(written([{**row, "text": row["text"] * 9} for row in valid_rows()], name), name, limits).counts
    assert counts
    assert set(counts) <= kinds


def test_a_text_as_long_as_the_limit_is_read():
    rows = [{**row, "text": "a" * 5} for row in valid_rows()]
    file = io.BytesIO(written(rows, "outputs.jsonl"))
    table = read_generations(file, "outputs.jsonl", PROMPTS, K, limits=Limits(text_characters=5))
    assert set(table["text"].to_pylist()) == {"a" * 5}


def test_the_rest_is_not_read_after_too_many_problems():
    report = refusal(json_lines([{"prompt_id": "x", "index": 0, "text": "a"}] * 50), limits=Limits(problems=30))
    assert (report.rows, report.total, report.complete) == (30, 30, False)
    assert len(report.problems) == 20


@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.csv"])
def test_blank_lines_are_passed_over_but_not_without_end(name):
    head = written(valid_rows(), name)
    assert read(head + b"\r\n" * 1000, name).num_rows == 15
    assert refusal(head + b"\r\n" * 1000, name, Limits(rows=500)).counts == {Flaw.TOO_MANY_ROWS: 1}


@pytest.mark.slow
def test_what_is_refused_takes_no_memory():
    foreign = json.dumps({"prompt_id": "x", "index": 0, "text": "a" * 2000}).encode() + b"\n"
    with within(8), pytest.raises(ContributionRefused) as refused:
        read_generations(Stream(b"", lambda _: foreign, 50_000), "outputs.jsonl", PROMPTS, K)
    assert refused.value.report.counts[Flaw.FOREIGN_ID] == 50_000


@pytest.mark.slow
def test_what_is_taken_in_takes_little_more_than_its_table():
    count, size = 40_000, 1000
    prompts = [Prompt(str(number), "") for number in range(count)]
    before = pa.total_allocated_bytes()
    stream = Stream(
        b"", lambda n: json.dumps({"prompt_id": str(n), "index": 0, "text": "a" * size}).encode() + b"\n", count
    )
    tracemalloc.start()
    table = read_generations(stream, "outputs.jsonl", prompts, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.nbytes > count * size
    assert pa.total_allocated_bytes() - before < 1.5 * table.nbytes
    assert peak < 16 * MEGABYTE  # of Python, for 40 MB of texts


@pytest.mark.slow
def test_a_scenario_state_of_any_size_is_read_record_by_record():
    state = json.loads((LOGS / "scenario_state.json").read_text())
    record = state["request_states"][0]
    record["result"]["completions"][0]["text"] = "a" * 30_000
    prompts = [Prompt(str(number), f"prompt {number}") for number in range(1000)]

    def piece(number: int) -> bytes:
        record["instance"] |= {"input": {"text": prompts[number].text}, "id": f"id{number}"}
        record["request"]["prompt"] = prompts[number].text
        return (",\n" if number else "").encode() + json.dumps(record).encode()

    stream = Stream(b'{"adapter_spec": {}, "request_states": [', piece, len(prompts), b"]}")
    tracemalloc.start()
    table = read_log(stream, "scenario_state.json", prompts, K).table
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.num_rows == 3000
    assert table.nbytes > 25 * MEGABYTE
    assert peak < 8 * MEGABYTE  # of Python: the table is Arrow's


@pytest.mark.parametrize("head", [b'{"adapter_spec": "', b'{"adapter_spec": {}, "request_states": [', b'{"version": ['])
def test_a_value_of_json_without_end_is_given_up(head):
    filler = {b'"': b"a", b"[": b"1"}[head[-1:]]
    with within(60), pytest.raises(ContributionRefused) as refused:
        read_log(Stream(head, lambda _: filler * MEGABYTE, 10**5), "log.json", PROMPTS, K)
    assert set(refused.value.report.counts) <= {Flaw.TOO_LONG, Flaw.NOT_JSON}


@pytest.mark.parametrize("rest", ["{", "[{"], ids=["a value", "an element"])
def test_a_member_is_named_only_where_its_name_looks_like_one(rest):
    def message(name: str) -> str:
        with pytest.raises(ContributionRefused) as refused:
            results_of(io.BytesIO(f'{{"{name}": {rest}'.encode()))
        return str(refused.value)

    assert "results" in message("results")
    for name in ("res\ufeffults", "what somebody wrote there", "long" * 100):
        assert name not in message(name)
        assert f"a string of {len(name)} characters" in message(name)


def indices(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int32()), count)


def texts_of(prompt_ids: Sequence[str] | pa.Array) -> pa.Table:
    return pa.table({"prompt_id": pa.array(prompt_ids), "index": indices(len(prompt_ids))})


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda: parquet_of(texts_of(["a" * 10**8]), compression="zstd"), Flaw.BOMB),
        (lambda: parquet_of(texts_of(["a" * 2 * 10**7]), compression="none"), Flaw.BOMB),
        (lambda: parquet_of(texts_of(pa.repeat("a", 6 * 10**6))), Flaw.TOO_MANY_ROWS),
        (
            lambda: parquet_of(
                texts_of(["ab", "abc"]), use_dictionary=False, column_encoding={"prompt_id": "DELTA_BYTE_ARRAY"}
            ),
            Flaw.NOT_PARQUET,
        ),
        (lambda: parquet_of(texts_of(["a"]).replace_schema_metadata({"k": "v" * 2**21})), Flaw.TOO_LARGE),
        (lambda: parquet_of(pa.table({f"c{number}": [1] for number in range(4000)})), Flaw.UNKNOWN_COLUMN),
    ],
    ids=["packed page", "large dictionary", "rows", "encoding", "metadata", "columns"],
)
def test_parquet_that_is_more_than_it_seems_is_refused_before_it_is_unpacked(write, kind):
    data = write()
    with within(24):
        report = refusal(data, "outputs.parquet")
    assert kind in report.counts
    assert report.rows == 0


@pytest.mark.slow
def test_a_list_in_parquet_of_millions_of_equal_numbers_is_refused_before_it_is_unpacked():
    count = 2 * 10**7
    numbers = pa.ListArray.from_arrays(
        pa.array([0, count], pa.int32()), pa.repeat(pa.scalar(-1.0, pa.float32()), count)
    )
    data = parquet_of(pa.table({"id": ["river"], "token_log_likelihoods": numbers}))
    assert len(data) < 10**5
    del numbers
    with within(8):
        assert refusal(data, "outputs.parquet", reader=read_scores).counts == {Flaw.BOMB: 1}


@pytest.mark.slow
def test_a_text_in_parquet_that_many_rows_share_counts_for_each():
    shared = pa.repeat("a" * 60_000, 10_000)
    data = parquet_of(pa.table({"prompt_id": pa.repeat("x", 10_000), "index": indices(10_000), "text": shared}))
    del shared
    with within(64):
        report = refusal(data, "outputs.parquet", Limits(uncompressed_bytes=10**8))
    assert report.counts[Flaw.BOMB] == 1
    assert report.rows < 3000


def test_what_is_read_of_a_footer_and_of_pages_is_what_the_writer_said():
    data = parquet(valid_rows(), compression="none", data_page_size=1, row_group_size=8)
    metadata = pq.read_metadata(io.BytesIO(data))
    rows, columns = chunks(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    assert rows == metadata.num_rows
    assert len(columns) == metadata.num_columns * metadata.num_row_groups
    for number, chunk in enumerate(columns):
        column = metadata.row_group(chunk.group - 1).column(number % metadata.num_columns)
        expected = (column.path_in_schema, column.dictionary_page_offset, column.total_compressed_size)
        assert (chunk.name, chunk.start, chunk.size) == expected
        found = list(pages(io.BytesIO(data), chunk.start, chunk.size))
        assert sum(page.values for page in found if not page.dictionary) == column.num_values
        headers = column.total_uncompressed_size - sum(page.unpacked for page in found)
        assert 0 < headers < 100 * len(found)
        assert [page.dictionary for page in found] == [True] + [False] * (len(found) - 1)


@given(st.binary(max_size=60))
def test_page_headers_of_any_bytes_are_read_or_refused(data):
    try:
        for page in pages(io.BytesIO(data), 0, len(data)):
            assert min(page.packed, page.unpacked, page.values) >= 0
    except ThriftError:
        pass


def changed(data: st.DataObject, whole: bytes) -> bytes:
    """The file with one to three bytes of it changed."""
    found = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        found[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    return bytes(found)


def rows_or_problems(reader: Callable[[], pa.Table]) -> tuple[int, int]:
    """How many rows were taken in, or how many problems there are; whatever else is raised passes through."""
    try:
        return reader().num_rows, 0
    except ContributionRefused as refused:
        return 0, refused.report.total


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150)
@given(data=st.data())
def test_bytes_that_were_changed_are_refused_or_read_but_never_anything_else(name, data):
    content = changed(data, written(valid_rows(), name))
    rows, problems = rows_or_problems(lambda: read(content, name))
    assert (rows, problems) == (15, 0) or problems > 0


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["inspect.eval", "inspect.json", "scenario_state.json"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_logs_with_changed_bytes_are_refused_or_read_but_never_anything_else(name, data):
    content = changed(data, (LOGS / name).read_bytes())
    rows, problems = rows_or_problems(lambda: read_log(io.BytesIO(content), name, PROMPTS, K).table)
    assert (rows, problems) == (15, 0) or problems > 0
