"""A tiny model of random weights of each type that transformers maps to a causal or a masked language model."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from scoring.language_models import FailedSelfTest, LoadedModel, ModelRefused, inspect
from scoring.language_models.architecture import ACCEPTED, TEXT_ALONE, attention_of, auto_class_of
from scoring.language_models.model_types import TypeVerdict, write_model_types
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.self_test import self_test
from tests.scoring import reference
from tests.scoring.families import TOKENIZERS

CLASSES = {"causal": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "masked": MODEL_FOR_MASKED_LM_MAPPING_NAMES}
LAYERS = 2
TEXTS = ["The river rises in the mountains and flows north to the sea.", "It rained."]
TOLERANCE = 1e-4  # nats

# What the names of sizes are set to wherever a configuration has them.
SIZES = {
    32: "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim lru_width moe_intermediate_size "
    "shared_expert_intermediate_size moe_shared_expert_intermediate_size attention_hidden_size",
    4: "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads num_experts "
    "num_local_experts n_routed_experts moe_num_experts linear_num_value_heads time_step_rank mamba_dt_rank",
    2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_key_value_heads "
    "multi_query_group_num num_kv_heads num_experts_per_tok moe_topk moe_k top_k_experts linear_num_key_heads",
    1: "n_group topk_group first_k_dense_replace",
    8: "head_dim kv_channels v_head_dim qk_nope_head_dim qk_rope_head_dim state_size mamba_d_state ssm_state_size "
    "mamba_n_heads mamba_d_head mamba_num_heads mamba_head_dim linear_key_head_dim linear_value_head_dim rotary_dim",
    16: "qk_head_dim kv_lora_rank q_lora_rank mamba_chunk_size chunk_size sliding_window attention_window_size",
    64: "intermediate_size n_inner ffn_dim hidden_dim d_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim d_ff "
    "dense_intermediate_size mamba_d_ssm",
    96: "max_position_embeddings n_positions n_ctx max_seq_len seq_length",
}
SIZE_OF = {name: size for size, names in SIZES.items() for name in names.split()}
LAYER_KINDS = ("layer_types", "layers_block_type", "block_types")
TOKEN_NAMES = ("bos_token_id", "eos_token_id", "decoder_start_token_id", "cls_token_id", "sep_token_id")

ALIKE_HEADS = {"num_key_value_heads": 4}
DECODER = {"is_encoder_decoder": False, "is_decoder": True}
ALIKE_HEADED = {
    "axk1",
    "axk2",
    "deepseek_v3",
    "deepseek_v32",
    "dots3_note_text",
    "esmc",
    "glm4_moe_lite",
    "glm_moe_dsa",
} | {
    *("minicpm3", "nemotron", "youtu"),
}
DECODERS_ALONE = {"bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "mvp", "pegasus"} | {
    *("plbart", "prophetnet", "whisper"),
}
SHARED_BLOCKS = {
    "num_hidden_layers": 4,
    "layers_block_type": ["linear_attention", "hybrid"] * 2,
    "attention_hidden_size": 64,
    "attention_head_dim": 16,
    "num_key_value_heads": 4,
}
NO_LAYER_INPUT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 0}
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}

# What a type needs beside, by the checks of its own configuration.
NEEDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(ALIKE_HEADED, ALIKE_HEADS),
    **dict.fromkeys(DECODERS_ALONE, DECODER),
    "bailing_hybrid": {**ALIKE_HEADS, "num_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "bamba": {"attn_layer_indices": [1]},
    "bert-generation": {"is_decoder": True},
    "cohere_compass_text": {"rope_parameters": {"full_attention": PLAIN_ROPE, "sliding_attention": PLAIN_ROPE}},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 64},
    },
    "deepseek_v2": {**ALIKE_HEADS, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {
        "vision_config": {"adapter_in_dim": 32, "adapter_out_dim": 32},
        "audio_config": {"adapter_input_size": 32, "adapter_out_dim": 32},
    },
    **{key: {"text_config": NO_LAYER_INPUT} for key in ("gemma4_assistant", "gemma4_unified_assistant")},
    "gemma3n_text": {"num_kv_shared_layers": 0, "laurel_rank": 8, "hidden_size_per_layer_input": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "kimi_linear": {**ALIKE_HEADS, "num_experts_per_token": 2, "linear_num_heads": 4, "linear_head_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {**ALIKE_HEADS, "zero_expert_num": 2, "expert_ffn_hidden_size": 32},
    "luke": {"entity_vocab_size": 16},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "ministral": {"head_dim": 8},
    "nemotron_h": {"n_groups": 2, "num_hidden_layers": 4},
    "neomme": {"head_dim": 16},
    "qwen4_exp_text": {
        **{"hc_lowrank": 8, "ple_embed_dim": 32, "ngram_vocab_size_base": 101, "split_ngram_parts": 1},
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8},
        **{"indexer_budget": 8, "indexer_compress_ratio": 4},
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 12], "attn_layers": ["local", "lsh"]}
    | {"is_decoder": True},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128, "num_blocks": LAYERS},
    "xmod": {"default_language": "en_XX", "is_decoder": True},
    "zamba": {**SHARED_BLOCKS, "attn_layer_period": 2, "attn_layer_offset": 1},
    "zamba2": {**SHARED_BLOCKS, "hybrid_layer_ids": [1, 3], "mamba_headdim": 8, "adapter_rank": 8},
    "zaya": {"num_experts_per_tok": 1},
}
DEFAULTS = {"gemma4_assistant": NEEDS["gemma4_assistant"]}  # of a type whose own are refused


class ModelType(NamedTuple):
    """A type of transformers: its likelihood, `causal` or `masked`, and its name."""

    kind: str
    name: str

    @property
    def class_name(self) -> str:
        return CLASSES[self.kind][self.name]


def list_types() -> Iterator[ModelType]:
    """Every type of both mappings, by name."""
    return (ModelType(kind, name) for kind, classes in CLASSES.items() for name in sorted(classes))


@cache
def tokenizer() -> Any:
    """The one that all types are tested with: they are random weights, and have no words of their own."""
    return TOKENIZERS["bytes"]()


def tiny_configuration(model_type: ModelType) -> PretrainedConfig:
    """The smallest configuration of a type that has each of its kinds of layers."""
    standard = AutoConfig.for_model(model_type.name, **DEFAULTS.get(model_type.name, {}))
    values = shrink(standard)
    if model_type.kind == "causal" and model_type.name in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        values |= {name: True for name in ("is_decoder", "causal") if hasattr(standard, name)}
    if model_type.kind == "masked":
        values |= {name: getattr(standard, name) for name in DECODER if hasattr(standard, name)}
    return AutoConfig.for_model(model_type.name, **values, architectures=[model_type.class_name])


def shrink(config: PretrainedConfig) -> dict[str, Any]:
    """The values of `config` and of the configurations in it, with small sizes and the vocabulary of `tokenizer`."""
    standard = config.to_dict()
    count = standard.get("num_hidden_layers") or 0
    kinds = next((standard[name] for name in LAYER_KINDS if isinstance(standard.get(name), list)), [])
    other = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), 1)
    values: dict[str, Any] = {}
    for name, value in standard.items():
        size = SIZE_OF.get(name)
        if isinstance(value, list) and count > LAYERS and len(value) == count:  # a value for each layer
            values[name] = [size] * LAYERS if size else [value[0], value[other]]
        elif size and type(value) is int:
            values[name] = size
        elif name == "vocab_size" or (name == "vocab_size_per_layer_input" and value):
            values[name] = len(tokenizer())
        elif name == "pad_token_id":
            values[name] = tokenizer().pad_token_id
        elif name in TOKEN_NAMES and type(value) is int:
            values[name] = tokenizer().eos_token_id
    needs = NEEDS.get(config.model_type, {})
    parts = {name: getattr(config, name, None) for name in config.sub_configs}
    small_parts = {
        name: shrink(part) | needs.get(name, {}) for name, part in parts.items() if isinstance(part, PretrainedConfig)
    }
    return values | needs | small_parts


def tiny_model(model_type: ModelType) -> LoadedModel:
    """A model of the type, built as it would be loaded. Raises ModelRefused for what is not scored here."""
    config = tiny_configuration(model_type)
    architecture = inspect(config)
    if config.model_type in TEXT_ALONE:
        config = config.get_text_config(decoder=True)
    torch.manual_seed(1)
    model = auto_class_of(architecture.model_type, architecture.kind, architecture.class_name).from_config(
        config, attn_implementation=attention_of(architecture.class_name), dtype=torch.float32
    )
    with torch.no_grad():  # the usual start is so small that all tokens are about as likely; errors would not show
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return LoadedModel(model.eval(), tokenizer(), architecture, torch.device("cpu"), "float32")


def judge(model_type: ModelType) -> TypeVerdict:
    """What becomes of a model of the type that somebody enters, and why.

    Raises AssertionError for one that passes the self-test with other values than one token at a time gives.
    """
    try:
        model = tiny_model(model_type)
    except ModelRefused as refusal:
        return TypeVerdict(*model_type, model_type.class_name, False, str(refusal).removesuffix(f": {ACCEPTED}"))
    try:
        if greatest_difference(model) < TOLERANCE:
            return TypeVerdict(*model_type, model_type.class_name, True, "")
    except Exception:  # noqa: BLE001, S110 (any type's code runs; the self-test has to name what is wrong)
        pass
    try:
        self_test(model)
    except FailedSelfTest as refusal:
        return TypeVerdict(*model_type, model_type.class_name, False, str(refusal))
    raise AssertionError(f"{model_type.name} passes the self-test and differs from one token at a time")


@torch.inference_mode()
def greatest_difference(model: LoadedModel) -> float:
    """Between the engine and one sentence at a time, over all tokens of TEXTS, in nats."""
    one_by_one = reference.SENTENCE[model.architecture.kind]
    return max(
        float(np.abs(likelihood.tokens - np.array(one_by_one(model, text))).max())
        for text, likelihood in zip(TEXTS, token_log_likelihoods(model, TEXTS, LikelihoodSettings()), strict=True)
    )


if __name__ == "__main__":  # writes the table that the documentation shows
    write_model_types(map(judge, list_types()))
