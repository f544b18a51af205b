"""Checkpoints: work on many items is cut into shards, each written whole as it is done, so a dead worker loses one.

A checkpoint carries the hash of all that its numbers depend on, in its name and inside it, and the hash of its bytes in
its name. The number of the work names a folder and nothing else: after a restore another model may have it.
"""

import hashlib
import io
import json
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.db.models import QuerySet

from leaderboard.models import WORK_TABLES, MetricVersion, Scoring, Work
from leaderboard.services import artefacts
from leaderboard.services.alone import each_alone
from leaderboard.services.build import code
from leaderboard.services.leases import Lease
from leaderboard.storage import board_storage
from scoring.artefacts import ArtefactError, read, sha256, write

log = logging.getLogger(__name__)

FOLDER = "shards"
IDENTITY = b"plumbline:made_with"  # in the metadata of a checkpoint
NAME = re.compile(r"([0-9a-f]{32})-(\d{5,})-([0-9a-f]{64})\.parquet")


@dataclass
class Shards:
    """The shards of `work` on `items` items, `size` each: tables of `kind` on the storage until the work is done.

    `made_with` is all that the tables depend on beside this code's version, as JSON can hold it: model, texts,
    protocol, environment, scorer. Shards made with something else are never mixed in.
    """

    work: Work
    kind: str
    items: int
    size: int
    made_with: object
    _names: dict[int, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def folder(self) -> str:
        """Where the checkpoints lie on the storage."""
        return f"{FOLDER}/{self.work._meta.model_name}-{self.work.pk}"

    @cached_property
    def identity(self) -> str:
        """The hash of all that the tables depend on."""
        build = code()
        depends = [self.made_with, self.kind, self.items, self.size, build["version"], build["commit"]]
        return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:32]

    def numbers(self) -> range:
        """The numbers of all shards."""
        return range(-(-self.items // self.size))

    def list_missing(self) -> list[int]:
        """The numbers of the missing shards. Damaged checkpoints and those of other inputs are dropped."""
        self._names = {}
        for name in _list_files(self.folder):
            match = NAME.fullmatch(name)
            if match and match[1] == self.identity:
                path = f"{self.folder}/{name}"
                try:
                    self._load(path)
                except ArtefactError as error:
                    log.warning("%s: the checkpoint %s is made again: %s", self.work, path, error)
                    board_storage().delete(path)
                else:
                    self._names[int(match[2])] = path
        return [number for number in self.numbers() if number not in self._names]

    def bounds(self, number: int) -> slice:
        """The items of a shard."""
        return slice(number * self.size, min((number + 1) * self.size, self.items))

    def work_off(self, lease: Lease, make: Callable[[slice, Callable[[int], None]], pa.Table]) -> Iterator[int]:
        """Do the missing shards, yielding the number of each as it is written.

        `make` gets the items' bounds, and what to call with the number of them finished so far. Raises what `make`
        does; Interrupted or LeaseLost, between two shards or within one, where the work should not go on.
        """
        numbers = self.list_missing()
        done_items = self.items - sum(self._length(number) for number in numbers)
        seconds = self.work.seconds
        lease.note(at_once=True, total=self.items, done=done_items, seconds=seconds)
        for number in numbers:
            lease.take_turn()
            began, earlier_items, earlier_seconds = time.monotonic(), done_items, seconds

            def progress(
                new_items: int,
                began: float = began,
                earlier_items: int = earlier_items,
                earlier_seconds: float = earlier_seconds,
            ) -> None:
                lease.check()
                lease.note(done=earlier_items + new_items, seconds=earlier_seconds + time.monotonic() - began)

            self.write(number, make(self.bounds(number), progress))
            done_items, seconds = earlier_items + self._length(number), earlier_seconds + time.monotonic() - began
            lease.note(at_once=True, done=done_items, seconds=seconds)
            lease.count_anew()
            yield number

    def write(self, number: int, table: pa.Table) -> None:
        """Write one shard. Raises StorageAway, OSError."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            write(table, self.kind, path, {IDENTITY: self.identity.encode()})
            name = f"{self.folder}/{self.identity}-{number:05d}-{sha256(path)}.parquet"
            artefacts.move_in(path, name)
        self._names[number] = name

    def whole(self) -> pa.Table:
        """All shards in order, as one table. Raises FileNotFoundError where one is lost: it is made again."""
        if numbers := self.list_missing():
            raise FileNotFoundError(f"{len(numbers)} checkpoints of {self.work} are gone: they are made again")
        tables = [self._load(self._names[number]) for number in self.numbers()]
        return pa.concat_tables([table.replace_schema_metadata() for table in tables])

    def remove(self) -> None:
        """Drop all checkpoints of the work, also those of other inputs."""
        _remove(self.folder)

    def _load(self, name: str) -> pa.Table:
        """One checkpoint, if it is whole and of this work. Raises ArtefactError."""
        with board_storage().open(name, "rb") as file:
            content = file.read()
        match = NAME.fullmatch(name.rpartition("/")[2])
        if match is None or hashlib.sha256(content).hexdigest() != match[3]:
            raise ArtefactError("its bytes do not have its hash")
        table = read(io.BytesIO(content), self.kind)
        if (table.schema.metadata or {}).get(IDENTITY) != self.identity.encode():
            raise ArtefactError("it was made with something else")
        return table

    def _length(self, number: int) -> int:
        return min(self.size, self.items - number * self.size)


def remove_stale() -> None:
    """Drop the checkpoints that no work needs: it is done, closed or deleted.

    A worker leaves them when it dies before it removes them, or when it is late with a shard.
    """
    folders = board_storage().listdir(FOLDER)[0]
    for kind in WORK_TABLES:
        works: QuerySet[Any] = kind._default_manager.exclude(state=Work.State.DONE)
        if kind is Scoring:
            works = works.exclude(metric_version__status__in=MetricVersion.CLOSED)
        prefix = f"{kind._meta.model_name}-"
        keys = {int(name.removeprefix(prefix)) for name in folders if name.startswith(prefix)}
        stale_keys = sorted(keys.difference(works.filter(pk__in=keys).values_list("pk", flat=True)))
        each_alone(_remove, [f"{FOLDER}/{prefix}{key}" for key in stale_keys])


def _list_files(folder: str) -> list[str]:
    """Names of the files in a folder; none where there is no such folder. Raises StorageAway."""
    artefacts.require_storage()
    return sorted(board_storage().listdir(folder)[1])


def _remove(folder: str) -> None:
    for name in board_storage().listdir(folder)[1]:
        board_storage().delete(f"{folder}/{name}")
    with suppress(OSError):  # one that is late writes there
        board_storage().delete(folder)
