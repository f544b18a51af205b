"""Headers of safetensors and the index of shards: read as the format has them, and refused where they are not whole."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from scoring.language_models import ModelRefused, weights
from scoring.language_models.weights import (
    ITEM_BYTES,
    StoredTensor,
    Weights,
    choose_weights,
    read_header,
    read_index,
    read_weights,
    refuse_excess,
)

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
INDEX = "model.safetensors.index.json"


def write(path: Path, header: dict[str, Any] | bytes, size: int = 24, length: int | None = None) -> Path:
    """A safetensors file with this header and so many bytes of numbers."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(content) if length is None else length).to_bytes(8, "little") + content + bytes(size))
    return path


@pytest.mark.parametrize("kind", ITEM_BYTES)
def test_tensors_of_each_type_are_as_long_as_their_numbers(kind, tmp_path):
    bits = 8 if kind == "BOOL" else int(re.search(r"\d+", kind)[0])
    span = [0, 6 * bits // 8]
    path = write(tmp_path / "a.safetensors", {"w": {"dtype": kind, "shape": [2, 3], "data_offsets": span}}, span[1])
    assert read_header(path, "tuned") == {"w": StoredTensor(kind, 6)}


def test_what_the_library_writes_is_read(tmp_path):
    arrays = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((), np.int64), "c": np.zeros((0, 4), np.float16)}
    save_file(arrays, tmp_path / "model.safetensors", {"format": "pt"})
    assert read_header(tmp_path / "model.safetensors", "tuned") == {
        "a": StoredTensor("F32", 6),
        "b": StoredTensor("I64", 1),
        "c": StoredTensor("F16", 0),
    }


@pytest.mark.parametrize(
    ("header", "size", "problem"),
    [
        ({}, 0, "it holds 0 tensors, not 1 to 500,000"),
        ({"__metadata__": {}}, 0, "it holds 0 tensors, not 1 to 500,000"),
        ({"w": ENTRY}, 23, "its tensors end at byte {end} of {size}"),
        ({"w": ENTRY}, 25, "its tensors end at byte {end} of {size}"),
        ({"w": ENTRY, "v": {**ENTRY, "data_offsets": [25, 49]}}, 49, "its tensors overlap or leave holes"),
        ({"w": ENTRY, "v": {**ENTRY, "data_offsets": [23, 47]}}, 47, "its tensors overlap or leave holes"),
        ({"w": {**ENTRY, "data_offsets": [1, 25]}}, 25, "its tensors overlap or leave holes"),
        ({"w": 7}, 0, "the entry of 'w' is none"),
        ({"w" * 513: ENTRY}, 24, f"the entry of '{'w' * 80}' is none"),
        ({"w": {**ENTRY, "dtype": "F4"}}, 24, "'w' has the type '\"F4\"', which is none of weights"),
        ({"w": {**ENTRY, "dtype": ["F32"]}}, 24, "'w' has the type '[\"F32\"]', which is none of weights"),
        ({"w": {"shape": [6], "data_offsets": [0, 24]}}, 24, "'w' has the type 'null', which is none of weights"),
        ({"w": {**ENTRY, "shape": 6}}, 24, "'w' has no shape of up to 8 whole numbers"),
        ({"w": {**ENTRY, "shape": [6.0]}}, 24, "'w' has no shape of up to 8 whole numbers"),
        ({"w": {**ENTRY, "shape": [-6]}}, 24, "'w' has no shape of up to 8 whole numbers"),
        ({"w": {**ENTRY, "shape": [2**48]}}, 24, "'w' has no shape of up to 8 whole numbers"),
        ({"w": {**ENTRY, "shape": [6, *[1] * 8]}}, 24, "'w' has no shape of up to 8 whole numbers"),
        ({"w": {**ENTRY, "data_offsets": [24]}}, 24, "'w' does not say where its data lie"),
        ({"w": {**ENTRY, "data_offsets": [0, 24, 24]}}, 24, "'w' does not say where its data lie"),
        ({"w": {**ENTRY, "data_offsets": [0, "24"]}}, 24, "'w' does not say where its data lie"),
        ({"w": {**ENTRY, "data_offsets": [0, 20]}}, 20, "the data of 'w' have another length than its shape"),
        ({"w": {**ENTRY, "data_offsets": [24, 0]}}, 24, "the data of 'w' have another length than its shape"),
    ],
    ids=lambda cell: str(cell)[:40],
)
def test_a_header_that_does_not_describe_its_file_is_refused_with_what_is_wrong(header, size, problem, tmp_path):
    path = write(tmp_path / "a.safetensors", header, size)
    start = 8 + len(json.dumps(header))
    problem = problem.replace("{end}", f"{start + 24:,}").replace("{size}", f"{start + size:,}")
    words = f"a.safetensors of tuned cannot be loaded as safetensors ({problem}): save it again"
    with pytest.raises(ModelRefused, match=f"^{re.escape(words)}$"):
        read_header(path, "tuned")


@pytest.mark.parametrize(
    ("content", "claim"),
    [(b"", 0), (b"1234567", 0), (bytes(8), 0), (b"\x01" + bytes(7) + b"{", 1), (b"\x03" + bytes(7) + b"{}", 3)],
    ids=str,
)
def test_a_file_without_room_for_its_header_is_refused(content, claim, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ModelRefused, match=f"its header claims {claim} bytes of {len(content)}"):
        read_header(tmp_path / "a.safetensors", "tuned")


def test_a_tensor_may_have_eight_dimensions_and_a_name_of_512_letters(tmp_path):
    entry = {"dtype": "U8", "shape": [1] * 7 + [24], "data_offsets": [0, 24]}
    assert list(read_header(write(tmp_path / "a.safetensors", {"w" * 512: entry}), "tuned").values()) == [
        StoredTensor("U8", 24)
    ]


def index(folder: Path, places: object) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))


def test_weights_are_one_file_or_the_shards_of_the_index(tmp_path):
    assert choose_weights(tmp_path, "tuned", ["model.safetensors", INDEX]) == ("model.safetensors",)
    index(tmp_path, {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"})
    assert choose_weights(tmp_path, "tuned", ["1.safetensors", "2.safetensors"]) == ("1.safetensors", "2.safetensors")


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (None, "has no weight_map of names to files: save the model again"),
        ({}, "has no weight_map of names to files: save the model again"),
        ({"a": 7}, "has no weight_map of names to files: save the model again"),
        (
            {"a": "../1.safetensors"},
            "names '../1.safetensors' as a shard, and only .safetensors files beside it are read",
        ),
        ({"a": ".1.safetensors"}, "names '.1.safetensors' as a shard"),
        ({"a": "1.bin"}, "names '1.bin' as a shard"),
        ({"a": "3.safetensors"}, "names 3.safetensors, which the model does not have: upload it, or correct"),
    ],
    ids=str,
)
def test_an_index_that_names_no_shards_of_the_model_is_refused(places, words, tmp_path):
    index(tmp_path, places)
    with pytest.raises(ModelRefused, match=re.escape(f"{INDEX} of tuned {words}")):
        read_index(tmp_path, "tuned", ["1.safetensors"])


def test_a_thousand_shards_are_read(tmp_path):
    names = [f"{number}.safetensors" for number in range(1001)]
    index(tmp_path, dict(zip(names[:1000], names, strict=False)))
    assert len(read_index(tmp_path, "tuned", names)) == 1000
    index(tmp_path, dict(zip(names, names, strict=True)))
    with pytest.raises(ModelRefused, match="names 1,001 shards, and 1,000 are read: use fewer"):
        read_index(tmp_path, "tuned", names)


def test_shards_hold_what_the_index_says_and_what_they_hold_together_is_counted(tmp_path):
    files = ["1.safetensors", "2.safetensors"]
    half = {"dtype": "I8", "shape": [24], "data_offsets": [0, 24]}
    write(tmp_path / files[0], {"a.weight": ENTRY})
    write(tmp_path / files[1], {"b.weight": half})
    index(tmp_path, {"a.weight": files[0], "b.weight": files[1]})
    whole = read_weights(tmp_path, "tuned", files)
    assert whole == Weights(tuple(files), {"a.weight": StoredTensor("F32", 6), "b.weight": StoredTensor("I8", 24)})
    assert (whole.count_elements(), whole.count_elements(("a.", "c."))) == (30, 6)
    assert whole.kinds == {"F32": 6, "I8": 24}
    assert whole.integer_weights == ["b.weight"]
    write(tmp_path / files[1], {"a.weight": ENTRY})  # a tensor that two files hold counts twice
    index(tmp_path, {"a.weight": files[0], "a.bias": files[1], "c.bias": files[1]})
    with pytest.raises(
        ModelRefused, match=r"puts 2 tensors into files that lack them \('a\.bias'\): save the model again"
    ):
        read_weights(tmp_path, "tuned", files)
    write(tmp_path / files[1], {"a.weight": ENTRY, "a.bias": {**ENTRY, "data_offsets": [24, 48]}}, 48)
    index(tmp_path, {"a.weight": files[0], "a.bias": files[1]})
    assert read_weights(tmp_path, "tuned", files).tensors == {
        "a.weight": StoredTensor("F32", 12),
        "a.bias": StoredTensor("F32", 6),
    }


def test_weights_that_hold_whole_numbers_are_known_by_their_names_and_types():
    kinds = {
        "a.weight": "I8",
        "b_packed": "U8",
        "c_blocks": "I32",
        "d.weight": "F16",
        "e.bias": "I8",
        "f.weight": "BOOL",
    }
    tensors = {name: StoredTensor(kind, 1) for name, kind in kinds.items()}
    assert Weights((), tensors).integer_weights == ["a.weight", "b_packed", "c_blocks"]


def test_files_may_hold_a_tenth_more_than_the_model_needs():
    refuse_excess(110, 100, "tuned", "GPT2LMHeadModel")
    with pytest.raises(ModelRefused, match="the weights of tuned hold 111 numbers and GPT2LMHeadModel needs 100: take"):
        refuse_excess(111, 100, "tuned", "GPT2LMHeadModel")


def test_a_header_longer_than_its_limit_is_not_read(tmp_path, monkeypatch):
    path = write(tmp_path / "a.safetensors", {"w": ENTRY})
    length = len(json.dumps({"w": ENTRY}))
    monkeypatch.setattr(weights, "MOST_HEADER_BYTES", length)
    assert read_header(path, "tuned")
    monkeypatch.setattr(weights, "MOST_HEADER_BYTES", length - 1)
    with pytest.raises(ModelRefused, match="its header claims"):
        read_header(path, "tuned")
