"""Whose turn it is: no requester's work waits for more than one slice of each other requester's.

Next is the work of the requester with the fewest running slices; of several, the one whose last slice began longest
ago; of one requester, the oldest work. The board itself counts as one requester.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

Requester = int | None  # None: the board itself


class Waiting(NamedTuple):
    """A piece of work that waits, and since when."""

    since: datetime
    pk: int
    requester: Requester


class Turns:
    """The requesters with waiting work, and how each of them was served so far.

    running_requesters: the requester of each slice that runs, in the order in which they began. last_served: the
    requesters who were served already, whose last slice began longest ago first.
    """

    def __init__(
        self, waiting_work: Iterable[Waiting], running_requesters: Sequence[Requester], last_served: Sequence[Requester]
    ) -> None:
        self.waiting: dict[Requester, deque[Waiting]] = {}
        for work in sorted(waiting_work):
            self.waiting.setdefault(work.requester, deque()).append(work)
        self.running = Counter(running_requesters)
        self.under_way = deque(running_requesters)
        self.served = {requester: place for place, requester in enumerate(last_served)}
        self.turns = len(last_served)

    def next(self) -> Waiting | None:
        """The work that a free worker does next; None where none waits."""
        if not self.waiting:
            return None
        return min(
            (work[0] for work in self.waiting.values()),
            key=lambda work: (self.running[work.requester], self.served.get(work.requester, -1), work),
        )

    def in_order(self) -> Iterator[Waiting]:
        """All waiting work in the expected order, as if each took one slice of the same length."""
        workers = len(self.under_way) or 1
        while (work := self.next()) is not None:
            if len(self.under_way) == workers:
                self.running[self.under_way.popleft()] -= 1
                continue
            self._begin(work)
            yield work

    def _begin(self, work: Waiting) -> None:
        queue = self.waiting[work.requester]
        queue.popleft()
        if not queue:
            del self.waiting[work.requester]
        self.running[work.requester] += 1
        self.under_way.append(work.requester)
        self.served[work.requester] = self.turns = self.turns + 1
