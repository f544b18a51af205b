"""Whose turn it is: no requester's work waits for more than one slice of each other requester's.

Of the waiting work that is next whose requester has the fewest slices running; of these, whose last one began longest
ago; of one requester's, what is oldest. The board's own work is one requester's.
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

    running: the requester of each slice that runs, in the order in which they began. served: the requesters who were
    served already, whose last slice began longest ago first.
    """

    def __init__(self, waiting: Iterable[Waiting], running: Sequence[Requester], served: Sequence[Requester]) -> None:
        self.waiting: dict[Requester, deque[Waiting]] = {}
        for work in sorted(waiting):
            self.waiting.setdefault(work.requester, deque()).append(work)
        self.running = Counter(running)
        self.under_way = deque(running)
        self.served = {requester: place for place, requester in enumerate(served)}
        self.turns = len(served)

    def next(self) -> Waiting | None:
        """The work that a free worker does now; None where none waits."""
        if not self.waiting:
            return None
        return min(
            (work[0] for work in self.waiting.values()),
            key=lambda work: (self.running[work.requester], self.served.get(work.requester, -1), work),
        )

    def in_order(self) -> Iterator[Waiting]:
        """All of it in the order of beginning, as far as can be known: as if each took one slice, all as long."""
        workers = len(self.under_way) or 1
        while (work := self.next()) is not None:
            if len(self.under_way) == workers:
                self.running[self.under_way.popleft()] -= 1
                continue
            self._begin(work)
            yield work

    def _begin(self, work: Waiting) -> None:
        of = self.waiting[work.requester]
        of.popleft()
        if not of:
            del self.waiting[work.requester]
        self.running[work.requester] += 1
        self.under_way.append(work.requester)
        self.served[work.requester] = self.turns = self.turns + 1
