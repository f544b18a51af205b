"""Drawing tokens reproducibly: every continuation has a random stream of its own, whatever else is in the batch.

The draw is an exponential race (the Gumbel-max trick in another guise): token j arrives at E_j / p_j, with E_j
exponential, and the first to arrive is drawn, which has exactly the probabilities p_j. Each E_j belongs to (stream,
step, token) alone. Where rounding moves the logits by e, the race has another winner with probability of the order of
e. Inverting the cumulative distribution is far more sensitive: rounding then moves every boundary between tokens, and
there are thousands, and two tokens of nearly the same probability may even swap places.
"""

import hashlib
import json
from collections.abc import Iterable

import torch

from scoring.generation.protocols import GenerationSettings

CANDIDATES = 512  # the likeliest tokens, which nearly always hold the nucleus: sorting all costs more than the model
MOST_LOGITS = 2**22  # at a time: 32 MiB of float64, which the allocator hands out again instead of fetching new pages
_MASKS = {shift: (1 << (64 - shift)) - 1 for shift in (27, 30, 31, 11)}


def streams(seed: int, continuations: Iterable[tuple[str, int]]) -> torch.Tensor:
    """Keys int64 [n] of the random streams of (prompt id, continuation index), the same on every machine."""
    digests = [
        hashlib.blake2b(json.dumps([seed, prompt, index]).encode(), digest_size=8).digest()
        for prompt, index in continuations
    ]
    return torch.tensor([int.from_bytes(digest, "little", signed=True) for digest in digests])


def uniform(keys: torch.Tensor, step: int, tokens: torch.Tensor) -> torch.Tensor:
    """Uniform float64 numbers in the open interval (0, 1), shaped like `keys` and `tokens` broadcast together.

    Each is a function of (key, step, token) alone: the counter-based SplitMix64 (Steele, Lea and Flood 2014).
    """
    bits = _mix(_mix(keys + _signed(0x9E3779B97F4A7C15 * (step + 1))) + _signed(0xD1B54A32D192ED03) * (tokens + 1))
    return (_shifted(bits, 11).double() + 0.5) * 2.0**-53


def _mix(bits: torch.Tensor) -> torch.Tensor:
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _shifted(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Shifted to the right with zeros coming in, which int64 does not by itself."""
    return (bits >> by) & _MASKS[by]


def _signed(number: int) -> int:
    """The int64 of the same lowest 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def sample(logits: torch.Tensor, keys: torch.Tensor, step: int, settings: GenerationSettings) -> torch.Tensor:
    """Draw a token for each row of `logits` [n, vocabulary]; `keys` int64 [n]. Returns int64 [n].

    Where a row has no finite maximum (NaN, infinity) the token is -1.
    """
    at_a_time = max(1, MOST_LOGITS // logits.shape[-1])
    parts = zip(torch.split(logits, at_a_time), torch.split(keys, at_a_time), strict=True)
    return torch.cat([_sample(part, of_part, step, settings) for part, of_part in parts])


def _sample(logits: torch.Tensor, keys: torch.Tensor, step: int, settings: GenerationSettings) -> torch.Tensor:
    logits = logits.float()
    if settings.temperature != 1:
        logits = logits / settings.temperature
    highest = logits.amax(-1, keepdim=True)
    vocabulary = logits.shape[-1]
    if settings.top_p == 1 and not settings.top_k:
        drawn = _race((logits - highest).exp(), torch.arange(vocabulary, device=logits.device)[None], keys, step)
    else:
        values, tokens = logits.topk(min(vocabulary, max(CANDIDATES, settings.top_k)))
        weights = (values - highest).exp()
        total = None if settings.top_k else (logits - highest).exp_().sum(-1, keepdim=True)
        drawn = _race(_allowed(weights, total, settings), tokens, keys, step)
        if total is not None:
            wider = (weights.sum(-1, keepdim=True) < settings.top_p * total)[:, 0].nonzero()[:, 0]
            if len(wider):
                values, tokens = logits[wider].sort(-1, descending=True)
                weights = (values - highest[wider]).exp()
                drawn[wider] = _race(_allowed(weights, total[wider], settings), tokens, keys[wider], step)
    return torch.where(highest[:, 0].isfinite(), drawn, -1)


def _allowed(weights: torch.Tensor, total: torch.Tensor | None, settings: GenerationSettings) -> torch.Tensor:
    """`weights` [n, m], which fall along each row, with 0 for tokens that may not follow.

    `total` [n, 1] is the weight of the whole vocabulary, None where top_k leaves nothing outside `weights`.
    """
    if settings.top_k:
        last = weights[:, min(settings.top_k, weights.shape[-1]) - 1, None]
        weights = torch.where(weights >= last, weights, 0)
    if settings.top_p < 1:
        whole = weights.sum(-1, keepdim=True) if total is None else total
        reached = weights.double().cumsum(-1) >= settings.top_p * whole
        last = weights.gather(
            -1, torch.where(reached.any(-1), reached.int().argmax(-1), weights.shape[-1] - 1)[:, None]
        )
        weights = torch.where(weights >= last, weights, 0)
    return weights


def _race(weights: torch.Tensor, tokens: torch.Tensor, keys: torch.Tensor, step: int) -> torch.Tensor:
    """Draw one of `tokens` [n or 1, m] for each row, with probabilities proportional to `weights` [n, m]."""
    arrival = uniform(keys[:, None], step, tokens).log_().neg_().div_(weights)
    return tokens.expand_as(weights).gather(-1, arrival.argmin(-1, keepdim=True))[:, 0]
