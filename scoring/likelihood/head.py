"""A language model in two parts: the body computes hidden states, the head computes logits from them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from scoring.parts import LEAST
from scoring.work_sizes import sizes_for


def body(model: PreTrainedModel) -> torch.nn.Module:
    """The part that the model calls for hidden states.

    OPT and similar models hold it one level down; a multimodal model holds it in its text part.
    """
    part = model.base_model.get_decoder()
    if part is model:  # Llama 4's class does not name a body
        part = next(child for child in model.children() if isinstance(child, PreTrainedModel))
    if not isinstance(part, PreTrainedModel):  # a decoder that is but a part of the body, as Funnel's
        return cast(torch.nn.Module, model.base_model)
    return body(part) if part.get_output_embeddings() else part  # the text part may be a language model, head and all


def log_likelihoods(
    model: PreTrainedModel,
    output: ModelOutput,
    rows: torch.Tensor,
    columns: torch.Tensor,
    targets: torch.Tensor,
    whole_count: int,
) -> torch.Tensor:
    """Return the log-softmax of the model's logits at (rows, columns) for `targets`, float32 [n].

    whole_count: how many the whole batch has, of which these may be a part (see `scoring.parts`).

    `output` is the body's. The product with the vocabulary dominates the cost of small models, so it is computed only
    where a token is scored, and never held in memory as a whole. This is exact for heads that treat positions
    independently, as all language-modelling heads do.
    """
    count = len(targets)
    if missing_count := max(0, min(LEAST, whole_count) - count):
        rows, columns, targets = (
            torch.cat([places, places[-1:].expand(missing_count)]) for places in (rows, columns, targets)
        )
    target_logits = torch.empty(len(targets), dtype=torch.float32, device=targets.device)
    sums = []
    states = output.last_hidden_state.to(targets.device)  # a spread model leaves them where its last layer lies
    for first, part in logits(model, output, states[rows, columns]):
        positions = ((targets >= first) & (targets < first + part.shape[1])).nonzero()[:, 0]
        target_logits[positions] = part[positions, targets[positions] - first]
        highest = part.amax(-1, keepdim=True)
        # In place: another array of this size would cost as much as the exponentials.
        sums.append(part.sub_(highest).exp_().sum(-1).log_() + highest[:, 0])
    return (target_logits - torch.stack(sums).logsumexp(0))[:count]


def logits(model: PreTrainedModel, output: ModelOutput, states: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the logits of `states` [n, hidden], float32 [n, part of the vocabulary], and the first token of each part.

    A head that does not compute its last product by a layer, such as MobileBERT's, gives the whole vocabulary at once.
    """
    vocabulary = model.get_output_embeddings().weight.shape[0]
    device = states.device
    size = sizes_for(device).vocabulary_part
    for first in range(0, vocabulary, size):
        with head_alone(model, output, states, slice(first, first + size)):
            part = model(input_ids=torch.zeros_like(states[:1, :1], dtype=torch.long)).logits[0].to(device).float()
        yield first, part
        if part.shape[1] == vocabulary:
            return


@contextmanager
def head_alone(
    model: PreTrainedModel, output: ModelOutput, states: torch.Tensor, part: slice | torch.Tensor
) -> Iterator[None]:
    """Within the block the model's head computes `part` of the logits of `states` [n, hidden], whatever the input.

    part: of the vocabulary, as a slice or as ids of tokens.

    What the model's own class does to its logits (transforms, biases, caps, scales) thus stays in force.
    """
    inner, last = body(model), model.get_output_embeddings()
    output.last_hidden_state = states[None]
    weight = weight_part(last, "weight", part)
    bias = None if last.bias is None else weight_part(last, "bias", part)
    with (
        replaced_forward(inner, lambda *_args, **_options: output),
        replaced_forward(last, lambda head_input: linear(head_input.to(weight.device), weight, bias)),
    ):
        yield


def weight_part(layer: torch.nn.Module, name: str, part: slice | torch.Tensor) -> torch.Tensor:
    """`part` of a weight where the layer computes; of a spread model it may lie elsewhere until it is needed."""
    weight = cast(torch.Tensor, getattr(layer, name))
    if weight.device.type != "meta":
        return weight[part]
    hook: Any = layer._hf_hook
    return cast(torch.Tensor, hook.weights_map[name][part].to(hook.execution_device))


@contextmanager
def replaced_forward(module: torch.nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """Within the block the module computes something else; the hook of a spread model stays on it afterwards."""
    own = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
