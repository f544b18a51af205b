"""Orders that workers take over the broker: imported by workers alone."""

import logging
import os
import threading
import time
from typing import Any

from celery.worker.control import control_command

from leaderboard.services.leases import stop_requested
from leaderboard.services.signs_of_life import leave

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0  # in which work is given back that can be


@control_command()  # type: ignore[untyped-decorator]  # Celery has no types
def end_worker(state: Any, **_options: object) -> dict[str, str]:
    """Give the work back and end, whatever hangs; what supervises the worker starts another."""
    log.warning("%s was told to end", state.hostname)
    stop_requested.set()
    threading.Thread(target=_end, args=[state.hostname], name="end", daemon=True).start()
    return {"ok": "it ends"}


def _end(name: str) -> None:
    time.sleep(GRACE_SECONDS)
    leave(name)
    os._exit(1)  # a thread that hangs keeps every other way from ending
