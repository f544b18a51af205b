"""A stand-in for the web: a real server on loopback that can misbehave in every way a fetch must survive."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stage:
    """What the server does, set by a test, and what it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.ranges = True  # whether it supports Range
        self.lengths = True  # whether it says how long its answers are
        self.cut_after: list[int] = []  # body bytes after which to drop the connection, one for each request
        self.statuses: list[int] = []  # to answer instead, one for each request
        self.range_start: int | None = None  # where a partial answer begins, if not where it was asked to
        self.delay = 0.0  # seconds before the body
        self.redirect: Callable[[str], str | None] = lambda _path: None
        self.seen: list[tuple[str, str | None]] = []  # (path, Range) of each request
        self.address = ""


class _Handler(BaseHTTPRequestHandler):
    stage: Stage

    def do_GET(self) -> None:
        stage = self.stage
        asked = self.headers.get("Range")
        stage.seen.append((self.path, asked))
        self.close_connection = True
        if stage.statuses and (status := stage.statuses.pop(0)) != 200:
            self._head(status, {"Content-Length": "0"})
        elif target := stage.redirect(self.path):
            self._head(302, {"Location": target, "Content-Length": "0"})
        else:
            self._content(int(asked.removeprefix("bytes=").removesuffix("-")) if asked and stage.ranges else None)

    def _content(self, start: int | None) -> None:
        stage = self.stage
        size = len(stage.content)
        if start is not None and start >= size:
            self._head(416, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        if start is not None and stage.range_start is not None:
            start = stage.range_start
        body = stage.content[start or 0 :]
        headers = {"Content-Length": str(len(body))} if stage.lengths else {}
        if start is not None:
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size if stage.lengths else '*'}"
        self._head(200 if start is None else 206, headers)
        self.wfile.flush()
        time.sleep(stage.delay)
        self.wfile.write(body[: stage.cut_after.pop(0)] if stage.cut_after else body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client went away, as it should when the answer is wrong
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for its threads and none outlives its test

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is part of the tests."""


@contextmanager
def serving(content: bytes) -> Iterator[Stage]:
    """A server for the time of a test."""
    stage = Stage(content)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"stage": stage}))
    stage.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
