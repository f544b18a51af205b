"""Pseudo-log-likelihoods under a masked language model: log P(w_t | all other tokens), each token masked in turn.

Salazar et al. 2020, "Masked Language Model Scoring" (arXiv 1910.14659).
"""

from collections.abc import Iterator

import numpy as np
import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import token_budget_batches
from scoring.likelihood.pieces import Piece, Scored, head_only_at, log_likelihood, padded

MOST_TOKENS = 8192  # in a batch of masked copies


def masked_log_likelihoods(loaded: LoadedModel, pieces: list[Piece]) -> Iterator[list[Scored]]:
    """Yield the pseudo-log-likelihoods of the scored positions of `pieces`, each when its last copy is done.

    Copies of different texts share batches; the vocabulary head runs at the masked position alone.
    """
    copies = [(number, position) for number, piece in enumerate(pieces) for position in range(piece.first, piece.last)]
    values = [np.empty(piece.last - piece.first, dtype=np.float32) for piece in pieces]
    missing = [len(row) for row in values]
    mask_id = loaded.tokenizer.mask_token_id
    for batch in token_budget_batches([len(pieces[number].ids) for number, _ in copies], MOST_TOKENS):
        chosen = [copies[index] for index in batch]
        ids, attention = padded([pieces[number].ids for number, _ in chosen], loaded.device)
        rows = torch.arange(len(chosen), device=loaded.device)
        columns = torch.tensor([position for _, position in chosen], device=loaded.device)
        targets = ids[rows, columns]
        ids[rows, columns] = mask_id
        with head_only_at(loaded.model, rows, columns):
            logits = loaded.model(input_ids=ids, attention_mask=attention).logits[0]
        finished = []
        for (number, position), value in zip(chosen, log_likelihood(logits, targets).tolist(), strict=True):
            values[number][position - pieces[number].first] = value
            missing[number] -= 1
            if not missing[number]:
                finished.append((number, values[number]))
        yield finished
