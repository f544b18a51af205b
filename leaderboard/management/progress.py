"""Progress in a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


@contextmanager
def file_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar of bytes for each file in turn; call it with the file's name, bytes so far, and bytes in all."""
    bars: dict[str, tqdm] = {}

    def show(name: str, done: int, total: int) -> None:
        if name not in bars:
            bars[name] = tqdm(total=total or None, desc=name, unit="B", unit_scale=True, unit_divisor=1024)
        bars[name].update(done - bars[name].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()


@contextmanager
def progress_of(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr; call it with how many are done, and how many there are."""
    with tqdm(desc=what, unit=unit, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show
