"""How a command ends that is told to end while something of it lies half done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from leaderboard.supervision import ending_signals


class Ended(BaseException):
    """This process was told to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have this process clear up what it made for a while, before a signal ends it; nothing interrupts that.

    Python does so at Ctrl-C alone. Call it in the main thread.
    """
    numbers = [number for number in ending_signals() if number != signal.SIGINT]

    def end(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    handlers = {number: signal.signal(number, end) for number in numbers}
    last_signal = None
    try:
        yield
    except Ended as ending:
        last_signal = ending.number
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if last_signal is not None:
        signal.raise_signal(last_signal)
