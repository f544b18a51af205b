"""Models on several devices: the map covers all, the processor comes last, and likelihoods stay what they are."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import dispatch_model, init_empty_weights
from transformers import LlamaConfig, LlamaForCausalLM

from scoring.evaluation_sets import build_starter
from scoring.generation import continuations
from scoring.language_models import ModelRefused
from scoring.language_models.spreading import main_device, spread
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from tests.scoring.families import tiny
from tests.scoring.test_generation import PROMPTS, SETTINGS

TEXTS = [sentence.text for sentence in build_starter()[::12]]
LAYERS = 5


@pytest.fixture(scope="module")
def empty() -> LlamaForCausalLM:
    """Five layers without any weights."""
    config = LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=256, num_hidden_layers=LAYERS, num_attention_heads=4
    )
    with init_empty_weights():
        return LlamaForCausalLM(config)


def layer_bytes(model: LlamaForCausalLM) -> int:
    return sum(weight.numel() for weight in model.model.layers[0].parameters()) * 4


def test_a_model_that_fits_the_first_device_is_not_spread(empty):
    size = sum(weight.numel() for weight in (*empty.parameters(), *empty.buffers())) * 4
    for memory in (size, 10**9):
        assert spread(empty, torch.float32, {0: memory, "cpu": 10**9}, "a model") is None
    assert spread(empty, torch.float32, {0: size - 1, "cpu": 10**9}, "a model") is not None


def test_the_map_covers_every_weight_fills_gpus_first_and_the_processor_last(empty):
    layer = layer_bytes(empty)
    places = spread(empty, torch.float32, {0: int(3.2 * layer), 1: int(2.2 * layer), "cpu": 10 * layer}, "a model")
    names = [name for name, _ in empty.named_parameters()]
    owners = [[part for part in places if name == part or name.startswith(f"{part}.")] for name in names]
    assert all(len(parts) == 1 for parts in owners)
    order = [places[parts[0]] for parts in owners if parts[0].startswith("model.layers.")]
    assert order == sorted(order, key=[0, 1, "cpu"].index)  # each layer whole, one device after the other
    assert set(places.values()) == {0, 1, "cpu"}
    assert main_device(places) == torch.device("cuda:0")
    halved = spread(empty, torch.bfloat16, {0: int(3.2 * layer), 1: int(2.2 * layer), "cpu": 10 * layer}, "a model")
    assert halved is None  # in half the bytes it fits the first


def test_a_model_that_all_devices_together_do_not_hold_is_refused_with_the_sizes(empty):
    layer = layer_bytes(empty)
    with pytest.raises(ModelRefused, match=r"a model takes .* GB in float32, and the devices of this worker hold"):
        spread(empty, torch.float32, {0: layer, "cpu": layer}, "a model")


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2", "BERT", "ALBERT", "XLNet"])
def test_a_dispatched_model_gives_the_same_likelihoods_wherever_its_parts_lie(name, tmp_path):
    whole = tiny(name)
    model = deepcopy(whole.model)
    places = dict.fromkeys((part for part, _ in model.named_children()), "disk")
    first = next(iter(places))
    places[first] = "cpu"
    dispatched = dispatch_model(model, places, main_device="cpu", offload_dir=tmp_path, force_hooks=True)
    spread_model = replace(whole, model=dispatched)
    for one, other in zip(
        *(token_log_likelihoods(loaded, TEXTS, LikelihoodSettings()) for loaded in (whole, spread_model)), strict=True
    ):
        np.testing.assert_array_equal(one.tokens, other.tokens)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Llama", "GPT-2"])
def test_layers_on_different_devices_give_the_same_likelihoods(name, tmp_path):
    whole = tiny(name)
    model = deepcopy(whole.model)
    layers = [part for part, module in model.named_modules() if part.endswith((".0", ".1")) and "." in part]
    places = dict.fromkeys((part for part, _ in model.named_children()), "cpu")
    body_name = next(iter(places))
    del places[body_name]
    places |= {f"{body_name}.{part}": "cpu" for part, _ in getattr(model, body_name).named_children()}
    blocks = next(part.rsplit(".", 1)[0] for part in layers)
    del places[blocks]
    places |= {f"{blocks}.0": "cpu", f"{blocks}.1": "disk"}
    dispatched = dispatch_model(model, places, main_device="cpu", offload_dir=tmp_path)
    spread_model = replace(whole, model=dispatched)
    for one, other in zip(
        *(token_log_likelihoods(loaded, TEXTS, LikelihoodSettings()) for loaded in (whole, spread_model)), strict=True
    ):
        np.testing.assert_array_equal(one.tokens, other.tokens)
    assert continuations(spread_model, PROMPTS, SETTINGS) == continuations(whole, PROMPTS, SETTINGS)
