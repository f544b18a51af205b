"""A completions server on loopback that answers as OpenAI's does, or misbehaves as a test tells it to."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests import loopback

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body


class CompletionsStage:
    """What the server does, set by a test, and what it was asked.

    `answers` are given first, one for each request; then `respond` makes them. `delays` are seconds before each.
    """

    def __init__(self) -> None:
        self.answers: list[Answer | None] = []
        self.delays: list[float] = []
        self.respond: Callable[[dict[str, Any]], Answer] = respond
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.times: list[float] = []
        self.at_once = 0  # requests being answered now
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = ""
        self.places: dict[str, Any] = {}  # what a GET of a path answers; 404 elsewhere


def respond(request: dict[str, Any]) -> Answer:
    """A good answer to any request."""
    return chat_completion(request) if "messages" in request else completion(request)


def completion(request: dict[str, Any]) -> Answer:
    """A good answer: each continuation names its prompt and its place."""
    choices = [
        {"index": n, "text": f" went on {len(request['prompt'])} {n}", "finish_reason": "length"}
        for n in range(request["n"])
    ]
    return as_json({"choices": choices, "usage": {"completion_tokens": 4}})


def chat_completion(request: dict[str, Any]) -> Answer:
    """A good answer to a chat: each message names the length of what it answers and its place."""
    length = len(request["messages"][-1]["content"])
    choices = [
        {
            "index": n,
            "message": {"role": "assistant", "content": f"went on {length} {n}"},
            "finish_reason": "stop",
        }
        for n in range(request["n"])
    ]
    usage = {"prompt_tokens": 50, "completion_tokens": 4 * request["n"], "total_tokens": 50 + 4 * request["n"]}
    return as_json({"model": request["model"], "choices": choices, "usage": usage})


def as_json(value: object, status: int = 200, **headers: str) -> Answer:
    """An answer of JSON."""
    return status, headers, json.dumps(value).encode()


class _Handler(loopback.QuietHandler):
    stage: CompletionsStage

    def do_POST(self) -> None:  # noqa: N802 (the name the library asks for)
        stage = self.stage
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with stage.lock:
            stage.requests.append(request)
            stage.keys.append(self.headers.get("Authorization"))
            stage.times.append(time.monotonic())
            stage.at_once += 1
            stage.most_at_once = max(stage.most_at_once, stage.at_once)
            answer = stage.answers.pop(0) if stage.answers else None
            delay = stage.delays.pop(0) if stage.delays else 0.0
        time.sleep(delay)
        is_known = self.path == f"/v1/{'chat/' if 'messages' in request else ''}completions"
        status, headers, body = (answer or stage.respond(request)) if is_known else as_json({}, 404)
        with stage.lock:
            stage.at_once -= 1
        self.answer(status, headers, body)

    def do_GET(self) -> None:  # noqa: N802
        is_known = self.path in self.stage.places
        self.answer(*(as_json(self.stage.places[self.path]) if is_known else as_json({}, 404)))

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def completions_server() -> Iterator[CompletionsStage]:
    """A server for the time of a test."""
    stage = CompletionsStage()
    with loopback.serving(_Handler, stage) as stage.url:
        yield stage
