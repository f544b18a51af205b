"""What the engines of every kind share: the piece of a text that the model sees at once, and a cheap head."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

Scored = tuple[int, np.ndarray]  # number of a piece, its float32 log-likelihoods


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids that go through the model together, special tokens included; positions [first, last) are scored."""

    text: int
    ids: list[int]
    first: int
    last: int


def padded(pieces: list[list[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return ids [rows, width], padded on the right with 0, and the attention mask, None where nothing is padded."""
    lengths = [len(ids) for ids in pieces]
    width = max(lengths)
    ids = torch.tensor([row + [0] * (width - len(row)) for row in pieces], device=device)
    if min(lengths) == width:
        return ids, None
    mask = torch.arange(width, device=device) < torch.tensor(lengths, device=device)[:, None]
    return ids, mask.long()


@contextmanager
def head_only_at(model: PreTrainedModel, rows: torch.Tensor, columns: torch.Tensor) -> Iterator[None]:
    """Within the block the model's head sees hidden states [1, n, hidden] at (rows, columns) and nothing else.

    The product with the vocabulary dominates small models; here it is made only where a token is scored. Works for
    every head that treats positions independently, which all language-modelling heads do.
    """

    def select(_module: torch.nn.Module, _args: object, output):  # type: ignore[no-untyped-def]
        output.last_hidden_state = output.last_hidden_state[rows, columns].unsqueeze(0)
        return output

    handle = model.base_model.register_forward_hook(select)
    try:
        yield
    finally:
        handle.remove()


def log_likelihood(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Log-softmax of `logits` [n, vocabulary] at `targets` [n], in float32, without a second [n, vocabulary] array."""
    logits = logits.float()
    return logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)
