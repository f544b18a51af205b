"""log P(w_t | w_<t) under a causal language model."""

from collections.abc import Iterator

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import most_tokens, token_budget_batches
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, Scored, by_piece, padded, scored_positions


def causal_log_likelihoods(loaded: LoadedModel, pieces: list[Piece]) -> Iterator[list[Scored]]:
    """Yield the log-likelihoods of the scored positions of `pieces`, batch after batch.

    A causal model cannot look at what follows, so padding on the right needs no attention mask.
    """
    for batch in token_budget_batches([len(piece.ids) for piece in pieces], most_tokens(loaded.device)):
        chosen = [pieces[number] for number in batch]
        ids = padded(chosen, loaded.device)
        rows, columns, counts = scored_positions(chosen, loaded.device)
        output = body(loaded.model)(input_ids=ids, use_cache=False)
        # The state before a token predicts it.
        yield by_piece(batch, counts, log_likelihoods(loaded.model, output, rows, columns - 1, ids[rows, columns]))
