"""Moderation services on this machine: one server that answers as OpenAI's and as Azure's do, and misbehaves."""

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scoring.scorers.moderation import AZURE_CATEGORIES, OPENAI_CATEGORIES
from tests import loopback

KEY = "sk-the-operators-own-key"
SNAPSHOT = "omni-moderation-2024-09-26"


class StandInModeration:
    """`faults` holds, by text, what to answer before it is scored, one fault a request. `snapshot`: what OpenAI's says
    that it is. `requests` lists what was asked: (seconds, path, headers, body)."""

    def __init__(self) -> None:
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.requests: list[tuple[float, str, dict[str, str], dict[str, Any]]] = []
        self.snapshot = SNAPSHOT
        self.address = ""
        self.lock = threading.Lock()

    @property
    def texts(self) -> list[str]:
        """The texts asked about, in order."""
        return [body.get("input", body.get("text")) for *_, body in self.requests]


def share(text: str, category: str) -> float:
    """The score that the stand-in gives as OpenAI's service."""
    return int(hashlib.sha256(f"{category} {text}".encode()).hexdigest()[:6], 16) / 0xFFFFFF


def severity(text: str, category: str) -> int:
    """The severity that it gives as Azure's."""
    return 2 * round(3 * share(text, category))


class _ModerationHandler(loopback.QuietHandler):
    stage: StandInModeration

    def do_POST(self) -> None:  # noqa: N802 (the name the library asks for)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body.get("input", body.get("text"))
        with self.stage.lock:
            self.stage.requests.append((time.monotonic(), self.path, dict(self.headers), body))
            waiting = self.stage.faults[text]
            fault = waiting.pop(0) if waiting else ""
        if self.path.startswith("/v1/moderations"):
            answer = {
                "id": "modr-1",
                "model": self.stage.snapshot,
                "results": [
                    {
                        "flagged": False,
                        "categories": dict.fromkeys(OPENAI_CATEGORIES, False),
                        "category_scores": {name: share(text, name) for name in OPENAI_CATEGORIES},
                    }
                ],
            }
        else:
            rows = [{"category": name, "severity": severity(text, name)} for name in AZURE_CATEGORIES.values()]
            answer = {"blocklistsMatch": [], "categoriesAnalysis": rows}
        self._answer(fault, text, answer)

    def _answer(self, fault: str, text: str, answer: dict[str, Any]) -> None:
        status, _, code = fault.partition(" ")
        if not fault:
            self.send_json(200, answer)
        elif fault == "empty":
            self.send_json(200, {"model": answer.get("model"), "results": [], "categoriesAnalysis": []})
        elif fault == "odd":
            value = 1.5 if "results" in answer else 7
            rows = answer.get("categoriesAnalysis", [{}])
            rows[0]["severity"] = value
            if "results" in answer:
                answer["results"][0]["category_scores"]["hate"] = value
            self.send_json(200, answer)
        elif fault == "hang up":
            self.close_connection = True
        elif status == "429" and code.isdecimal():
            self.send_json(429, {"error": {"code": "429", "type": "requests"}}, {"Retry-After": code})
        else:
            self.send_json(int(status), {"error": {"code": code, "type": "some_type", "message": f"{KEY}: {text}"}})


@contextmanager
def serving() -> Iterator[StandInModeration]:
    """The services for the time of a test."""
    stage = StandInModeration()
    with loopback.serving(_ModerationHandler, stage) as stage.address:
        yield stage
