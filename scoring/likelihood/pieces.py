"""The pieces of text that a model sees at once, and the layout of a batch of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

Scored = tuple[int, np.ndarray]  # the number of a piece and its float32 log-likelihoods


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids that go through the model together, special tokens included; positions [first, last) are scored.

    `words` holds the number of each position's word in the text, -1 for special tokens; None where words play no part.
    """

    text: int
    ids: list[int]
    first: int
    last: int
    words: list[int] | None = None


def pad_pieces(pieces: Sequence[Piece], width: int, device: torch.device) -> torch.Tensor:
    """Return the ids of pieces [rows, width], padded on the right with 0."""
    return torch.tensor([piece.ids + [0] * (width - len(piece.ids)) for piece in pieces], device=device)


def scored_positions(pieces: Sequence[Piece], device: torch.device) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Return rows and columns [n] of all scored tokens of a batch, piece by piece, and the count of each piece."""
    counts = [piece.last - piece.first for piece in pieces]
    rows = torch.repeat_interleave(torch.tensor(counts)).to(device)
    columns = torch.cat([torch.arange(piece.first, piece.last) for piece in pieces]).to(device)
    return rows, columns, counts


def split_by_piece(batch: Sequence[int], counts: list[int], values: torch.Tensor) -> list[Scored]:
    """Split the values [n] of a batch by piece."""
    return [(number, part.numpy()) for number, part in zip(batch, torch.split(values.cpu(), counts), strict=True)]
