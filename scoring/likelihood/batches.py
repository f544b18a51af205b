"""How work is cut: windows over long texts, and batches of like lengths under a token budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens [start, stop) of one text are seen together; those from `scored` on are scored here and nowhere else."""

    start: int
    stop: int
    scored: int


def windows(length: int, size: int, stride: int) -> list[Window]:
    """Cover `length` tokens by windows of at most `size`, each starting `stride` after the one before.

    Every token is scored exactly once, and the ones after the first window see at least `size - stride` tokens
    before them. Raises ValueError unless 0 < stride <= size.
    """
    if not 0 < stride <= size:
        raise ValueError(f"stride must lie in 1..{size} (the window), not {stride}")
    cover = [Window(0, min(length, size), 0)]
    while cover[-1].stop < length:
        start = cover[-1].start + stride
        cover.append(Window(start, min(length, start + size), cover[-1].stop))
    return cover


def token_budget_batches(lengths: Sequence[int], budget: int, *, padding: bool = True) -> Iterator[list[int]]:
    """Yield lists of indices, longest first, so that rows x width of each stays within `budget` tokens.

    Like lengths stand together, so padding is rare; without `padding` only equal lengths do. A text longer than the
    budget gets a batch of its own. The longest go first: if memory does not suffice, that shows at once.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    batch: list[int] = []
    width = 0
    for index in order:
        width = width or lengths[index]
        if batch and ((len(batch) + 1) * width > budget or not (padding or lengths[index] == width)):
            yield batch
            batch, width = [], lengths[index]
        batch.append(index)
    if batch:
        yield batch
