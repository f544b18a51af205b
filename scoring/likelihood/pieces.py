"""The pieces of texts that a model sees at once, and how a batch of them is laid out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

Scored = tuple[int, np.ndarray]  # number of a piece, its float32 log-likelihoods


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids that go through the model together, special tokens included; positions [first, last) are scored.

    `words` says for each position to which word of the text it belongs, -1 for special tokens; None where no one asks.
    """

    text: int
    ids: list[int]
    first: int
    last: int
    words: list[int] | None = None


def padded(pieces: Sequence[Piece], device: torch.device) -> torch.Tensor:
    """Return ids [rows, width], padded on the right with 0."""
    width = max(len(piece.ids) for piece in pieces)
    return torch.tensor([piece.ids + [0] * (width - len(piece.ids)) for piece in pieces], device=device)


def scored_positions(pieces: Sequence[Piece], device: torch.device) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Rows and columns [n] of all scored tokens of a batch, piece by piece, and how many each piece has."""
    counts = [piece.last - piece.first for piece in pieces]
    rows = torch.repeat_interleave(torch.tensor(counts)).to(device)
    columns = torch.cat([torch.arange(piece.first, piece.last) for piece in pieces]).to(device)
    return rows, columns, counts


def by_piece(batch: Sequence[int], counts: list[int], values: torch.Tensor) -> list[Scored]:
    """Deal the values [n] of a batch out to its pieces."""
    return [(number, part.numpy()) for number, part in zip(batch, torch.split(values.cpu(), counts), strict=True)]
