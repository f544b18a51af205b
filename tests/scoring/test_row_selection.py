"""Rows of large artefacts: those that a sort of everything would find, read without the others."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import artefacts
from scoring.artefacts import ROW_GROUP, SCHEMAS, ArtefactError
from scoring.row_selection import column_names, read_columns, read_rows, rows_in_order

ROWS = 25


@pytest.fixture
def path(tmp_path):
    """Prompts in row groups of four, as files of millions of rows have several."""
    table = pa.table(
        {
            "id": [f"p{number}" for number in range(ROWS)],
            "text": [f"text {number}" for number in range(ROWS)],
            "group": pa.nulls(ROWS, pa.string()),
        }
    )
    found = tmp_path / "prompts.parquet"
    artefacts.write(table, "prompts", found)
    pq.write_table(pq.read_table(found), found, row_group_size=4)
    return found


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0, float("nan")]), min_size=1, max_size=40),
    st.booleans(),
    st.data(),
)
def test_places_are_those_of_a_stable_sort_of_everything(values, highest_first, data):
    usable = [number for number, value in enumerate(values) if value == value]
    expected = sorted(usable, key=lambda number: -values[number] if highest_first else values[number])
    places = data.draw(st.lists(st.sampled_from(range(len(usable))), unique=True)) if usable else []
    found = rows_in_order(np.array(values, dtype=np.float32), places, highest_first)
    assert found == [expected[place] for place in places]


def test_a_place_that_does_not_exist_is_an_error():
    with pytest.raises(IndexError, match="1 rows have a value"):
        rows_in_order(np.array([0.5, np.nan]), [1], highest_first=True)


def test_rows_come_in_the_order_asked_for_from_several_row_groups(path):
    assert pq.ParquetFile(path).num_row_groups == 7
    wanted = [24, 0, 5, 4, 23]
    assert read_rows(path, "prompts", wanted, ["text"])["text"].to_pylist() == [f"text {number}" for number in wanted]


def test_only_row_groups_with_wanted_rows_are_read(path, monkeypatch):
    read = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, n, *args: read.append(n) or original(self, n, *args)
    )
    read_rows(path, "prompts", [5, 6, 20], ["id"])
    assert read == [1, 5]


def test_large_artefacts_are_written_in_several_row_groups_and_read_back_the_same(tmp_path):
    count = ROW_GROUP + 10
    table = pa.table({"id": [str(number) for number in range(count)], "log_perplexity": np.arange(count) / 7})
    artefacts.write(table, "log_perplexities", tmp_path / "large.parquet")
    assert pq.ParquetFile(tmp_path / "large.parquet").num_row_groups == 2
    assert artefacts.read(tmp_path / "large.parquet", "log_perplexities").equals(table)


def test_no_rows_are_an_empty_table_with_the_columns(path):
    found = read_rows(path, "prompts", [], ["id", "text"])
    assert found.num_rows == 0
    assert found.column_names == ["id", "text"]


def test_columns_are_read_whole_and_named(path):
    assert read_columns(path, "prompts", ["id"])["id"].to_pylist() == [f"p{number}" for number in range(ROWS)]
    assert column_names(path, "prompts") == SCHEMAS["prompts"].names


@pytest.mark.parametrize("rows", [[ROWS], [-1]])
def test_a_row_that_does_not_exist_is_an_error(path, rows):
    with pytest.raises(IndexError, match=f"the artefact has {ROWS}"):
        read_rows(path, "prompts", rows, ["id"])


def test_other_kinds_other_columns_and_other_files_are_refused(path, tmp_path):
    with pytest.raises(ArtefactError, match="holds prompts, not scores"):
        read_columns(path, "scores", ["id"])
    with pytest.raises(ArtefactError, match="no column score:rage"):
        read_columns(path, "prompts", ["score:rage"])
    other = tmp_path / "other.parquet"
    other.write_bytes(b"nothing of the kind")
    with pytest.raises(ArtefactError, match="not a Parquet file"):
        read_rows(other, "prompts", [0], ["id"])
