"""log P(w_t | w_<t) under a permutation language model (XLNet), factorised from left to right.

Yang et al. 2019, "XLNet" (arXiv 1906.08237), two-stream attention. Experimental: the models were trained on all orders.
"""

from collections.abc import Iterator, Sequence

import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import token_budget_batches
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, pad_pieces, scored_positions, split_by_piece
from scoring.parts import Parts
from scoring.work_sizes import sizes_for


def permutation_log_likelihoods(model: LoadedModel, pieces: list[Piece], parts: Parts) -> Iterator[list[Scored]]:
    """Yield the log-likelihoods of the scored positions of `pieces`, batch after batch.

    No position sees itself or what follows, including padding on the right. The target mapping gives every position a
    query stream, which knows the position but not its token: the state of this stream predicts the token.
    """

    def score(batch: Sequence[int]) -> list[Scored]:
        batch_pieces = [pieces[number] for number in batch]
        ids = pad_pieces(batch_pieces, width, model.device)
        rows, columns, counts = scored_positions(batch_pieces, model.device)
        hides = torch.ones(width, width, device=model.device).triu().expand(len(batch), width, width)
        targets = torch.eye(width, device=model.device).expand(len(batch), width, width)
        output = body(model.model)(input_ids=ids, perm_mask=hides, target_mapping=targets, use_mems=False)
        return split_by_piece(
            batch, counts, log_likelihoods(model.model, output, rows, columns, ids[rows, columns], whole_count)
        )

    lengths = [len(piece.ids) for piece in pieces]
    sizes = sizes_for(model.device)
    for batch in token_budget_batches(lengths, sizes.batch_tokens, sizes.call_cost):
        width = max(lengths[number] for number in batch)
        whole_count = sum(pieces[number].last - pieces[number].first for number in batch)
        for _, likelihoods in parts.compute(batch, width, score):
            yield likelihoods
