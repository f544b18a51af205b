"""log P(w_t | w_<t) under a causal language model."""

from collections.abc import Iterator

import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import token_budget_batches
from scoring.likelihood.pieces import Piece, Scored, head_only_at, log_likelihood, padded

MOST_TOKENS = 4096  # in a batch
MOST_LOGITS = 2**26  # in a batch: 256 MiB of float32


def causal_log_likelihoods(loaded: LoadedModel, pieces: list[Piece]) -> Iterator[list[Scored]]:
    """Yield the log-likelihoods of the scored positions of `pieces`, batch after batch.

    A causal model cannot look at what follows, so padding on the right needs no attention mask.
    """
    budget = min(MOST_TOKENS, max(1, MOST_LOGITS // loaded.architecture.vocabulary))
    for batch in token_budget_batches([len(piece.ids) for piece in pieces], budget):
        chosen = [pieces[number] for number in batch]
        ids, _ = padded([piece.ids for piece in chosen], loaded.device)
        counts = [piece.last - piece.first for piece in chosen]
        rows = torch.arange(len(chosen), device=loaded.device).repeat_interleave(
            torch.tensor(counts, device=loaded.device)
        )
        columns = torch.cat([torch.arange(piece.first, piece.last, device=loaded.device) for piece in chosen])
        # The state before a token predicts it.
        with head_only_at(loaded.model, rows, columns - 1):
            logits = loaded.model(input_ids=ids, use_cache=False).logits[0]
        values = log_likelihood(logits, ids[rows, columns]).cpu()
        parts = torch.split(values, counts)
        yield [(number, part.numpy()) for number, part in zip(batch, parts, strict=True)]
