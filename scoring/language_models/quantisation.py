"""Quantised weights: which methods are read, what their formats are called, and how they become ordinary numbers.

The loaders are those of transformers. Weights are multiplied out as they are loaded, into the precision that the model
is computed in: what is measured is the rounding of the stored weights, in the declared arithmetic, on any device.
Activations are not rounded, even where a checkpoint asks for it.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scoring.language_models.refusals import ModelRefused
from scoring.language_models.weights import Weights

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

BITSANDBYTES, COMPRESSED = "bitsandbytes", "compressed-tensors"
# The package that each method's loader needs beside transformers, "" for none.
PACKAGES = {"fp8": "", "mxfp4": "", BITSANDBYTES: "bitsandbytes", COMPRESSED: "compressed_tensors"}
REMEDY = "use the model that it was made from, or one in FP8, MXFP4, bitsandbytes, compressed-tensors or GGUF"
LONGEST_FORMAT = 40  # characters
# Parts of quantised weights that a loader left over: then the weights were read without them.
PARTS = re.compile(r"scale|zero_point|absmax|quant_map|quant_state|SCB|_blocks$|_packed$")
OF_ACTIVATIONS = re.compile(r"(?:activation|input|output|[qkv])_(?:global_)?scale|(?:input|output)_zero_point")
PLAIN_FORMATS = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def find_quantisation(content: dict[str, Any], name: str) -> dict[str, Any]:
    """How a config.json says that its weights are quantised; {} where they are not.

    Raises ModelRefused for a method that is not read, or whose package is not installed.
    """
    if "compression_config" in content:
        raise ModelRefused(f"{name} is quantised in an old form (compression_config) that is not read here: {REMEDY}")
    text = content.get("text_config")
    if isinstance(text, dict) and "quantization_config" in text:
        raise ModelRefused(f"{name} is quantised in its text part alone, which is not read here: {REMEDY}")
    quantisation = content.get("quantization_config")
    if quantisation is None:
        return {}
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else None
    if not isinstance(quantisation, dict) or not isinstance(method, str) or method not in PACKAGES:
        raise ModelRefused(
            f"{name} is quantised in a way that is not read here (quant_method = {str(method)[:40]!a}): {REMEDY}"
        )
    package = PACKAGES[method]
    if package and find_spec(package) is None:
        raise ModelRefused(
            f"{name} is quantised by {method}, which needs the package {package.replace('_', '-')} on this board's "
            f"workers: ask the operators to install plumbline[quantised], or {REMEDY}"
        )
    return quantisation


def is_quantised(config: "PretrainedConfig") -> bool:
    """Whether the weights of a model are stored in a quantised form, other than GGUF."""
    return bool(getattr(config, "quantization_config", None))


def name_format(quantisation: dict[str, Any]) -> str:
    """What readers call the format of weights that are quantised in this way, as in "FP8" or "bitsandbytes NF4"."""
    method = quantisation["quant_method"]
    detail = ""
    if method == BITSANDBYTES:
        detail = str(quantisation.get("bnb_4bit_quant_type", "fp4")).upper() if _is_4bit(quantisation) else "int8"
    elif method == COMPRESSED:
        groups = quantisation.get("config_groups")
        schemes = groups.values() if isinstance(groups, dict) else ()
        weights = [scheme.get("weights") for scheme in schemes if isinstance(scheme, dict)]
        kinds = {f"{args.get('type', 'int')}{args.get('num_bits', '')}" for args in weights if isinstance(args, dict)}
        detail = "+".join(sorted(kinds))
    else:
        return str(method).upper()
    return f"{method} {detail}".strip()[:LONGEST_FORMAT]


def check_stored(weights: Weights, name: str) -> None:
    """Raise ModelRefused where weights of a model that says nothing of it are stored in quantised types.

    Their scales would be left out, and other weights be ranked than were made.
    """
    types = sorted(kind for kind in weights.kinds if kind.startswith("F8"))
    tensors = weights.integer_weights
    if types or tensors:
        contents = f"weights of type {', '.join(types)}" if types else f"whole numbers in {tensors[0][:80]!a}"
        raise ModelRefused(
            f"{name} has {contents}, and its config.json does not say how they are quantised: add "
            "quantization_config to it, or use the model that it was made from"
        )


def prepare_configuration(config: "PretrainedConfig") -> str:
    """Have the loader multiply the weights out, where it can do so as it reads them. Returns the method; "" if none."""
    if not is_quantised(config):
        return ""
    quantisation = config.quantization_config
    if quantisation["quant_method"] != BITSANDBYTES:
        config.quantization_config = {**quantisation, "dequantize": True}
    return str(quantisation["quant_method"])


def finish(model: "PreTrainedModel", method: str, dtype: "torch.dtype", spare_keys: Iterable[str]) -> "PreTrainedModel":
    """The loaded model with ordinary weights alone. Raises ModelRefused where some are still quantised, or unscaled."""
    parts = sorted(key for key in spare_keys if PARTS.search(key) and not OF_ACTIVATIONS.search(key))
    if parts:
        raise ModelRefused(
            f"{len(parts)} parts of its quantised weights belong to no layer ({parts[0][:80]}), so that weights "
            f"would be read without their scales: {REMEDY}"
        )
    if method == BITSANDBYTES:
        _refuse_broken_blocks(model)
        model = model.dequantize(dtype)
    packed_weights = [
        key for key, weight in model.named_parameters() if not weight.is_floating_point() or weight.itemsize < 2
    ]
    if packed_weights:
        first = packed_weights[0][:80]
        raise ModelRefused(f"{len(packed_weights)} of its weights stay quantised ({first}): {REMEDY}")
    exact_modules = {*(model._keep_in_fp32_modules or ()), *(model._keep_in_fp32_modules_strict or ())}
    for key, weight in model.named_parameters():  # some loaders leave the type of the scales
        if not exact_modules.intersection(key.split(".")):
            weight.data = weight.data.to(dtype)
    return model


def _refuse_broken_blocks(model: "PreTrainedModel") -> None:
    """Raise ModelRefused where a block of numbers goes over the end of a row: bitsandbytes misreads it on CPUs."""
    for key, weight in model.named_parameters():
        state = getattr(weight, "quant_state", None)
        if state is not None and state.shape[-1] % state.blocksize:
            raise ModelRefused(
                f"{key} has rows of {state.shape[-1]:,} numbers, no multiple of its blocks of {state.blocksize}, "
                f"which bitsandbytes does not read reliably: {REMEDY}"
            )


def _is_4bit(quantisation: dict[str, Any]) -> bool:
    return bool(quantisation.get("load_in_4bit") or quantisation.get("_load_in_4bit"))
