"""Students of a teacher: its family, with fewer layers and a smaller width (Hosseini et al. 2023, tables 6 and 7)."""

from copy import deepcopy

import torch
from transformers import PretrainedConfig, PreTrainedModel

from scoring.language_models import Architecture
from scoring.language_models.architecture import auto_class_of
from scoring.refusals import Refused

HEAD_SIZE = 64  # as in the paper: heads are the hidden size over 64
FAMILIES = ("bert", "electra", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "roberta")


def configure_student(teacher: PretrainedConfig, depth: int, width: int) -> PretrainedConfig:
    """The teacher's configuration with other sizes; the feed-forward layers keep their ratio to the hidden size.

    Raises Refused for a family whose sizes this does not know, and for sizes that make no model.
    """
    if teacher.model_type not in FAMILIES:
        raise Refused.of_value("teacher", teacher.model_type, f"use a model of one of {', '.join(FAMILIES)}")
    if depth < 1:
        raise Refused.of_value("layers", depth, "use 1 or more")
    if width < 2 or width % 2 or (width > HEAD_SIZE and width % HEAD_SIZE):
        raise Refused.of_value(
            "hidden", width, f"use a multiple of {HEAD_SIZE}, the size of a head, or an even size below"
        )
    config = deepcopy(teacher)
    heads = max(1, width // HEAD_SIZE)
    if getattr(teacher, "intermediate_size", None):
        config.intermediate_size = round(teacher.intermediate_size * width / teacher.hidden_size)
    if getattr(teacher, "n_inner", None):
        config.n_inner = round(teacher.n_inner * width / teacher.hidden_size)
    if getattr(teacher, "num_key_value_heads", None):
        group = teacher.num_attention_heads // teacher.num_key_value_heads
        config.num_key_value_heads = heads // group if heads % group == 0 else heads
    if getattr(teacher, "head_dim", None):
        config.head_dim = width // heads
    if getattr(teacher, "layer_types", None):
        config.layer_types = [teacher.layer_types[layer % len(teacher.layer_types)] for layer in range(depth)]
    config.num_hidden_layers, config.hidden_size, config.num_attention_heads = depth, width, heads
    return config


def build_student(
    teacher: PreTrainedModel, architecture: Architecture, depth: int, width: int, seed: int
) -> PreTrainedModel:
    """A student that has learnt nothing, started as its family starts by `seed`; on the CPU, float32."""
    config = configure_student(teacher.config, depth, width)
    torch.manual_seed(seed)
    auto_class = auto_class_of(architecture.model_type, architecture.kind, architecture.class_name)
    student: PreTrainedModel = auto_class.from_config(config, dtype=torch.float32)
    return student
