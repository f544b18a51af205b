"""What is loaded of a model: an allow-list of files, each read within limits before any library sees it."""

import hashlib
import json
import resource
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from scoring.language_models import ModelRefused, list_bundled, load, load_files, resolve
from scoring.language_models.bounded_json import parse_json
from scoring.language_models.configuration import check_numbers
from scoring.language_models.package import describe_file, read_package
from scoring.language_models.weights import INDEX, WHOLE, read_header


def change_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def shard(folder, **places):
    """Cut the weights into two shards, and write an index; `places` of the index instead of the true ones."""
    tensors = load_file(folder / WHOLE)
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, chosen in halves.items():
        save_file({name: tensors[name] for name in chosen}, folder / file, {"format": "pt"})
    (folder / WHOLE).unlink()
    true = {name: file for file, chosen in halves.items() for name in chosen}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {**true, **places}}))
    return names


def refusal(folder):
    with pytest.raises(ModelRefused) as refused:
        load("folder", str(folder), resolve(str(folder)).revision)
    return str(refused.value)


def test_what_is_loaded_is_listed_hash_by_hash_and_nothing_else_is(gpt2):
    for name in ("pytorch_model.bin", "adapter_config.json", "modeling.py", "preprocessor_config.json", "weights.txt"):
        (gpt2 / name).write_text("{}")
    files = load_files(gpt2, "a model").files
    assert sorted(files) == sorted(
        ["config.json", "generation_config.json", WHOLE, "tokenizer.json", "tokenizer_config.json"]
    )
    for name in files:
        file, content = describe_file(gpt2 / name), (gpt2 / name).read_bytes()
        assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_libraries_see_the_chosen_files_only(gpt2):
    (gpt2 / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "someone/else"}))
    with read_package(gpt2, "a model").staged() as folder:
        assert {path.name for path in folder.iterdir()} == set(load_files(gpt2, "a model").files)


def test_names_of_files_of_another_machine_are_not_handed_on(gpt2):
    change_json(gpt2 / "tokenizer_config.json", vocab_file="/etc/passwd", tokenizer_file="../other.json")
    with read_package(gpt2, "a model").staged() as folder:
        assert "passwd" not in (folder / "tokenizer_config.json").read_text()
    assert load_files(gpt2, "a model").tokenizer("the sea")["input_ids"]


def test_shards_are_loaded_as_the_whole_is(gpt2):
    whole = load_files(gpt2, "a model").model.state_dict()
    shard(gpt2)
    loaded = load_files(gpt2, "a model")
    sharded = loaded.model.state_dict()
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)
    assert set(loaded.files) >= {INDEX, "model-00001-of-00002.safetensors"}


@pytest.mark.parametrize(
    "place", ["weights.txt", "../../../etc/passwd", "/etc/passwd", "a/b.safetensors", ".x.safetensors", "x.bin", ""]
)
def test_an_index_that_names_anything_but_a_shard_beside_it_is_refused(gpt2, place):
    (gpt2 / "weights.txt").write_bytes(b"a pickle")
    names = sorted(load_file(gpt2 / WHOLE))
    shard(gpt2, **{names[0]: place})
    with pytest.raises(ModelRefused, match=r"only \.safetensors files beside it are read"):
        resolve(str(gpt2))


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({"weight_map": {"a": "gone.safetensors"}}, "names gone.safetensors, which the model does not have"),
        ({"weight_map": []}, "no weight_map"),
        ({"weight_map": {"a": 3}}, "no weight_map"),
        ({"weight_map": {}}, "no weight_map"),
        ({"weight_map": {str(n): f"{n}.safetensors" for n in range(1001)}}, "1,001 shards"),
        ({"weight_map": {"nowhere": "model-00001-of-00002.safetensors"}}, "into files that lack them"),
    ],
)
def test_an_index_that_makes_no_model_is_refused(gpt2, index, reason):
    shard(gpt2)
    (gpt2 / INDEX).write_text(json.dumps(index))
    with pytest.raises(ModelRefused, match=reason):
        resolve(str(gpt2))


def header(path, content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))


def tensor(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "claims 0 bytes"),
        (b"[" * 100_000, "nests deeper|not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a": {}, "a": {}}', "repeated"),
        ({}, "0 tensors"),
        (tensor(dtype="F4"), "type"),
        (tensor(dtype=None), "type"),
        (tensor(shape=[-2]), "shape"),
        (tensor(shape=[2.0]), "shape"),
        (tensor(shape=[1] * 9), "shape"),
        (tensor(shape=[2**50]), "shape"),
        (tensor(shape=[3]), "another length than its shape"),
        (tensor(data_offsets=[8, 0]), "another length"),
        (tensor(data_offsets=[4, 12]), "overlap or leave holes"),
        (tensor(data_offsets=[0]), "where its data lie"),
        ({**tensor(), "b": tensor()["a"]}, "overlap"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, "end at byte"),
        ({"a" * 600: tensor()["a"]}, "the entry of"),
        ({"a": 3}, "the entry of"),
    ],
)
def test_a_damaged_header_is_refused_before_a_library_reads_it(tmp_path, content, reason):
    header(tmp_path / "x.safetensors", content)
    with pytest.raises(ModelRefused, match=reason):
        read_header(tmp_path / "x.safetensors", "a model")


def test_a_header_longer_than_its_file_is_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(ModelRefused, match="claims 1,152,921,504,606,846,976 bytes of 10"):
        read_header(tmp_path / "x.safetensors", "a model")


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelRefused):
        read_header(path, "a model")


def test_weights_with_over_a_tenth_more_numbers_than_the_architecture_needs_are_refused(gpt2):
    tensors = load_file(gpt2 / WHOLE)
    needed = resolve(str(gpt2)).architecture.stored
    held = sum(tensor.numel() for tensor in tensors.values())
    tensors["spare"] = torch.zeros(int(1.1 * needed) - held)
    save_file(tensors, gpt2 / WHOLE, {"format": "pt"})
    load_files(gpt2, "a model")
    tensors["spare"] = torch.zeros(int(1.1 * needed) - held + 1)
    save_file(tensors, gpt2 / WHOLE, {"format": "pt"})
    assert f"needs {needed:,}: take out what is not this model's" in refusal(gpt2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_labels": 20_000_000}, "num_labels = 20,000,000, and 0 to 10,000 are accepted"),
        ({"n_head": -2}, "n_head = -2, and 0 to 4,096"),
        ({"num_attention_heads": -1}, "num_attention_heads = -1"),
        ({"n_layer": 0}, "n_layer = 0, and 1 to 1,000"),
        ({"n_embd": 0}, "n_embd = 0, and 1 to"),
        ({"n_embd": True}, "n_embd = 'True', and"),
        ({"vocab_size": 2**40}, "vocab_size = 1,099,511,627,776"),
        ({"n_positions": 10**12}, "n_positions = 1,000,000,000,000"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon = nan, which is no finite number"),
        ({"initializer_range": float("inf")}, "initializer_range = inf"),
        ({"nested": {"num_experts": 10**9}}, "num_experts = 1,000,000,000"),
        ({"n_layer": 1000, "num_experts": 4096}, "1,000 layers of 4,096 experts"),
        ({"seed": 10**41}, "seed a number larger than"),
        ({"n_embd": 10**400}, "n_embd a number larger than"),  # which no float holds
        ({"n\ufeffembd": float("nan")}, r"gives 'n\ufeffembd' = nan"),
        ({"n" * 5000: float("nan")}, f"gives '{'n' * 40}' = nan"),
        ({"n" * 5000: "\ud800"}, f"below '{'n' * 40}'"),
        ({"id2label": {str(n): "x" for n in range(10_001)}}, "more than 10,000 labels"),
        ({"name": "\ud800"}, "half a surrogate pair"),
        ({"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}, "deeper than 32"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"compression_config": {"format": "x"}}, "quantised"),
        ({"architectures": "GPT2LMHeadModel"}, "architectures that are no list"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_configuration_out_of_bounds_is_refused_by_key_and_costs_no_memory(gpt2, changes, words):
    change_json(gpt2 / "config.json", **changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelRefused, match=r"correct it|shorten it|flatten it|made from") as refused:
        resolve(str(gpt2))
    assert words in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 5000, '{"a": 1, "a": 2}', "\xff", ""])
def test_what_is_no_bounded_json_is_refused(text):
    with pytest.raises(ModelRefused, match=r"config\.json of a model"):
        parse_json(text.encode("latin-1"), "config.json", "a model", 1_000_000)


def test_values_are_counted_before_anything_is_parsed():
    with pytest.raises(ModelRefused, match="more than 1,000 values"):
        parse_json(b"[" + b"[]," * 1000 + b"[]]", "config.json", "a model", 1000)


@pytest.mark.parametrize(
    "content",
    [
        {"time_step_limit": [0.0, float("inf")], "state_size": 128},  # Mamba 2
        {"model_max_length": 10**30, "num_hidden_layers": 61, "n_routed_experts": 384},  # Kimi K2
        {"type_vocab_size": 0, "embedding_size": -1, "vocab_size": 128_100, "max_relative_positions": -1},  # DeBERTa
        {"max_position_embeddings": 10_485_760, "num_local_experts": 128, "num_hidden_layers": 48},  # Llama 4
        {"intermediate_size": [8192] * 35, "vocab_size": 262_400, "vocab_size_per_layer_input": 262_144},  # Gemma 3n
        {"head_dim": None, "sliding_window": None, "hidden_act": "silu", "num_key_value_heads": [1, 2, 4]},
    ],
    ids=str,
)
def test_configurations_of_known_models_are_within_bounds(content):
    check_numbers(content, "config.json", "a model")


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("num_labels", 0, 10_000),
        ("vocab_size", 1, 2**22),
        ("num_hidden_layers", 1, 1000),
        ("encoder_layers", 0, 1000),
        ("num_attention_heads", 0, 4096),
        ("num_key_value_heads", -1, 4096),
        ("num_local_experts", 0, 4096),
        ("n_positions", -1, 2**24),
        ("intermediate_size", -1, 2**20),
        ("hidden_size", 1, 2**20),
        ("head_dim", -1, 2**22),
    ],
)
def test_each_size_has_a_least_and_a_most(key, low, high):
    for value in (low, high):
        check_numbers({key: value}, "config.json", "a model")
    for value in (low - 1, high + 1):
        with pytest.raises(ModelRefused, match=f"gives {key} = {value:,}, and {low:,} to {high:,} are accepted"):
            check_numbers({key: value}, "config.json", "a model")


@pytest.mark.parametrize("file", ["generation_config.json", "special_tokens_map.json", "tokenizer_config.json"])
def test_every_file_that_is_read_is_refused_where_it_nests_too_deep(gpt2, file):
    (gpt2 / file).write_text('{"a": ' + "[" * 40 + "]" * 40 + "}")
    with pytest.raises(ModelRefused, match=f"{file} of .* nests deeper than 32 levels"):
        read_package(gpt2, "a model")


def test_a_file_longer_than_its_limit_is_refused_by_name(gpt2):
    (gpt2 / "special_tokens_map.json").write_text(json.dumps({"a": "x" * 2**21}))
    with pytest.raises(ModelRefused, match=r"special_tokens_map\.json of .* at most 2,097,152 are read"):
        resolve(str(gpt2))


def test_the_bundled_models_pass():
    for folder in list_bundled():
        assert (
            read_package(folder, folder.name).weights.count_elements() <= 1.1 * resolve(str(folder)).architecture.stored
        )
