"""log P(w_t | w_<t) under a causal language model."""

from collections.abc import Iterator, Sequence

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import token_budget_batches
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, pad_pieces, scored_positions, split_by_piece
from scoring.parts import Parts
from scoring.work_sizes import sizes_for


def causal_log_likelihoods(model: LoadedModel, pieces: list[Piece], parts: Parts) -> Iterator[list[Scored]]:
    """Yield the log-likelihoods of the scored positions of `pieces`, batch after batch.

    A causal model does not see the tokens that follow, so padding on the right needs no attention mask.
    """

    def score(batch: Sequence[int]) -> list[Scored]:
        batch_pieces = [pieces[number] for number in batch]
        ids = pad_pieces(batch_pieces, width, model.device)
        rows, columns, counts = scored_positions(batch_pieces, model.device)
        output = body(model.model)(input_ids=ids, use_cache=False)
        # The state before a token predicts it.
        values = log_likelihoods(model.model, output, rows, columns - 1, ids[rows, columns], whole_count)
        return split_by_piece(batch, counts, values)

    lengths = [len(piece.ids) for piece in pieces]
    sizes = sizes_for(model.device)
    for batch in token_budget_batches(lengths, sizes.batch_tokens, sizes.call_cost):
        width = max(lengths[number] for number in batch)
        whole_count = sum(pieces[number].last - pieces[number].first for number in batch)
        for _, likelihoods in parts.compute(batch, width, score):
            yield likelihoods
