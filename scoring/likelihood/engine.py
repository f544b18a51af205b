"""Scores texts: tokenise, cut into windows, run the model batch by batch, put the token log-likelihoods in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import pyarrow as pa
import torch

from scoring.artefacts import SCHEMAS
from scoring.language_models import LoadedModel
from scoring.likelihood.causal import causal_log_likelihoods
from scoring.likelihood.masked import masked_log_likelihoods
from scoring.likelihood.permutation import permutation_log_likelihoods
from scoring.likelihood.pieces import Piece, Scored
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.settings import LikelihoodSettings
from scoring.likelihood.tokens import SpecialTokens, cut, encode

# Texts are read and scored in chunks of so many, or so many characters, and forgotten: memory does not grow with them.
CHUNK_TEXTS = 1024
CHUNK_CHARACTERS = 2**20

# Held while a chunk is scored: a model's head is changed meanwhile, and threads may share the model.
ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class TextLikelihood:
    """One text: natural-log likelihoods of its scored tokens, float32 [n_tokens]; if none, why; windows it took."""

    tokens: np.ndarray
    unscorable: Unscorable | None
    windows: int

    @property
    def log_perplexity(self) -> float | None:
        """Minus the mean token log-likelihood; None where there is none."""
        return None if self.unscorable else -float(self.tokens.mean(dtype=np.float64))


def likelihoods_table(ids: Sequence[str], likelihoods: Sequence[TextLikelihood]) -> pa.Table:
    """Rows of the `likelihoods` schema, for texts of these ids."""
    schema = SCHEMAS["likelihoods"]
    columns = {
        "id": ids,
        "token_log_likelihoods": [item.tokens for item in likelihoods],
        "unscorable": [item.unscorable and item.unscorable.value for item in likelihoods],
        "windows": [item.windows for item in likelihoods],
    }
    return pa.table(columns, schema=schema)


def token_log_likelihoods(
    loaded: LoadedModel,
    texts: Iterable[str],
    settings: LikelihoodSettings,
    progress: Callable[[int], None] = lambda _finished: None,
) -> Iterator[TextLikelihood]:
    """Yield the token log-likelihoods of `texts`, in their order, reading them as they are needed.

    Identical texts near each other are scored once. `progress` gets the number of distinct texts finished so far,
    after every batch; what it raises passes through. Raises NotApplicable where the settings do not fit the model.
    """
    if loaded.precision != settings.precision:
        raise NotApplicable(f"precision = {settings.precision!r}: the model was loaded in {loaded.precision}")
    special = SpecialTokens.of(loaded, settings)
    engine = engine_of(loaded, settings)
    finished = 0
    for chunk in chunks(texts):
        distinct = list(dict.fromkeys(chunk))
        scored = _score(loaded, distinct, settings, special, engine, partial(_advance, progress, finished))
        finished += len(distinct)
        by_text = dict(zip(distinct, scored, strict=True))
        yield from (by_text[text] for text in chunk)


def _advance(progress: Callable[[int], None], before: int, finished: int) -> None:
    progress(before + finished)


def chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut a stream of texts into lists of at most CHUNK_TEXTS texts and, unless one has more, CHUNK_CHARACTERS."""
    chunk: list[str] = []
    characters = 0
    for text in texts:
        if chunk and (len(chunk) == CHUNK_TEXTS or characters + len(text) > CHUNK_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += len(text)
    if chunk:
        yield chunk


def engine_of(loaded: LoadedModel, settings: LikelihoodSettings) -> Callable[[list[Piece]], Iterator[list[Scored]]]:
    """The function that scores pieces under the model's kind of likelihood. Raises NotApplicable."""
    kind = loaded.architecture.kind
    if kind == "causal":
        return lambda pieces: causal_log_likelihoods(loaded, pieces)
    if kind == "permutation":
        return lambda pieces: permutation_log_likelihoods(loaded, pieces)
    fixed = settings.fixed_mask_id
    mask_id = loaded.tokenizer.mask_token_id if fixed is None else fixed
    if mask_id is None:
        raise NotApplicable("mask_token = 'tokenizer': the tokenizer has no mask token")
    if mask_id >= loaded.architecture.vocabulary:
        raise NotApplicable(
            f"mask_token = 'id:{mask_id}': the model has {loaded.architecture.vocabulary} embeddings only"
        )
    return lambda pieces: masked_log_likelihoods(loaded, pieces, mask_id=mask_id, quirk=fixed is not None)


@torch.inference_mode()
def _score(
    loaded: LoadedModel,
    texts: list[str],
    settings: LikelihoodSettings,
    special: SpecialTokens,
    engine: Callable[[list[Piece]], Iterator[list[Scored]]],
    progress: Callable[[int], None],
) -> list[TextLikelihood]:
    """Score distinct texts together."""
    encoded = encode(loaded, texts, settings)
    pieces = cut(loaded, encoded, special, settings.stride)
    taken = np.bincount([piece.text for piece in pieces], minlength=len(texts))
    left = taken.copy()
    values: dict[int, np.ndarray] = {}
    with ONE_AT_A_TIME:
        for batch in engine(pieces):
            values.update(batch)
            for number, _ in batch:
                left[pieces[number].text] -= 1
            progress(int(np.count_nonzero((left == 0) & (taken > 0))))
    found: list[list[np.ndarray]] = [[] for _ in texts]
    for number, piece in enumerate(pieces):
        found[piece.text].append(values[number])
    return [_likelihood(of.unscorable, values) for of, values in zip(encoded, found, strict=True)]


def _likelihood(unscorable: Unscorable | None, parts: list[np.ndarray]) -> TextLikelihood:
    tokens = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    if not np.isfinite(tokens).all():
        return TextLikelihood(np.empty(0, dtype=np.float32), Unscorable.NOT_FINITE, len(parts))
    return TextLikelihood(tokens, unscorable, len(parts))
