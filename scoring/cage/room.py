"""What a cage holds between two requests, and says while it works."""

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from scoring.cage.pipe import Pipe

if TYPE_CHECKING:
    from scoring.language_models import LoadedModel

PROGRESS_EVERY = 0.2  # seconds

Values = dict[str, Any]
Answered = tuple[Values, pa.Table | None]


class Room:
    """What a cage holds between two requests: at most one model."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._reported = 0.0
        self.model: LoadedModel | None = None

    @property
    def loaded(self) -> "LoadedModel":
        """The model. Raises ValueError where none was opened."""
        if self.model is None:
            raise ValueError("no model was opened")
        return self.model

    def enter(self, stage: str) -> None:
        """Say what comes now, so that the supervisor knows what it was if it ends this process."""
        self._pipe.send({"stage": stage})

    def progress(self, count: int) -> None:
        """Say how many items are finished, now and then."""
        moment = time.monotonic()
        if moment - self._reported >= PROGRESS_EVERY:
            self._reported = moment
            self._pipe.send({"progress": count})
