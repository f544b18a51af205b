"""Quantised weights: read as the numbers that they stand for, or refused."""

import json
import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from scoring.language_models import LoadedModel, ModelRefused, load, quantisation, resolve
from scoring.language_models.gguf_header import read_gguf_header
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from tests.scoring import quantised
from tests.scoring.quantised import (
    bitsandbytes_int8,
    bitsandbytes_nf4,
    compressed_fp8,
    compressed_int4,
    fp8,
    is_linear,
    llama,
    mxfp4,
    write,
)

TEXTS = ["The river rises in the mountains.", "She was elected in 1987; rain fell."]
CPU = torch.device("cpu")


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not here: install plumbline[quantised]")


FORMATS = (
    fp8,
    *(pytest.param(format_, marks=needs("compressed_tensors")) for format_ in (compressed_fp8, compressed_int4)),
    *(pytest.param(format_, marks=needs("bitsandbytes")) for format_ in (bitsandbytes_nf4, bitsandbytes_int8)),
)


def loaded(folder: Path, precision: str = "float32") -> LoadedModel:
    found = resolve(str(folder))
    return load(found.source, found.location, found.revision, device=CPU, precision=precision)


@pytest.mark.slow_cases
@pytest.mark.parametrize("quantise", FORMATS)
def test_quantised_weights_are_loaded_as_the_numbers_that_they_stand_for(quantise: Callable, tmp_path):
    folder, exact, name = quantise(*llama(tmp_path))
    assert resolve(str(folder)).weight_format == name
    model = loaded(folder)
    values = model.model.state_dict()
    assert {weight.dtype for weight in values.values()} == {torch.float32}
    for key, weight in exact.items():
        torch.testing.assert_close(
            values[key], weight, rtol=2e-6, atol=1e-7, msg=lambda text, key=key: f"{key}: {text}"
        )
    plain_folder, original = llama(tmp_path / "plain")
    assert not any(torch.equal(exact[key], original[key]) for key in exact if is_linear(key))
    write(plain_folder, exact, None)
    for one, other in zip(*(score(loaded(place)) for place in (folder, plain_folder)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def score(model: LoadedModel) -> list[np.ndarray]:
    settings = LikelihoodSettings(precision=model.precision)
    return [likelihood.tokens for likelihood in token_log_likelihoods(model, TEXTS, settings)]


@pytest.mark.slow_cases
@pytest.mark.parametrize("quantise", FORMATS)
def test_in_a_rounded_precision_quantised_weights_are_rounded_once(quantise: Callable, tmp_path):
    folder, exact, _ = quantise(*llama(tmp_path))
    values = loaded(folder, "bfloat16").model.state_dict()
    for key, weight in exact.items():
        assert values[key].dtype == torch.bfloat16
        # One step of bfloat16 at most: some loaders multiply in the precision of the scales.
        torch.testing.assert_close(values[key].float(), weight, rtol=2**-7, atol=1e-6)


@pytest.mark.slow
@needs("bitsandbytes")
def test_blocks_that_bitsandbytes_misreads_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(quantised.SIZES, "hidden_size", 32)
    folder, _, _ = bitsandbytes_nf4(*llama(tmp_path))
    with pytest.raises(ModelRefused, match="rows of 32 numbers, no multiple of its blocks of 64"):
        loaded(folder)


def test_mxfp4_experts_are_loaded_as_the_numbers_that_they_stand_for(tmp_path):
    folder, exact = mxfp4(tmp_path)
    assert resolve(str(folder)).weight_format == "MXFP4"
    model = loaded(folder)
    values = model.model.state_dict()
    for key, weight in exact.items():
        assert torch.equal(values[key], weight), key
    assert all(np.isfinite(tokens).all() for tokens in score(model))


def test_gguf_weights_are_loaded_as_gguf_s_own_reader_multiplies_them_out(tmp_path):
    path = tmp_path / "tiny.gguf"
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    weights = {"token_embd.weight": rng.normal(size=(64, 32)), "blk.0.ffn_up.weight": rng.normal(size=(64, 32))}
    for name, values in weights.items():
        raw = gguf.quantize(values.astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_header(path)
    assert header[:2] == (2 * 64 * 32, "GGUF Q8_0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quant_method": "gptq", "bits": 4}, "quant_method = 'gptq'"),
        ({"bits": 4}, "quant_method = 'None'"),
        ("yes", "quant_method = 'None'"),
        ({"quant_method": [[]]}, r"quant_method = '\[\[\]\]'"),
    ],
)
def test_a_method_that_is_not_read_is_refused_with_those_that_are(change, words, tmp_path):
    folder, weights = llama(tmp_path)
    write(folder, weights, change)
    with pytest.raises(ModelRefused, match=words) as refusal:
        resolve(str(folder))
    assert "FP8, MXFP4, bitsandbytes, compressed-tensors or GGUF" in str(refusal.value)


def test_quantised_weights_whose_configuration_does_not_say_so_are_refused(tmp_path):
    folder, _, _ = fp8(*llama(tmp_path))
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelRefused, match=r"F8_E4M3, and its config\.json does not say"):
        resolve(str(folder))


def test_scales_under_another_name_than_the_loader_knows_are_refused(tmp_path):
    folder, _, _ = fp8(*llama(tmp_path))
    stored = load_file(folder / "model.safetensors")
    write(folder, {name.replace("weight_scale_inv", "other_scale"): value for name, value in stored.items()}, None)
    with pytest.raises(ModelRefused, match="scale"):
        loaded(folder)


def test_a_loader_whose_package_is_absent_is_named(tmp_path, monkeypatch):
    folder, _, _ = bitsandbytes_int8(*llama(tmp_path))
    monkeypatch.setattr(quantisation, "find_spec", lambda _name: None)
    with pytest.raises(ModelRefused, match=r"needs the package bitsandbytes .* install plumbline\[quantised\]"):
        resolve(str(folder))


def test_a_format_is_named_however_odd_its_groups_are():
    groups = {"one": {"weights": {"type": "int", "num_bits": 8}}, "two": None, "three": {"weights": ["int"]}}
    assert (
        quantisation.name_format({"quant_method": "compressed-tensors", "config_groups": groups})
        == "compressed-tensors int8"
    )


def test_a_name_in_a_gguf_header_has_at_most_512_bytes(tmp_path: Path):
    path = tmp_path / "model.gguf"
    for length in (512, 513):
        path.write_bytes(struct.pack(f"<4sIQQQ{length}sIB", b"GGUF", 3, 0, 1, length, b"n" * length, 0, 7))
        if length == 512:
            assert read_gguf_header(path).elements == 0
        else:
            with pytest.raises(ModelRefused, match="claims 513 bytes of a text, and 512 are read"):
                read_gguf_header(path)
