"""Pseudo-log-likelihoods under a masked language model: log P(w_t | all other tokens), each token masked in turn.

Salazar et al. 2020, "Masked Language Model Scoring" (arXiv 1910.14659).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import equal_length_batches, most_tokens
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, padded


@dataclass(frozen=True, slots=True)
class Copies:
    """A piece once for every scored token, with what each copy hides and where it is scored.

    `hidden` and `scored` are [n, 2]: copy, position; sorted by copy.
    """

    count: int
    hidden: np.ndarray
    scored: np.ndarray


def copies_of(piece: Piece, quirk_id: int | None) -> Copies:
    """One copy for each scored position, which it hides, and the rest of the word after it where words are known.

    With `quirk_id` every position that holds this id is scored in every copy as well, as the published code of
    Hosseini et al. 2023 does when it tells masked positions by their id.
    """
    positions = np.arange(piece.first, piece.last)
    numbers = np.arange(len(positions))
    hidden = scored = np.stack([numbers, positions], axis=1)
    if piece.words is not None:
        words = np.array(piece.words)
        same_word_later = (words == words[positions, None]) & (np.arange(len(words)) >= positions[:, None])
        hidden = np.argwhere(same_word_later)
    if quirk_id is not None:
        found = np.array(piece.ids) == quirk_id
        scored = np.argwhere(found | (np.arange(len(found)) == positions[:, None]))
    return Copies(len(positions), hidden, scored)


def masked_log_likelihoods(
    loaded: LoadedModel, pieces: list[Piece], *, mask_id: int, quirk: bool
) -> Iterator[list[Scored]]:
    """Yield the pseudo-log-likelihoods of the scored positions of `pieces`, each piece when its last copy is done.

    `quirk`: score every position whose own id is `mask_id` in every copy. Copies of different texts share batches, but
    of one length only: a masked model looks at what follows, and MobileBERT even past an attention mask.
    """
    if not pieces:
        return
    order = sorted(range(len(pieces)), key=lambda number: -len(pieces[number].ids))  # as the batches take them
    copies = [copies_of(pieces[number], mask_id if quirk else None) for number in order]
    counts = np.array([of.count for of in copies])
    before = np.cumsum(counts) - counts
    hidden, scored = (
        np.concatenate([positions + np.array([first, 0]) for first, positions in zip(before, of_all, strict=True)])
        for of_all in ([of.hidden for of in copies], [of.scored for of in copies])
    )
    owner = np.repeat(np.arange(len(order)), counts)
    bounds = np.cumsum([0, *(len(of.scored) for of in copies)])
    values = np.empty(bounds[-1], dtype=np.float32)
    finished = 0
    lengths = [len(pieces[order[place]].ids) for place in owner]
    for batch in equal_length_batches(lengths, most_tokens(loaded.device)):
        start, stop = batch[0], batch[-1] + 1
        present = owner[start:stop]
        ids = padded([pieces[order[place]] for place in range(present[0], present[-1] + 1)], loaded.device)
        ids = ids[torch.from_numpy(present - present[0]).to(loaded.device)]
        low, high = np.searchsorted(scored[:, 0], [start, stop])
        rows, columns = torch.from_numpy(scored[low:high] - [start, 0]).to(loaded.device).T
        targets = ids[rows, columns]
        masked = hidden[slice(*np.searchsorted(hidden[:, 0], [start, stop]))] - [start, 0]
        ids[tuple(torch.from_numpy(masked).to(loaded.device).T)] = mask_id
        output = body(loaded.model)(input_ids=ids)
        values[low:high] = log_likelihoods(loaded.model, output, rows, columns, targets).cpu().numpy()
        whole = int(np.searchsorted(bounds, high, "right")) - 1
        yield [(order[place], values[bounds[place] : bounds[place + 1]]) for place in range(finished, whole)]
        finished = whole
