"""How a command ends that is told to end while something of it lies half done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from leaderboard.supervision import ending_signals


class Ended(BaseException):
    """This process was told to end."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have this process clear up what it made for a while, before a signal ends it; no second one interrupts that.

    Python does so at Ctrl-C alone. Call it in the main thread.
    """
    last_signals: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        for each in handlers:
            signal.signal(each, signal.SIG_IGN)
        last_signals.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Ended

    handlers = {number: signal.getsignal(number) for number in ending_signals()}
    for number in handlers:
        signal.signal(number, end)
    try:
        yield
    except Ended:
        pass  # the signal itself follows
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # Whatever exception came of it: what a library calls may have made another one of ours.
        if last_signals and last_signals[0] != signal.SIGINT:
            signal.raise_signal(last_signals[0])
