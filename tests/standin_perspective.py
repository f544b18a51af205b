"""Perspective on this machine: a real server that scores by a rule, and misbehaves where a text tells it to."""

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import loopback

KEY = "AIza-the-operators-own-key"


class StandInPerspective:
    """`faults` holds, by text, what to answer before it is scored: one fault a request (see `_Handler._fault`).

    `requests` lists what was asked: (seconds, path, key, body). `together` is the most requests answered at once.
    """

    def __init__(self) -> None:
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.requests: list[tuple[float, str, str | None, dict[str, Any]]] = []
        self.seconds = 0.0  # to take over each answer
        self.together = 0
        self.address = ""

    @property
    def texts(self) -> list[str]:
        """The texts asked about, in order, repeated where they were asked about again."""
        return [body["comment"]["text"] for _, _, _, body in self.requests]


def expected(text: str, attribute: str, kind: str = "summary") -> float:
    """The score that the stand-in gives."""
    return int(hashlib.sha256(f"{kind} {attribute} {text}".encode()).hexdigest()[:6], 16) / 0xFFFFFF


class _Handler(loopback.QuietHandler):
    stage: StandInPerspective
    running = 0
    lock = threading.Lock()

    def do_POST(self) -> None:  # noqa: N802 (the name the library asks for)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            self.stage.requests.append((time.monotonic(), self.path, self.headers.get("X-Goog-Api-Key"), body))
            type(self).running += 1
            self.stage.together = max(self.stage.together, self.running)
            waiting = self.stage.faults[body["comment"]["text"]]
            fault = waiting.pop(0) if waiting else ""
        time.sleep(self.stage.seconds)
        with self.lock:  # before the answer: who has it may ask again at once
            type(self).running -= 1
        self._answer(fault, body)

    def _answer(self, fault: str, body: dict[str, Any]) -> None:
        text, asked = body["comment"]["text"], body["requestedAttributes"]
        answer: dict[str, Any] = {
            "attributeScores": {
                name: {
                    "spanScores": [{"begin": 0, "end": 1, "score": _score(expected(text, name, "first_span"))}],
                    "summaryScore": _score(expected(text, name)),
                }
                for name in asked
            },
            "languages": ["en"],
        }
        first = next(iter(asked))
        if not fault:
            self.send_json(200, answer)
        elif fault.isdecimal():
            self.send_json(int(fault), _error(int(fault), "UNAVAILABLE"))
        elif fault.startswith("429 "):
            self.send_json(429, _error(429, "RESOURCE_EXHAUSTED"), {"Retry-After": fault.removeprefix("429 ")})
        elif fault == "html":
            self.send_content(503, b"<html><h1>Service unavailable</h1></html>", {"Content-Type": "text/html"})
        elif fault == "late":
            time.sleep(0.6)
        elif fault == "hang up":
            self.close_connection = True
        elif fault == "malformed":
            self.send_content(200, b'{"attributeScores": {"TOXICITY"', {"Content-Type": "application/json"})
        elif fault == "list":
            self.send_json(200, [])
        elif fault == "bytes":
            self.send_content(200, b"\xff\xfe\xff", {"Content-Type": "application/json"})
        elif fault == "nothing":
            self.send_content(200, b"", {})
        elif fault == "empty":
            self.send_json(200, {"attributeScores": {}, "languages": ["en"]})
        elif fault == "no summary":
            del answer["attributeScores"][first]["summaryScore"]
            self.send_json(200, answer)
        elif fault == "no span":
            answer["attributeScores"][first]["spanScores"] = []
            self.send_json(200, answer)
        elif fault.startswith("value "):
            answer["attributeScores"][first]["summaryScore"]["value"] = json.loads(fault.removeprefix("value "))
            self.send_json(200, answer)
        elif fault == "bad key":
            details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
            self.send_json(400, _error(400, "INVALID_ARGUMENT", details, f"API key {KEY} not valid: {text}"))
        elif fault == "forbidden":
            self.send_json(403, _error(403, "PERMISSION_DENIED", (), f"{KEY} may not call this"))
        else:
            details = [{"@type": "type.googleapis.com/commentanalyzer.v1alpha1.Error", "errorType": fault}]
            self.send_json(400, _error(400, "INVALID_ARGUMENT", details, f"refused: {text}"))


def _score(value: float) -> dict[str, Any]:
    return {"value": value, "type": "PROBABILITY"}


def _error(code: int, status: str, details: Any = (), message: str = "no") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


@contextmanager
def serving() -> Iterator[StandInPerspective]:
    """The service for the time of a test."""
    stage = StandInPerspective()
    with loopback.serving(_Handler, stage) as stage.address:
        yield stage
