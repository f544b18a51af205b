"""Checkpoints: work on many items is cut into shards, each written whole as it is done, so a dead worker loses one."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from django.core.files.storage import default_storage
from django.db.models import QuerySet

from leaderboard.models import MetricVersion, Run, Scoring, Work
from leaderboard.services import artefacts
from leaderboard.services.leases import Lease

FOLDER = "shards"


@dataclass(frozen=True)
class Shards:
    """The shards of `work` on `items` items, `size` each: tables of `kind` on the storage until the work is done.

    `made_with` is what the tables depend on beside the work, as JSON can hold it: shards made with something else
    (another version of a library, another scorer) are never mixed in.
    """

    work: Work
    kind: str
    items: int
    size: int
    made_with: object

    @property
    def folder(self) -> str:
        """Where the checkpoints lie on the storage."""
        return f"{FOLDER}/{self.work._meta.model_name}-{self.work.pk}"

    def name(self, number: int) -> str:
        """Where one of them does."""
        made_with = hashlib.sha256(json.dumps(self.made_with, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.folder}/{made_with}-{self.size}-{number:05d}.parquet"

    def numbers(self) -> range:
        """All of them."""
        return range(-(-self.items // self.size))

    def missing(self) -> list[int]:
        """Those still to do."""
        return [number for number in self.numbers() if not default_storage.exists(self.name(number))]

    def bounds(self, number: int) -> slice:
        """The items of a shard."""
        return slice(number * self.size, min((number + 1) * self.size, self.items))

    def work_off(self, lease: Lease, make: Callable[[slice, Callable[[int], None]], pa.Table]) -> Iterator[int]:
        """Do the missing shards, yielding the number of each as it is written.

        `make` gets the items' bounds, and what to call with the number of them finished so far. Raises what `make`
        does; Interrupted or LeaseLost, between two shards or within one, where the work should not go on.
        """
        missing = self.missing()
        done = self.items - sum(self._length(number) for number in missing)
        seconds = self.work.seconds
        lease.note(at_once=True, total=self.items, done=done, seconds=seconds)
        for number in missing:
            lease.take_turn()
            began, before, spent = time.monotonic(), done, seconds

            def progress(finished: int, began: float = began, before: int = before, spent: float = spent) -> None:
                lease.check()
                lease.note(done=before + finished, seconds=spent + time.monotonic() - began)

            table = make(self.bounds(number), progress)
            artefacts.put(table, self.kind, self.name(number))
            done, seconds = before + self._length(number), spent + time.monotonic() - began
            lease.note(at_once=True, done=done, seconds=seconds)
            lease.count_anew()
            yield number

    def whole(self) -> pa.Table:
        """All shards, one after the other."""
        return pa.concat_tables([artefacts.get(self.name(number), self.kind) for number in self.numbers()])

    def remove(self) -> None:
        """Drop the checkpoints of the work, those made with something else too."""
        _remove(self.folder)

    def _length(self, number: int) -> int:
        return min(self.size, self.items - number * self.size)


def remove_left() -> None:
    """Drop the checkpoints that nobody will go on from: of work that is done, closed or gone.

    A worker that died as it was about to leaves them, or one that was late with a shard.
    """
    if not default_storage.exists(FOLDER):
        return
    closed = MetricVersion.CLOSED
    resumable: dict[type[Work], QuerySet[Any]] = {
        Run: Run.objects.exclude(state=Work.State.DONE),
        Scoring: Scoring.objects.exclude(state=Work.State.DONE).exclude(metric_version__status__in=closed),
    }
    left = default_storage.listdir(FOLDER)[0]
    for kind, works in resumable.items():
        prefix = f"{kind._meta.model_name}-"
        keys = {int(name.removeprefix(prefix)) for name in left if name.startswith(prefix)}
        for key in keys.difference(works.filter(pk__in=keys).values_list("pk", flat=True)):
            _remove(f"{FOLDER}/{prefix}{key}")


def _remove(folder: str) -> None:
    with suppress(FileNotFoundError):  # another worker does the same
        for name in default_storage.listdir(folder)[1]:
            default_storage.delete(f"{folder}/{name}")
    with suppress(OSError):  # or one that is late writes there
        default_storage.delete(folder)
