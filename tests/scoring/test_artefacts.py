"""Artefacts: what a file says of itself, and what is no artefact that can be read."""

import errno
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scoring import artefacts
from scoring.artefacts import SCHEMAS, ArtefactError

TABLE = pa.table({"id": ["a", "b"], "log_perplexity": [1.5, None]})
ROW = {"id": ["p"], "index": pa.array([0], pa.int32()), "reason": pa.nulls(1, pa.string()), "truncated": [False]}


def test_a_file_is_read_as_its_kind_alone(tmp_path):
    path = tmp_path / "a.parquet"
    artefacts.write(TABLE, "log_perplexities", path, {b"note": b"more"})
    assert artefacts.read(path, "log_perplexities").equals(TABLE)
    assert pq.read_schema(path).metadata == {
        b"plumbline.kind": b"log_perplexities",
        b"plumbline.schema_version": b"1",
        b"note": b"more",
    }
    with pytest.raises(ArtefactError, match="the artefact holds log_perplexities, not scores"):
        artefacts.read(path, "scores")
    pq.write_table(TABLE, path)
    with pytest.raises(ArtefactError, match="the artefact holds nothing known, not scores"):
        artefacts.read(path, "scores")


def test_a_file_of_a_later_version_is_refused_with_the_remedy(tmp_path):
    metadata = {b"plumbline.kind": b"log_perplexities", b"plumbline.schema_version": b"2"}
    pq.write_table(TABLE.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    with pytest.raises(ArtefactError, match="has schema version 2, this is 1: upgrade Plumbline to read it"):
        artefacts.read(tmp_path / "a.parquet", "log_perplexities")


def test_a_damaged_file_is_no_artefact(tmp_path):
    path = tmp_path / "a.parquet"
    long = pa.table(
        {"id": [f"text {number}" for number in range(500)], "log_perplexity": [number / 7 for number in range(500)]}
    )
    artefacts.write(long, "log_perplexities", path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ArtefactError, match="this is not a whole Parquet file"):
        artefacts.read(path, "log_perplexities")
    place = pq.read_metadata(pa.BufferReader(whole)).row_group(0).column(1).data_page_offset + 100
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(ArtefactError, match=r"this is not a whole Parquet file: .*(CRC|checksum)"):
        artefacts.read(path, "log_perplexities")


def test_an_error_of_the_file_system_says_nothing_of_the_file():
    class Broken(io.BytesIO):
        def read(self, *_size: int) -> bytes:
            raise OSError(errno.EIO, "the disk is broken")

    with pytest.raises(OSError, match="the disk is broken") as raised:
        artefacts.read(Broken(bytes(100)), "scores")
    assert not isinstance(raised.value, ArtefactError)


def test_scores_have_a_column_for_each_attribute_and_references_their_replicates_too(tmp_path):
    scores = pa.table({**ROW, "score:b": [0.5], "other": ["x"], "score:a": [None]})
    artefacts.write(scores, "scores", tmp_path / "a.parquet")
    read = artefacts.read(tmp_path / "a.parquet", "scores")
    assert read.column_names == [*SCHEMAS["scores"].names, "score:b", "score:a"]
    assert {read.schema.field(name).type for name in ("score:a", "score:b")} == {pa.float32()}
    reference = pa.table({"id": ["p"], "replicates:b": [[0.5, 0.25]], "score:b": [0.5], "more": [1]})
    artefacts.write(reference, "control_reference", tmp_path / "b.parquet")
    read = artefacts.read(tmp_path / "b.parquet", "control_reference")
    assert read.to_pylist() == [{"id": "p", "score:b": 0.5, "replicates:b": [0.5, 0.25]}]
    assert read.schema.field("replicates:b").type == pa.list_(pa.float32())


def test_what_a_server_said_of_itself_is_kept_with_what_it_gave(tmp_path):
    table = TABLE.append_column("answered_by", pa.array(['{"model": "m"}', None])).append_column(
        "more", pa.array([1, 2])
    )
    artefacts.write(table, "log_perplexities", tmp_path / "a.parquet")
    assert artefacts.read(tmp_path / "a.parquet", "log_perplexities").column_names == [
        *TABLE.column_names,
        "answered_by",
    ]


def test_the_bytes_of_a_file_depend_on_its_values_alone(tmp_path):
    for name in "ab":
        artefacts.write(
            TABLE.select(TABLE.column_names[:: 1 if name == "a" else -1]), "log_perplexities", tmp_path / name
        )
    assert artefacts.sha256(tmp_path / "a") == artefacts.sha256(tmp_path / "b")
    assert pq.read_metadata(tmp_path / "a").row_group(0).column(0).compression == "ZSTD"
