"""Pseudo-log-likelihoods under a masked language model: log P(w_t | all other tokens), each token masked in turn.

Salazar et al. 2020, "Masked Language Model Scoring" (arXiv 1910.14659).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import equal_length_batches
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, pad_pieces
from scoring.parts import Parts
from scoring.work_sizes import sizes_for


@dataclass(frozen=True, slots=True)
class Copies:
    """One copy of a piece for every scored token, with the positions that each copy hides and scores.

    `hidden` and `scored` are [n, 2]: copy and position, sorted by copy.
    """

    count: int
    hidden: np.ndarray
    scored: np.ndarray


def make_copies(piece: Piece, quirk_id: int | None) -> Copies:
    """Make a copy for each scored position; it hides that position and, where words are known, the rest of its word.

    With `quirk_id` every copy also scores every position that holds this id, as the published code of Hosseini et al.
    2023 does, which recognises masked positions by their id.
    """
    positions = np.arange(piece.first, piece.last)
    numbers = np.arange(len(positions))
    mask_cells = scored_cells = np.stack([numbers, positions], axis=1)
    if piece.words is not None:
        words = np.array(piece.words)
        same_word_later = (words == words[positions, None]) & (np.arange(len(words)) >= positions[:, None])
        mask_cells = np.argwhere(same_word_later)
    if quirk_id is not None:
        is_mask = np.array(piece.ids) == quirk_id
        scored_cells = np.argwhere(is_mask | (np.arange(len(is_mask)) == positions[:, None]))
    return Copies(len(positions), mask_cells, scored_cells)


def masked_log_likelihoods(
    model: LoadedModel, pieces: list[Piece], parts: Parts, *, mask_id: int, quirk: bool
) -> Iterator[list[Scored]]:
    """Yield the pseudo-log-likelihoods of the scored positions of `pieces`, each piece when its last copy is scored.

    `quirk`: every copy scores every position whose own id is `mask_id`. Copies of different texts share a batch only if
    they have the same length: a masked model sees the tokens that follow, MobileBERT even those behind an attention
    mask.
    """
    if not pieces:
        return
    order = sorted(range(len(pieces)), key=lambda number: -len(pieces[number].ids))  # as the batches take them
    copies = [make_copies(pieces[number], mask_id if quirk else None) for number in order]
    counts = np.array([piece_copy.count for piece_copy in copies])
    offsets = np.cumsum(counts) - counts
    mask_cells, scored_cells = (
        np.concatenate([positions + np.array([first, 0]) for first, positions in zip(offsets, cells, strict=True)])
        for cells in (
            [piece_copy.hidden for piece_copy in copies],
            [piece_copy.scored for piece_copy in copies],
        )
    )
    owner = np.repeat(np.arange(len(order)), counts)
    bounds = np.cumsum([0, *(len(piece_copy.scored) for piece_copy in copies)])
    values = np.empty(bounds[-1], dtype=np.float32)
    place_count = 0
    lengths = [len(pieces[order[place]].ids) for place in owner]

    def score(batch: Sequence[int]) -> int:
        """Score consecutive copies; returns where their values end."""
        start, stop = batch[0], batch[-1] + 1
        present = owner[start:stop]
        batch_pieces = [pieces[order[place]] for place in range(present[0], present[-1] + 1)]
        ids = pad_pieces(batch_pieces, lengths[start], model.device)
        ids = ids[torch.from_numpy(present - present[0]).to(model.device)]
        low, high = np.searchsorted(scored_cells[:, 0], [start, stop])
        rows, columns = torch.from_numpy(scored_cells[low:high] - [start, 0]).to(model.device).T
        targets = ids[rows, columns]
        batch_cells = mask_cells[slice(*np.searchsorted(mask_cells[:, 0], [start, stop]))] - [start, 0]
        ids[tuple(torch.from_numpy(batch_cells).to(model.device).T)] = mask_id
        output = body(model.model)(input_ids=ids)
        values[low:high] = log_likelihoods(model.model, output, rows, columns, targets, len(whole)).cpu().numpy()
        return int(high)

    for whole in equal_length_batches(lengths, sizes_for(model.device).batch_tokens):
        for _, end in parts.compute(whole, lengths[whole[0]], score):
            last = int(np.searchsorted(bounds, end, "right")) - 1
            yield [(order[place], values[bounds[place] : bounds[place + 1]]) for place in range(place_count, last)]
            place_count = last
