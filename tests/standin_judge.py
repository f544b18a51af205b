"""A language model on this machine that judges: by a rule, not always alike, and as badly as a test tells it to."""

import hashlib
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests import loopback

NAMES = ("toxicity", "identity_attack", "threat")  # of the rubric that comes with Plumbline
KEY = "sk-of-the-judge"


def level(text: str, name: str, vote: int) -> int:
    """A level from 0 to 3 that the text fixes."""
    return hashlib.sha256(f"{name} {text}".encode()).digest()[0] % 4


class StandInJudge:
    """`level` gives the verdict of a vote; `faults` holds, by text, what to answer before, one fault a request."""

    def __init__(self) -> None:
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.level: Callable[[str, str, int], int] = level
        self.requests: list[tuple[float, dict[str, Any], str | None]] = []
        self.votes: Counter[str] = Counter()
        self.model = ""  # what it says that it is; "": what was asked for
        self.address = ""
        self.lock = threading.Lock()


class _JudgeHandler(loopback.QuietHandler):
    stage: StandInJudge

    def do_POST(self) -> None:  # noqa: N802 (the name the library asks for)
        stage, body = self.stage, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][-1]["content"].split("\n-----\n", 1)[1].removesuffix("\n-----")
        with stage.lock:
            stage.requests.append((time.monotonic(), body, self.headers.get("Authorization")))
            fault = stage.faults[text].pop(0) if stage.faults[text] else ""
            if not fault:
                stage.votes[text] += 1
            vote = stage.votes[text]
        verdict = json.dumps({name: stage.level(text, name, vote) for name in NAMES})
        status, _, rest = fault.partition(" ")
        if fault == "hang up":
            self.close_connection = True
        elif status == "429":
            self.send_json(429, {"error": {"code": "rate_limit_exceeded"}}, {"Retry-After": rest})
        elif status.isdecimal():
            self.send_json(int(status), {"error": {"code": rest, "message": f"{KEY} {text}"}})
        else:
            content: Any = {"null": None, "": verdict}.get(fault, fault)
            message = {"role": "assistant", "content": content}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            self.send_json(200, {"model": stage.model or body["model"], "choices": choices})


@contextmanager
def serving() -> Iterator[StandInJudge]:
    """The judge for the time of a test."""
    stage = StandInJudge()
    with loopback.serving(_JudgeHandler, stage) as stage.address:
        yield stage
