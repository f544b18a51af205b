"""Who is told: a receiver of alerts, which notes when each came."""

import json
import threading
import time
from typing import Any

from tests import loopback


class Alerts:
    """What came: (seconds of a monotonic clock, the event, the incident), each message once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._messages: list[tuple[float, str, dict[str, Any]]] = []

    def take(self, body: dict[str, Any]) -> None:
        """Note a message, unless it came before."""
        with self._lock:
            if body["id"] not in self._ids:
                self._ids.add(body["id"])
                self._messages.append((time.monotonic(), body["event"], body["incident"]))

    def since(self, moment: float) -> list[tuple[float, str, dict[str, Any]]]:
        """What came after that moment."""
        with self._lock:
            return [message for message in self._messages if message[0] >= moment]

    def first_told(self, kinds: tuple[str, ...], since: float) -> float | None:
        """When the first incident of one of these kinds was told after `since`; None where none was."""
        moments = (at for at, event, incident in self.since(since) if event == "opened" and incident["kind"] in kinds)
        return next(moments, None)

    def untold_ends(self, since: float) -> list[str]:
        """Incidents that were told since then, and of which nobody heard that they are over."""
        messages = self.since(since)
        ended = {(incident["kind"], incident["subject"]) for _, event, incident in messages if event == "resolved"}
        opened = {(incident["kind"], incident["subject"]) for _, event, incident in messages if event == "opened"}
        return sorted(f"{kind}: {subject}" for kind, subject in opened - ended)


class Receiver(loopback.QuietHandler):
    """A webhook that takes whatever comes."""

    stage: Alerts

    def do_POST(self) -> None:  # noqa: N802 (the name the library asks for)
        self.stage.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_content(204, b"", {})
