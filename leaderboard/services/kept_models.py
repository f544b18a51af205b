"""Models that stay loaded between the tasks of this process: the most recently used ones, within a bound of memory.

Each stays in the cage that it was opened in, which nothing of another model ever enters. A GPU holds one at a time.
"""

import threading
import time
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass

from django.conf import settings

from leaderboard.services.devices import has_gpu
from leaderboard.services.memory import GB, memory_of_workers
from scoring.cage import CagedModel
from scoring.language_models import LoadedFile

LIVES = 4  # runs that take all the time they may, for which a cage's allowance of processor time is meant to last

USUAL_SHARE = 1 / 4  # of a worker's memory, for kept models

Key = tuple[str, ...]  # where the files lie, their revision, and the precision


def memory_for_kept() -> float:
    """Bytes for models that stay loaded: as KEPT_MODELS_GB says, else a quarter of the worker's."""
    if settings.KEPT_MODELS_GB is None:
        return memory_of_workers() * USUAL_SHARE
    return float(settings.KEPT_MODELS_GB * GB)


@dataclass
class OpenModel:
    """A model in a cage, the files that it was loaded from, and the bytes that it takes; `stack` closes it."""

    caged_model: CagedModel
    files: tuple[LoadedFile, ...]
    size: float
    stack: ExitStack
    opened_at: float

    @property
    def has_time(self) -> bool:
        """Whether the cage's allowance lasts for another run."""
        return time.monotonic() - self.opened_at <= (LIVES - 1) * settings.RUN_SECONDS


class KeptModels:
    """The models, the least recently used first. A model that somebody works with is not among them."""

    def __init__(self) -> None:
        self._models: OrderedDict[Key, OpenModel] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def take(self, key: Key) -> OpenModel | None:
        """The model of that key, which is the caller's now; None where there is none that can go on."""
        with self._one_at_a_time:
            model = self._models.pop(key, None)
        if model and not model.has_time:
            model.stack.close()
            return None
        return model

    def keep(self, key: Key, model: OpenModel) -> None:
        """Keep a model whose work is done, and close what is beyond the bound then: itself, where it alone is."""
        with self._one_at_a_time:
            former = self._models.pop(key, None)
            self._models[key] = model
        if former:
            former.stack.close()
        self._close_until(memory_for_kept())

    def make_room(self, size: float) -> None:
        """Close models until another of so many bytes fits into the worker beside those that stay; on a GPU, all."""
        self._close_until(-1.0 if has_gpu() else memory_of_workers() - size)

    def close(self) -> None:
        """Close all."""
        self._close_until(-1.0)

    def _close_until(self, most_bytes: float) -> None:
        while True:
            with self._one_at_a_time:
                if sum(model.size for model in self._models.values()) <= most_bytes or not self._models:
                    return
                _, model = self._models.popitem(last=False)
            model.stack.close()


KEPT_MODELS = KeptModels()
