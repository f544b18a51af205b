"""The self-test: models that the engine computes as they do themselves pass, others are refused with figures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from scoring import self_test as module
from scoring.generation.engine import Generated
from scoring.language_models import BUNDLED, LoadedModel, ModelRefused, load, resolve
from scoring.language_models.architecture import classify
from scoring.likelihood import tokens
from scoring.likelihood.batches import Window
from scoring.self_test import LIMITS, LONGEST_CONTEXT, SENTENCES, WINDOW, self_test, within_reach
from tests.scoring.conftest import SMALLEST
from tests.scoring.families import GROUPED, SIZES, TOKENIZERS, tiny

MASKED, CAUSAL, PERMUTATION = "BERT", "GPT-2", "XLNet"
SEEING = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
DRAFTERS = {"gemma4_assistant", "gemma4_unified_assistant"}  # whose configuration cannot be made without arguments
DEEP = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": 32, "patch_size": 14}
TEXT = {**GROUPED, "head_dim": 8, "vocab_size": 240, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1}
ROTARY = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
LOOKED_AT = {"image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 7, "vision_end_token_id": 8}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16}
# Model type: what differs from its configuration, so that it is tiny; of models that see pictures the text part first.
TOWERS: dict[str, dict[str, Any]] = {
    "gemma3": {
        "text_config": {**TEXT, "sliding_window": 16},
        "vision_config": {**SEEING, "model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14},
    },
    "gemma4": {
        "text_config": {
            **TEXT,
            **ALTERNATING,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": 240,
            "global_head_dim": 8,
            "num_kv_shared_layers": 0,
        },
        "vision_config": {**SEEING, "num_key_value_heads": 2, "head_dim": 8},
        "audio_config": None,
    },
    "mistral3": {
        "text_config": {**TEXT, "model_type": "mistral"},
        "vision_config": {**SEEING, "model_type": "pixtral", "head_dim": 8, "image_size": 28, "patch_size": 14},
    },
    "llama4": {
        "text_config": {
            **TEXT,
            "num_local_experts": 2,
            "intermediate_size_mlp": 64,
            "no_rope_layers": [1, 0],
            "attention_chunk_size": 16,
        },
        "vision_config": {
            **SEEING,
            "image_size": 28,
            "patch_size": 14,
            "vision_output_dim": 16,
            "projector_input_dim": 16,
            "projector_output_dim": 16,
        },
    },
    "qwen2_5_vl": {
        "text_config": {**{k: v for k, v in TEXT.items() if k != "head_dim"}, "rope_parameters": ROTARY},
        "vision_config": DEEP,
        **LOOKED_AT,
    },
    "qwen3_5": {
        "text_config": {
            **TEXT,
            "layer_types": ["linear_attention", "full_attention"],
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "rope_parameters": {**ROTARY, "partial_rotary_factor": 1.0},
        },
        "vision_config": DEEP,
        **LOOKED_AT,
    },
}


def shake(model: torch.nn.Module) -> None:
    """Move random parameters far enough from their usual start that errors show."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)


def short(loaded: LoadedModel) -> LoadedModel:
    """The model with a context of at most 96 tokens; XLNet has no limit of its own."""
    return replace(loaded, architecture=replace(loaded.architecture, context=min(96, loaded.architecture.context)))


def saved(model_type: str, folder: Path, tokenizer: str = "bytes", class_name: str = "", **config: Any) -> Path:
    """A tiny random model of a class of transformers, with a tokenizer, in `folder`."""
    made = TOKENIZERS[tokenizer]()
    if "text_config" not in config:
        ids = {name: getattr(made, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
        config = {"vocab_size": len(made), **ids, **config}
    whole = AutoConfig.for_model(model_type, **config)
    names = (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    name = class_name or next(str(of[model_type]) for of in names if model_type in of)
    torch.manual_seed(1)
    model = getattr(transformers, name)(whole)
    shake(model)
    model.save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def loaded_from(folder: Path) -> LoadedModel:
    found = resolve(str(folder))
    return load(found.source, found.location, found.revision, device=torch.device("cpu"))


@pytest.mark.slow_cases
@pytest.mark.parametrize("family", [CAUSAL, MASKED, PERMUTATION, "ALBERT", "OPT", "Gemma 2"])
def test_a_model_that_the_engine_computes_right_passes_with_its_figures(family):
    loaded = short(tiny(family))
    report = self_test(loaded)
    lengths = [len(loaded.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in SENTENCES]
    lone = 0 if loaded.architecture.kind == "masked" else 1  # the first token of a text has no likelihood
    assert report.tokens >= sum(lengths) - 2 * lone + 3
    assert (report.texts, report.window, report.limit) == (3, loaded.architecture.context, 1e-3)
    assert 0 < report.difference < 1e-5
    assert report.shortfall < 1e-5
    assert (report.continued > 0) == (loaded.architecture.kind == "causal")
    assert report.as_json()["difference"] == report.difference


def test_its_text_goes_beyond_the_context_and_each_window_is_looked_into():
    loaded = tiny(CAUSAL)
    texts: list[list[int]] = []
    plain = module.plain_log_likelihood

    def note(model, ids, token, *rest):
        texts.append([len(ids), token])
        return plain(model, ids, token, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "plain_log_likelihood", note)
        self_test(loaded)
    length = max(length for length, _ in texts)
    context = loaded.architecture.context
    assert length > context
    assert {1, context - 1, context, length - 1} <= {token for of, token in texts if of == length}


@pytest.mark.slow
def test_a_long_context_is_tested_by_windows_of_a_thousand_tokens():
    loaded = tiny("Llama")
    report = self_test(replace(loaded, architecture=replace(loaded.architecture, context=4096)))
    assert report.window == WINDOW


@pytest.mark.parametrize(("context", "expected"), [(LONGEST_CONTEXT, LONGEST_CONTEXT), (LONGEST_CONTEXT + 1, WINDOW)])
def test_a_context_is_looked_at_whole_up_to_the_longest_one(context, expected):
    loaded = tiny(CAUSAL)
    model = replace(loaded, architecture=replace(loaded.architecture, context=context))
    assert within_reach(model).architecture.context == expected


def off_by(by: float) -> Callable[..., Any]:
    """An engine that gives the last token of every piece another likelihood."""
    right = module.choose_engine

    def choose_engine(loaded, settings):
        def score(pieces):
            for batch in right(loaded, settings)(pieces):
                yield [(number, np.append(values[:-1], values[-1] + np.float32(by))) for number, values in batch]

        return score

    return choose_engine


@pytest.mark.parametrize("family", [CAUSAL, MASKED, PERMUTATION])
def test_a_model_that_the_engine_gets_wrong_by_more_than_rounding_is_refused_with_the_figures(family, monkeypatch):
    monkeypatch.setattr(module, "choose_engine", off_by(0.002))
    said = (
        r"does not pass the self-test: at token (\d+) of \1 of test text 1 the engine gives a log-likelihood of "
        r"-\d+\.\d{4}, the model's plain forward -\d+\.\d{4}\. They differ by 0\.002\d* nats, and at most 0\.001 is"
    )
    with pytest.raises(ModelRefused, match=said):
        self_test(short(tiny(family)))
    monkeypatch.undo()
    monkeypatch.setattr(module, "choose_engine", off_by(0.0005))
    assert self_test(short(tiny(family))).difference == pytest.approx(0.0005, rel=0.1)


def test_windows_that_begin_at_the_wrong_token_are_found_by_the_text_beyond_the_context(monkeypatch):
    right = tokens.windows

    def late(length, size, stride):
        first, *others = right(length, size, stride)
        return [first, *(Window(of.start + 1, of.stop, of.scored) for of in others)]

    monkeypatch.setattr(tokens, "windows", late)
    with pytest.raises(ModelRefused, match="of test text 3 the engine gives"):
        self_test(tiny(CAUSAL))


def test_a_context_with_room_for_one_token_before_the_new_ones_is_enough_to_try_continuations():
    loaded = tiny(CAUSAL)

    def continued(context: int) -> int:
        return self_test(replace(loaded, architecture=replace(loaded.architecture, context=context))).continued

    assert continued(module.NEW_TOKENS) == 0
    assert continued(module.NEW_TOKENS + 1) > 0


def test_continuations_that_are_not_the_models_own_are_found(monkeypatch):
    made = [Generated(np.array([7, 7, 7]), None), Generated(np.array([7]), None)]
    monkeypatch.setattr(module, "decode", lambda *_args: made)
    with pytest.raises(ModelRefused, match=r"the likeliest token to follow \d+ others .* by \d+\.\d+ nats"):
        self_test(tiny(CAUSAL))


def test_a_lack_of_memory_is_not_the_models_fault(monkeypatch):
    def fail(*_args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "choose_engine", fail)
    with pytest.raises(torch.OutOfMemoryError):
        self_test(tiny(CAUSAL))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_trained_model_of_rounded_weights_passes_with_the_limit_of_its_precision(precision):
    pinned = resolve(str(BUNDLED / SMALLEST["causal"]))
    rounded = load(pinned.source, pinned.location, pinned.revision, device=torch.device("cpu"), precision=precision)
    report = self_test(rounded)
    assert report.limit == LIMITS[precision]
    assert 1e-3 < report.difference < report.limit


# Models of which some were wrong, or crashed


@pytest.mark.slow
def test_cpm_ant_which_looks_ahead_is_refused(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 64}
    with pytest.raises(
        ModelRefused, match=r"CpmAntForCausalLM does not pass the self-test: .* differ by \d+\.\d+ nats"
    ):
        self_test(loaded_from(saved("cpmant", tmp_path, **sizes)))


@pytest.mark.parametrize("position_embedding_type", ["absolute", "rotary"])
def test_esm_is_scored_to_the_end_of_its_positions(tmp_path, position_embedding_type):
    config = {**SIZES, "position_embedding_type": position_embedding_type, "mask_token_id": 4, "token_dropout": False}
    loaded = loaded_from(saved("esm", tmp_path, "bytes", **config))
    assert loaded.architecture.context == SIZES["max_position_embeddings"] - 2
    assert self_test(loaded).difference < 1e-5


@pytest.mark.slow
def test_nystromformer_is_scored_where_it_takes_texts_of_any_length_and_else_refused(tmp_path):
    assert self_test(loaded_from(saved("nystromformer", tmp_path / "any", **SIZES))).difference < 1e-5
    config = {**SIZES, "num_landmarks": 8, "segment_means_seq_len": 96}
    with pytest.raises(ModelRefused, match=r"NystromformerForMaskedLM fails the self-test with RuntimeError \(shape"):
        self_test(loaded_from(saved("nystromformer", tmp_path / "one", **config)))


@pytest.mark.slow
def test_decoders_that_number_positions_from_the_padding_id_continue_texts_as_they_score_them(tmp_path):
    folder = saved("roberta", tmp_path, class_name="RobertaForCausalLM", **{**SIZES, "is_decoder": True})
    report = self_test(loaded_from(folder))
    assert (report.continued > 0, report.shortfall < 1e-5) == (True, True)


def test_a_decoder_that_sees_what_follows_is_refused(tmp_path):
    folder = saved("bert-generation", tmp_path, **SIZES)
    with pytest.raises(ModelRefused, match="BertGenerationDecoder does not pass the self-test"):
        self_test(loaded_from(folder))


# The text part of models that see pictures


@pytest.mark.slow
@pytest.mark.parametrize("model_type", TOWERS)
def test_the_text_part_of_a_model_that_sees_pictures_enters(tmp_path, model_type):
    name = str(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[model_type])
    loaded = loaded_from(saved(model_type, tmp_path, "metaspace", name, **TOWERS[model_type]))
    architecture = loaded.architecture
    assert (architecture.kind, architecture.class_name, type(loaded.model).__name__) == ("causal", name, name)
    assert (architecture.layers, architecture.hidden_size, architecture.context) == (2, 32, 96)
    report = self_test(loaded)
    assert report.difference < 1e-4
    assert (report.continued > 0, report.shortfall < 1e-4) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("class_name", ["Llama4ForCausalLM", "Qwen3_5ForCausalLM"])
def test_their_text_part_alone_enters_too(tmp_path, class_name):
    model_type = {"Llama4ForCausalLM": "llama4", "Qwen3_5ForCausalLM": "qwen3_5"}[class_name]
    text = TOWERS[model_type]["text_config"]
    loaded = loaded_from(saved(f"{model_type}_text", tmp_path, "metaspace", class_name, **text))
    assert loaded.architecture.class_name == class_name
    assert self_test(loaded).difference < 1e-4


@pytest.mark.slow
def test_of_gemma_3n_whose_other_parts_need_what_is_not_here_the_text_part_is_loaded(tmp_path):
    text = {
        **TEXT,
        **ALTERNATING,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 240,
        "laurel_rank": 4,
        "altup_num_inputs": 2,
        "activation_sparsity_pattern": [0.0, 0.0],
    }
    saved("gemma3n_text", tmp_path, "metaspace", "Gemma3nForCausalLM", **text)
    path = tmp_path / "model.safetensors"
    weights = {name.replace("model.", "model.language_model.", 1): of for name, of in load_file(path).items()}
    save_file({**weights, "model.vision_tower.weight": torch.zeros(2, 2)}, path, {"format": "pt"})
    whole = AutoConfig.for_model("gemma3n", text_config=text)
    whole.architectures = ["Gemma3nForConditionalGeneration"]
    whole.save_pretrained(tmp_path)
    loaded = loaded_from(tmp_path)
    assert type(loaded.model).__name__ == loaded.architecture.class_name == "Gemma3nForCausalLM"
    assert self_test(loaded).difference < 1e-4


# What is refused unseen


def default(model_type: str) -> PretrainedConfig:
    return transformers.models.auto.configuration_auto.CONFIG_MAPPING[model_type]()


def refusal_of(config: PretrainedConfig) -> str:
    try:
        classify(config)
    except ModelRefused as refusal:
        return str(refusal)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "kind"),
    [(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "causal"), (MODEL_FOR_MASKED_LM_MAPPING_NAMES, "masked")],
    ids=["causal", "masked"],
)
def test_whatever_transformers_maps_to_a_language_model_is_one_here_or_refused_for_a_reason_that_is_true(names, kind):
    for model_type, name in names.items():
        if model_type in DRAFTERS:
            continue
        config = default(model_type)
        config.architectures = [str(name)]
        said = refusal_of(config)
        if config.is_encoder_decoder:
            assert "is an encoder-decoder" in said
            config.is_encoder_decoder = False  # as the decoder is saved alone
            said = refusal_of(config)
        if "sees the words to come" in said:
            assert kind == "causal"
            assert not config.is_decoder
            config.is_decoder = True
        assert not refusal_of(config), model_type


@pytest.mark.slow
def test_what_is_refused_as_an_encoder_decoder_is_one_and_what_has_no_head_is_told_what_is_scored():
    for model_type, name in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items():
        config = default(model_type)
        config.architectures = [str(name)]
        said = refusal_of(config)
        text = config.get_text_config(decoder=True)
        if "is an encoder-decoder" in said:
            assert config.is_encoder_decoder or text.is_encoder_decoder
        else:
            assert not said or "is not a language model that is scored here: accepted are" in said
