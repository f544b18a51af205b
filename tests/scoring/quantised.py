"""Tiny models whose weights are quantised by each format's own rules, and the numbers that they stand for."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

from tests.scoring.families import TOKENIZERS

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 96,
}
Tensors = dict[str, torch.Tensor]
# The 16 levels of NF4 (Dettmers et al. 2023, appendix E) and of FP4 (E2M1, of the OCP microscaling formats).
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
MXFP4_LEVELS = torch.tensor([*E2M1, *(-value for value in E2M1)])


def llama(tmp_path: Path) -> tuple[Path, Tensors]:
    """A folder with a tiny Llama that the test may change, and its weights."""
    folder = tmp_path / "quantised"
    tokenizer = TOKENIZERS["metaspace"]()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **SIZES)).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name in filter(is_linear, weights):  # the usual start is so small that all tokens are about as likely
        weights[name] *= 6
    return write(folder, weights, None), weights


def is_linear(name: str) -> bool:
    return name.endswith("_proj.weight")


def write(folder: Path, weights: Tensors, quantisation_config: dict | None) -> Path:
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    if quantisation_config:
        config["quantization_config"] = quantisation_config
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def fp8(folder: Path, weights: Tensors) -> tuple[Path, Tensors, str]:
    """Blocks of 16 x 16 numbers of type E4M3, each block with a scale."""
    stored, exact = dict(weights), dict(weights)
    for name in filter(is_linear, weights):
        rows, columns = weights[name].shape
        blocks = weights[name].reshape(rows // 16, 16, columns // 16, 16)
        scales = blocks.abs().amax((1, 3)) / 448
        rounded = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
        stored[name], stored[f"{name}_scale_inv"] = rounded.reshape(rows, columns), scales
        exact[name] = (rounded.float() * scales[:, None, :, None]).reshape(rows, columns)
    config = {"quant_method": "fp8", "weight_block_size": [16, 16], "activation_scheme": "dynamic"}
    return write(folder, stored, config), exact, "FP8"


def compressed_fp8(folder: Path, weights: Tensors) -> tuple[Path, Tensors, str]:
    """Numbers of type E4M3, each row with a scale."""
    stored, exact = dict(weights), dict(weights)
    for name in filter(is_linear, weights):
        scales = weights[name].abs().amax(1, keepdim=True) / 448
        rounded = (weights[name] / scales).to(torch.float8_e4m3fn)
        stored[name], stored[f"{name}_scale"] = rounded, scales
        exact[name] = rounded.float() * scales
    args = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
    return write(folder, stored, compressed(args, "float-quantized")), exact, "compressed-tensors float8"


def compressed_int4(folder: Path, weights: Tensors) -> tuple[Path, Tensors, str]:
    """Eight numbers of 4 bits in a word, the first lowest, each group of 16 in a row with a scale."""
    stored, exact = dict(weights), dict(weights)
    for name in filter(is_linear, weights):
        rows, columns = weights[name].shape
        groups = weights[name].reshape(rows, columns // 16, 16)
        scales = groups.abs().amax(2) / 7
        levels = (groups / scales[..., None]).round().clamp(-8, 7)
        exact[name] = (levels * scales[..., None]).reshape(rows, columns)
        nibbles = (levels.reshape(rows, columns // 8, 8).to(torch.int64) + 8) << (4 * torch.arange(8))
        base = name.removesuffix("weight")
        del stored[name]
        words = nibbles.sum(2)
        stored[f"{base}weight_packed"] = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
        stored[f"{base}weight_scale"] = scales
        stored[f"{base}weight_shape"] = torch.tensor([rows, columns])
    args = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 16, "symmetric": True, "dynamic": False}
    return write(folder, stored, compressed(args, "pack-quantized")), exact, "compressed-tensors int4"


def compressed(args: dict, layout: str) -> dict:
    group = {"targets": ["Linear"], "weights": args, "input_activations": None, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }


def bitsandbytes_nf4(folder: Path, weights: Tensors) -> tuple[Path, Tensors, str]:
    """As bitsandbytes writes them: two numbers a byte, the first higher, each block of 64 with its largest."""
    options = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="float32")
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=options, dtype=torch.float32)
    model.save_pretrained(folder)
    stored, exact = load_file(folder / "model.safetensors"), dict(weights)
    for name in filter(is_linear, weights):
        packed = stored[name].flatten().long()
        levels = torch.tensor(NF4)[torch.stack([packed >> 4, packed & 15], dim=1).flatten()]
        blocks = levels.reshape(-1, 64) * stored[f"{name}.absmax"][:, None]
        exact[name] = blocks.reshape(weights[name].shape)
    return folder, exact, "bitsandbytes NF4"


def bitsandbytes_int8(folder: Path, weights: Tensors) -> tuple[Path, Tensors, str]:
    """Whole numbers to 127, each row with its largest."""
    stored, exact = dict(weights), dict(weights)
    for name in filter(is_linear, weights):
        largest = weights[name].abs().amax(1)
        rounded = (weights[name] * 127 / largest[:, None]).round().to(torch.int8)
        stored[name], exact[name] = rounded, rounded.float() * largest[:, None] / 127
        stored[name.replace("weight", "SCB")] = largest
        stored[name.replace("weight", "weight_format")] = torch.tensor(0, dtype=torch.uint8)
    return write(folder, stored, {"quant_method": "bitsandbytes", "load_in_8bit": True}), exact, "bitsandbytes int8"


def mxfp4(folder: Path) -> tuple[Path, Tensors]:
    """A tiny gpt-oss whose experts are blocks of 32 numbers of 4 bits, the first of a byte lower, and a scale."""
    tokenizer = TOKENIZERS["bytes"]()
    tokenizer.save_pretrained(folder)
    config = GptOssConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=96,
    )
    torch.manual_seed(1)
    GptOssForCausalLM(config).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    stored = dict(weights)
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = weights[name].shape
        levels = torch.randint(0, 16, (experts, outputs, inputs // 32, 32))
        exponents = torch.randint(120, 126, (experts, outputs, inputs // 32))
        values = MXFP4_LEVELS[levels] * 2.0 ** (exponents[..., None] - 127)
        weights[name] = values.reshape(experts, outputs, inputs).transpose(1, 2)
        del stored[name]
        stored[f"{name}_blocks"] = (levels[..., 0::2] | levels[..., 1::2] << 4).to(torch.uint8)
        stored[f"{name}_scales"] = exponents.to(torch.uint8)
    return write(folder, stored, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}), weights
