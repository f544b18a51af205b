"""Scores texts: tokenise, cut into windows, run the model batch by batch, put the token log-likelihoods in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch

from scoring.language_models import LoadedModel
from scoring.likelihood.batches import windows
from scoring.likelihood.causal import causal_log_likelihoods
from scoring.likelihood.masked import masked_log_likelihoods
from scoring.likelihood.pieces import Piece

ENGINES = {"causal": causal_log_likelihoods, "masked": masked_log_likelihoods}
FEWEST_TOKENS = {"causal": 2, "masked": 1}  # the first token of a causal text has no condition
LONGEST_STRIDE = 512


class UnsupportedKind(ValueError):
    """The model's kind of likelihood is not computed here."""


class Unscorable(StrEnum):
    """Why a text has no perplexity."""

    EMPTY = "no tokens"
    LONE = "a single token, which nothing precedes"


@dataclass(frozen=True, slots=True)
class LikelihoodSettings:
    """What fixes a likelihood beside model and text; part of a protocol's hash.

    bos="none": the first token of a causal text is not scored (the published code of Hosseini et al. 2023).
    variant="original": one token is masked at a time. mask_token="tokenizer": by the tokenizer's own mask token.
    stride: tokens between the windows over a text longer than the context; at most half a context.
    """

    bos: str = "none"
    variant: str = "original"
    mask_token: str = "tokenizer"  # noqa: S105 (a token of text, not a secret)
    stride: int = LONGEST_STRIDE

    def __post_init__(self) -> None:
        supported = LikelihoodSettings.__dataclass_fields__
        for field in ("bos", "variant", "mask_token"):
            if getattr(self, field) != supported[field].default:
                raise ValueError(f"{field} = {getattr(self, field)!r}: only {supported[field].default!r} is supported")
        if self.stride < 1:
            raise ValueError(f"stride = {self.stride}: it counts tokens, use 1 or more")


@dataclass(frozen=True, slots=True)
class TextLikelihood:
    """One text: natural-log likelihoods of its scored tokens, float32 [n_tokens]; if none, why; windows it took."""

    tokens: np.ndarray
    unscorable: Unscorable | None
    windows: int


@torch.inference_mode()
def token_log_likelihoods(
    loaded: LoadedModel,
    texts: Sequence[str],
    settings: LikelihoodSettings,
    progress: Callable[[int], None] = lambda _finished: None,
) -> list[TextLikelihood]:
    """Return the token log-likelihoods of `texts`, in their order. Identical texts are scored once.

    `progress` gets the number of distinct texts finished, after every batch; what it raises passes through.
    Raises UnsupportedKind for a model without an engine, FloatingPointError when the model returns a non-number.
    """
    kind = loaded.architecture.kind
    if kind not in ENGINES:
        raise UnsupportedKind(f"likelihoods of {kind} models are not computed: use a {' or '.join(ENGINES)} model")
    distinct = list(dict.fromkeys(texts))
    encoded = encode(loaded, distinct)
    pieces = cut(loaded, encoded, settings)
    windows_left = np.bincount([piece.text for piece in pieces], minlength=len(distinct))
    taken = windows_left.copy()
    values: dict[int, np.ndarray] = {}
    for batch in ENGINES[kind](loaded, pieces):
        for number, likelihoods in batch:
            if not np.isfinite(likelihoods).all():
                raise FloatingPointError(f"{type(loaded.model).__name__} gave a likelihood that is not a number")
            values[number] = likelihoods
            windows_left[pieces[number].text] -= 1
        progress(int(np.count_nonzero((windows_left == 0) & (taken > 0))))
    parts: list[list[np.ndarray]] = [[] for _ in distinct]
    for number, piece in enumerate(pieces):
        parts[piece.text].append(values[number])
    results = {
        text: TextLikelihood(
            tokens=np.concatenate(found) if found else np.empty(0, dtype=np.float32),
            unscorable=None if found else (Unscorable.LONE if ids else Unscorable.EMPTY),
            windows=len(found),
        )
        for text, ids, found in zip(distinct, encoded, parts, strict=True)
    }
    return [results[text] for text in texts]


def encode(loaded: LoadedModel, texts: list[str]) -> list[list[int]]:
    """Token ids of each text without special tokens; what looks like a special token is ordinary text."""
    if not texts:
        return []
    encoded = loaded.tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def frame(loaded: LoadedModel) -> tuple[list[int], list[int]]:
    """The special tokens a masked model's tokenizer puts before and after a text, as in [CLS] and [SEP]."""
    probe = "a"
    bare = loaded.tokenizer(probe, add_special_tokens=False)["input_ids"]
    whole = loaded.tokenizer(probe)["input_ids"]
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return whole[:start], whole[start + len(bare) :]


def cut(loaded: LoadedModel, encoded: list[list[int]], settings: LikelihoodSettings) -> list[Piece]:
    """Pieces that fit the model's context, in the order of the texts; too short texts have none."""
    kind = loaded.architecture.kind
    prefix, suffix = frame(loaded) if kind == "masked" else ([], [])
    size = loaded.architecture.context - len(prefix) - len(suffix)
    stride = min(settings.stride, max(1, size // 2))
    pieces = []
    for text, ids in enumerate(encoded):
        if len(ids) < FEWEST_TOKENS[kind]:
            continue
        for window in windows(len(ids), size, stride):
            first = max(window.scored, 1) if kind == "causal" else window.scored
            shift = len(prefix) - window.start
            tokens = [*prefix, *ids[window.start : window.stop], *suffix]
            pieces.append(Piece(text, tokens, first + shift, window.stop + shift))
    return pieces
