"""How much is computed at once on a kind of device. Numbers, not settings.

Rounding depends on the shape of what is computed at once, so these sizes help to determine a result.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class WorkSizes:
    """What a device does best at once.

    batch_tokens: tokens of a batch of a language model, padding included. classifier_tokens: those of a classifier.
    call_cost: the overhead of a call of a model, in tokens. vocabulary_part: logits of a position that are summed
    together. decoded_rows: continuations that are decoded together; step_logits: logits of one step of all of them;
    cache_bytes: their keys and values, in float32. drawn_logits: those from which tokens are drawn together.
    """

    batch_tokens: int
    classifier_tokens: int
    call_cost: int
    vocabulary_part: int
    decoded_rows: int
    step_logits: int
    cache_bytes: int
    drawn_logits: int


# What is computed should stay in the processor's caches. The call's cost was measured on two cores.
PROCESSOR = WorkSizes(
    batch_tokens=2048,
    classifier_tokens=512,
    call_cost=80,
    vocabulary_part=4096,
    decoded_rows=512,  # more of them gain little speed
    step_logits=2**26,  # 256 MiB of float32
    cache_bytes=2**30,
    drawn_logits=2**22,  # 16 MiB of float32
)
# A GPU should be full: it computes thousands of tokens while Python starts the kernels of one call.
GPU = WorkSizes(
    batch_tokens=2**14,
    classifier_tokens=2**15,
    call_cost=2048,
    vocabulary_part=2**14,
    decoded_rows=4096,
    step_logits=2**28,
    cache_bytes=2**34,
    drawn_logits=2**26,
)


def sizes_for(device: torch.device) -> WorkSizes:
    """The sizes of a device: a processor's, or a GPU's."""
    return PROCESSOR if device.type == "cpu" else GPU
