"""How work is divided: windows over long texts, and batches of similar lengths within a token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens [start, stop) of one text that the model sees together; it scores those from `scored` on, once each."""

    start: int
    stop: int
    scored: int


def windows(length: int, size: int, stride: int) -> list[Window]:
    """Cover `length` tokens by windows of at most `size`, each starting `stride` tokens after the previous one.

    Every token is scored exactly once, and those after the first window see at least `size - stride` tokens before
    them. Raises ValueError unless 0 < stride <= size.
    """
    if not 0 < stride <= size:
        raise ValueError(f"stride must lie in 1..{size} (the window), not {stride}")
    cover = [Window(0, min(length, size), 0)]
    while cover[-1].stop < length:
        start = cover[-1].start + stride
        cover.append(Window(start, min(length, start + size), cover[-1].stop))
    return cover


def token_budget_batches(lengths: Sequence[int], budget: int, call_cost: int) -> Iterator[list[int]]:
    """Yield lists of indices, longest first, so that rows x width of each list stays within `budget` tokens.

    Texts of similar lengths share a batch. Dynamic programming over the sorted lengths finds the batches that minimise
    the cost of padding and calls; a call costs as much as `call_cost` tokens. A text longer than the budget gets a
    batch of its own. The longest come first, so that a lack of memory shows at once.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    widths = [lengths[index] for index in order]
    cost = np.zeros(len(order) + 1)  # of everything from each place on
    stop = np.zeros(len(order), dtype=int)
    for start in range(len(order) - 1, -1, -1):
        width = widths[start]
        stops = np.arange(start + 1, min(len(order), start + max(1, budget // width)) + 1)
        costs = call_cost + (stops - start) * width + cost[stops]
        cheapest = int(costs.argmin())
        cost[start], stop[start] = costs[cheapest], stops[cheapest]
    start = 0
    while start < len(order):
        yield order[start : stop[start]]
        start = int(stop[start])


def equal_length_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield lists of indices of one length each, longest first, within `budget` tokens: nothing is ever padded."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    for length, run in groupby(order, key=lambda index: lengths[index]):
        indices = list(run)
        rows = max(1, budget // length)
        yield from (indices[start : start + rows] for start in range(0, len(indices), rows))
