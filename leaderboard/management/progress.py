"""Progress in a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tqdm import tqdm


def file_progress() -> AbstractContextManager[Callable[[str, int, int], None]]:
    """A bar of bytes for each file in turn; call it with the file's name, bytes so far, and bytes in all."""
    return _bars(unit="B", unit_scale=True, unit_divisor=1024)


def step_progress() -> AbstractContextManager[Callable[[str, int, int], None]]:
    """A bar of steps for each part in turn; call it with the part's name, steps done, and in all."""
    return _bars()


@contextmanager
def _bars(**look: Any) -> Iterator[Callable[[str, int, int], None]]:
    bars: dict[str, tqdm[Any]] = {}

    def show(name: str, count: int, total: int) -> None:
        if name not in bars:
            bars[name] = tqdm(total=total or None, desc=name, **look)
        bars[name].update(count - bars[name].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()


@contextmanager
def progress_of(label: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr; call it with how many are done, and how many there are."""
    with tqdm(desc=label, unit=unit, file=sys.stderr) as bar:

        def show(count: int, total: int) -> None:
            bar.total = total
            bar.update(count - bar.n)

        yield show
