"""A language model in two parts: its body, which makes hidden states, and its head, which makes logits of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

MOST_LOGITS = 2**23  # at a time: 32 MiB of float32, which the allocator hands out again instead of fetching new pages


def body(model: PreTrainedModel) -> torch.nn.Module:
    """The part that the model calls for hidden states. Of OPT, and of what is built like it, it lies one level down."""
    part: torch.nn.Module = model.base_model.get_decoder()
    return part


def log_likelihoods(
    model: PreTrainedModel, output: ModelOutput, rows: torch.Tensor, columns: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return the log-softmax of the model's logits at (rows, columns) for `targets`, float32 [n].

    `output` is the body's. The product with the vocabulary dominates small models, so it is made only where a
    token is scored; and no more logits are held than MOST_LOGITS. Right for every head that treats positions
    independently, which all language-modelling heads do.
    """
    states = output.last_hidden_state[rows, columns]
    at_a_time = max(1, MOST_LOGITS // model.config.vocab_size)
    found = []
    for part, wanted in zip(torch.split(states, at_a_time), torch.split(targets, at_a_time), strict=True):
        with given_states(model, output, part):
            logits = model(input_ids=wanted[None]).logits[0].float()
        at_target = logits.gather(-1, wanted[:, None])[:, 0]
        highest = logits.amax(-1, keepdim=True)
        # In place: another array of this size would cost as much as the exponentials.
        found.append(at_target - logits.sub_(highest).exp_().sum(-1).log_() - highest[:, 0])
    return torch.cat(found)


@contextmanager
def given_states(model: PreTrainedModel, output: ModelOutput, states: torch.Tensor) -> Iterator[None]:
    """Within the block the model is its head alone: it sees `states` [n, hidden] as one row, whatever it is called on.

    So everything that a model's own class does to its logits (biases, caps, scales) stays in force.
    """
    output.last_hidden_state = states[None]
    part = body(model)
    part.forward = lambda *_args, **_options: output
    try:
        yield
    finally:
        del part.forward
