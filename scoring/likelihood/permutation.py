"""log P(w_t | w_<t) under a permutation language model (XLNet), factorised from left to right.

Yang et al. 2019, "XLNet" (arXiv 1906.08237), two-stream attention. Experimental: the models were trained on all orders.
"""

from collections.abc import Iterator

import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import most_tokens, token_budget_batches
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, by_piece, padded, scored_positions


def permutation_log_likelihoods(loaded: LoadedModel, pieces: list[Piece]) -> Iterator[list[Scored]]:
    """Yield the log-likelihoods of the scored positions of `pieces`, batch after batch.

    No position sees itself or what follows, padding on the right included. The target mapping gives every position a
    query stream, which knows where it is and not what stands there: its state predicts the token.
    """
    for batch in token_budget_batches([len(piece.ids) for piece in pieces], most_tokens(loaded.device)):
        chosen = [pieces[number] for number in batch]
        ids = padded(chosen, loaded.device)
        rows, columns, counts = scored_positions(chosen, loaded.device)
        count, width = ids.shape
        unseen = torch.ones(width, width, device=loaded.device).triu().expand(count, width, width)
        every = torch.eye(width, device=loaded.device).expand(count, width, width)
        output = body(loaded.model)(input_ids=ids, perm_mask=unseen, target_mapping=every, use_mems=False)
        yield by_piece(batch, counts, log_likelihoods(loaded.model, output, rows, columns, ids[rows, columns]))
