"""What many pages of one state of the board read alike: read once, and forgotten with that state.

Only pages that are kept for a state and are the same for everybody take part (`leaderboard.views.keeping`). As they are
not kept for ever in one state, nor is this. Whoever is signed in, programs and commands read the database each time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from time import monotonic
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Answer = TypeVar("Answer")

MOST_ANSWERS, MOST_LARGE = 64, 4
SECONDS = 600  # after which all is read again, though the state be the same
current_state: ContextVar[str] = ContextVar("the board's state that a page is made for", default="")


class StateMemo:
    """The answers of one state, at most `most`: those that nobody read for longest go first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._guard = threading.Lock()
        self._state = ""
        self._answers: OrderedDict[Hashable, object] = OrderedDict()

    def read(self, state: str, key: Hashable) -> object | None:
        """The answer called `key` in that state of the board; None where there is none."""
        with self._guard:
            if state != self._state or key not in self._answers:
                return None
            self._answers.move_to_end(key)
            return self._answers[key]

    def keep(self, state: str, key: Hashable, answer: object) -> None:
        """Keep an answer, and forget those of another state."""
        with self._guard:
            if state != self._state:
                self._answers.clear()
                self._state = state
            self._answers[key] = answer
            while len(self._answers) > self.most:
                self._answers.popitem(last=False)


small_answers, large_answers = StateMemo(MOST_ANSWERS), StateMemo(MOST_LARGE)


def name_reading(state: str) -> str:
    """That state as it is read now: the same for ten minutes at most."""
    return f"{state} {monotonic() // SECONDS}"


@contextmanager
def share_reading(state: str) -> Iterator[None]:
    """Read what `once_a_state` decorates from other pages of that state of the board, while a page is made."""
    token = current_state.set(name_reading(state))
    try:
        yield
    finally:
        current_state.reset(token)


def once_a_state(
    key: Callable[..., Hashable] = lambda *_, **__: None, memo: StateMemo = small_answers
) -> Callable[[Callable[P, Answer]], Callable[P, Answer]]:
    """Decorate a function of the database that many pages call, and that none of them changes the answer of.

    It reads nothing that the progress of work changes. key: what its answer depends on besides the board's state. memo:
    where it is remembered; of megabytes in `large_answers`.
    """

    def decorate(read: Callable[P, Answer]) -> Callable[P, Answer]:
        name = f"{read.__module__}.{read.__qualname__}"

        @wraps(read)
        def read_once(*args: P.args, **kwargs: P.kwargs) -> Answer:
            state = current_state.get()
            if not state:
                return read(*args, **kwargs)
            full_key = name, key(*args, **kwargs)
            kept_answer = memo.read(state, full_key)
            if kept_answer is None:
                kept_answer = (read(*args, **kwargs),)
                memo.keep(state, full_key, kept_answer)
            return kept_answer[0]  # type: ignore[index,no-any-return] # of a tuple: an answer may be None

        return read_once

    return decorate
