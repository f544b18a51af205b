"""Drawing tokens reproducibly: every continuation has a random stream of its own, whatever else is in the batch.

The draw is an exponential race (a form of the Gumbel-max trick): token j arrives at E_j / p_j, with E_j exponential,
and the first to arrive is drawn, so that token j is drawn with probability p_j exactly. Each E_j depends on (stream,
step, token) alone. Where rounding moves the logits by e, the winner changes with a probability of the order of e.
Inverting the cumulative distribution is far more sensitive: rounding then moves every one of thousands of boundaries
between tokens, and two tokens of nearly the same probability may even swap places. (SmolLM2-135M in batches of 25 and
of 200: a race is expected to change 0.25 of 100,000 draws, inversion 9.)

A race has two heats: first blocks of consecutive token ids race with the sums of their probabilities, then the tokens
of the winning block. This gives the same distribution with a few hundred random numbers instead of one for each token.
"""

from collections.abc import Iterable

import numpy as np
import torch

from scoring.generation.protocols import GenerationSettings
from scoring.generation.streams import stream_keys
from scoring.work_sizes import sizes_for

CANDIDATES = 512  # likeliest tokens, which often hold the nucleus: sorting all tokens costs more than the model
BLOCK = 256  # token ids that race together; about the square root of a vocabulary
_MASKS = {shift: (1 << (64 - shift)) - 1 for shift in (27, 30, 31, 11)}


def streams(seed: int, continuations: Iterable[tuple[str, int]]) -> torch.Tensor:
    """`stream_keys` as int64 [n]."""
    return torch.tensor(stream_keys(seed, continuations), dtype=torch.int64)


def uniform(keys: torch.Tensor, step: int, tokens: torch.Tensor) -> torch.Tensor:
    """Uniform float64 numbers in the open interval (0, 1), shaped like `keys` and `tokens` broadcast together.

    Each is a function of (key, step, token) alone, which may be any integers: the counter-based SplitMix64 (Steele, Lea
    and Flood 2014).
    """
    bits = _mix(_mix(keys + _as_int64(0x9E3779B97F4A7C15 * (step + 1))) + _as_int64(0xD1B54A32D192ED03) * (tokens + 1))
    return (_shift_right(bits, 11).double() + 0.5) * 2.0**-53


def _mix(bits: torch.Tensor) -> torch.Tensor:
    bits = (bits ^ _shift_right(bits, 30)) * _as_int64(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift_right(bits, 27)) * _as_int64(0x94D049BB133111EB)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Shift to the right and fill with zeros, where int64's own shift would fill with the sign."""
    return (bits >> count) & _MASKS[count]


def _as_int64(number: int) -> int:
    """The int64 with the same lowest 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def sample(logits: torch.Tensor, keys: torch.Tensor, step: int, settings: GenerationSettings) -> torch.Tensor:
    """Draw a token for each row of `logits` [n, vocabulary]; `keys` int64 [n]. Returns int64 [n].

    Where a row has no finite maximum (NaN, infinity) the token is -1.
    """
    row_limit = max(1, sizes_for(logits.device).drawn_logits // logits.shape[-1])
    parts = zip(torch.split(logits, row_limit), torch.split(keys, row_limit), strict=True)
    return torch.cat([_sample(part, part_keys, step, settings) for part, part_keys in parts])


def _sample(logits: torch.Tensor, keys: torch.Tensor, step: int, settings: GenerationSettings) -> torch.Tensor:
    highest = logits.amax(-1, keepdim=True).float()
    blocks = -(-logits.shape[-1] // BLOCK)
    weights = logits.new_empty(len(logits), blocks * BLOCK, dtype=torch.float32)
    weights[:, logits.shape[-1] :] = 0
    used = weights[:, : logits.shape[-1]]
    torch.sub(logits, highest, out=used)
    if settings.temperature != 1:
        used.div_(settings.temperature)
    used.exp_()
    if settings.top_k:
        used.masked_fill_(used < _largest(used, settings.top_k)[:, -1:], 0)
    if settings.top_p < 1:
        used.masked_fill_(used < _least_of_nucleus(used, settings.top_p), 0)
    weights = weights.view(len(logits), blocks, BLOCK)
    numbers = torch.arange(blocks, device=logits.device)
    block = _race(weights.sum(-1), uniform(keys[:, None], step, -1 - numbers))
    tokens = block[:, None] * BLOCK + torch.arange(BLOCK, device=logits.device)
    block_weights = weights[torch.arange(len(logits), device=logits.device), block]
    draws = block * BLOCK + _race(block_weights, uniform(keys[:, None], step, tokens))
    return torch.where(highest[:, 0].isfinite(), draws, -1)


def _race(weights: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The column that arrives first in each row of `weights` [n, m], int64 [n]; columns of weight 0 never win."""
    return noise.log_().neg_().div_(weights).argmin(-1)


def _least_of_nucleus(weights: torch.Tensor, top_p: float) -> torch.Tensor:
    """The weight [n, 1] of the last token needed to reach the share `top_p` of each row of `weights`."""
    target_sums = weights.sum(-1).double() * top_p
    least = torch.zeros_like(weights[:, :1])  # keeps all tokens of a row that misses its target by rounding
    rows, count = torch.arange(len(weights), device=weights.device), CANDIDATES
    while len(rows):
        largest = _largest(weights if len(rows) == len(weights) else weights[rows], count)
        is_reached = largest.cumsum(-1, dtype=torch.float64) >= target_sums[rows, None]
        is_enough = is_reached[:, -1]
        last = is_reached.int().argmax(-1, keepdim=True)
        least[rows[is_enough]] = largest.gather(-1, last)[is_enough]
        if count >= weights.shape[-1]:
            break
        rows, count = rows[~is_enough], count * 8 if weights.device.type == "cpu" else weights.shape[-1]
    return least


def _largest(weights: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` largest weights of each row, or all if there are fewer, largest first."""
    count = min(count, weights.shape[-1])
    if weights.device.type != "cpu":
        return weights.topk(count).values if count < weights.shape[-1] else weights.sort(descending=True).values
    # numpy's selection is several times as fast as torch's, which also tracks indices.
    largest = np.partition(weights.numpy(), -count)[:, -count:]
    largest.sort()
    return torch.from_numpy(largest[:, ::-1].copy())
