"""Score texts: tokenise, cut into windows, run the model batch by batch, put the token log-likelihoods in order."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock

import numpy as np
import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.causal import causal_log_likelihoods
from scoring.likelihood.masked import masked_log_likelihoods
from scoring.likelihood.passages import Passage
from scoring.likelihood.permutation import permutation_log_likelihoods
from scoring.likelihood.pieces import Piece, Scored
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.settings import LikelihoodSettings
from scoring.likelihood.text_likelihood import TextLikelihood
from scoring.likelihood.tokens import SpecialTokens, cut_pieces, encode
from scoring.parts import parts_for

# Texts are read, scored and released in chunks of so many texts or characters, so that memory use stays constant.
CHUNK_TEXTS = 1024
CHUNK_CHARACTERS = 2**20

# Held while a chunk is scored, because scoring changes the model's head and threads may share the model.
ONE_AT_A_TIME = Lock()


def token_log_likelihoods(
    model: LoadedModel,
    texts: Iterable[str | Passage],
    settings: LikelihoodSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> Iterator[TextLikelihood]:
    """Yield the token log-likelihoods of `texts`, in their order, reading them as they are needed.

    Of a passage only its own tokens are scored, given the rest of its text. Identical texts near each other are scored
    once. After every batch `progress` gets the number of distinct texts finished so far; what it raises passes
    through. Raises NotApplicable where the settings do not fit the model.
    """
    if model.precision != settings.precision:
        raise NotApplicable(f"precision = {settings.precision!r}: the model was loaded in {model.precision}")
    special = SpecialTokens.for_model(model, settings)
    engine = choose_engine(model, settings)
    count = 0
    for chunk in chunks(texts):
        distinct = list(dict.fromkeys(chunk))
        likelihoods = _score(model, distinct, settings, special, engine, partial(_advance, progress, count))
        count += len(distinct)
        by_text = dict(zip(distinct, likelihoods, strict=True))
        yield from (by_text[text] for text in chunk)


def _advance(progress: Callable[[int], None], earlier_texts: int, count: int) -> None:
    progress(earlier_texts + count)


def chunks(texts: Iterable[str | Passage]) -> Iterator[list[str | Passage]]:
    """Cut a stream into lists of at most CHUNK_TEXTS texts and, unless one text has more, CHUNK_CHARACTERS."""
    chunk: list[str | Passage] = []
    characters = 0
    for text in texts:
        length = len(text.text if isinstance(text, Passage) else text)
        if chunk and (len(chunk) == CHUNK_TEXTS or characters + length > CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += length
    if chunk:
        yield chunk


def choose_engine(model: LoadedModel, settings: LikelihoodSettings) -> Callable[[list[Piece]], Iterator[list[Scored]]]:
    """The function that scores pieces under the model's kind of likelihood. Raises NotApplicable."""
    kind, parts = model.architecture.kind, parts_for(model)
    if kind == "causal":
        return lambda pieces: causal_log_likelihoods(model, pieces, parts)
    if kind == "permutation":
        return lambda pieces: permutation_log_likelihoods(model, pieces, parts)
    fixed_mask_id = settings.fixed_mask_id
    mask_id = model.tokenizer.mask_token_id if fixed_mask_id is None else fixed_mask_id
    if mask_id is None:
        raise NotApplicable("mask_token = 'tokenizer': the tokenizer has no mask token")
    if mask_id >= model.architecture.vocabulary:
        raise NotApplicable(
            f"mask_token = 'id:{mask_id}': the model has {model.architecture.vocabulary} embeddings only"
        )
    quirk = fixed_mask_id is not None
    return lambda pieces: masked_log_likelihoods(model, pieces, parts, mask_id=mask_id, quirk=quirk)


@torch.inference_mode()
def _score(
    model: LoadedModel,
    texts: list[str | Passage],
    settings: LikelihoodSettings,
    special: SpecialTokens,
    engine: Callable[[list[Piece]], Iterator[list[Scored]]],
    progress: Callable[[int], None],
) -> list[TextLikelihood]:
    """Score distinct texts together."""
    encodings = encode(model, texts, settings)
    pieces = cut_pieces(model, encodings, special, settings.stride)
    window_counts = np.bincount([piece.text for piece in pieces], minlength=len(texts))
    open_windows = window_counts.copy()
    values: dict[int, np.ndarray] = {}
    with ONE_AT_A_TIME:
        for batch in engine(pieces):
            values.update(batch)
            for number, _ in batch:
                open_windows[pieces[number].text] -= 1
            progress(int(np.count_nonzero((open_windows == 0) & (window_counts > 0))))
    parts: list[list[np.ndarray]] = [[] for _ in texts]
    for number, piece in enumerate(pieces):
        parts[piece.text].append(values[number])
    return [_likelihood(encoding.unscorable, values) for encoding, values in zip(encodings, parts, strict=True)]


def _likelihood(unscorable: Unscorable | None, parts: list[np.ndarray]) -> TextLikelihood:
    tokens = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    if not np.isfinite(tokens).all():
        return TextLikelihood(np.empty(0, dtype=np.float32), Unscorable.NOT_FINITE, len(parts))
    return TextLikelihood(tokens, unscorable, len(parts))
