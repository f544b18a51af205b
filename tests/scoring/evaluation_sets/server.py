"""A stand-in for the web: a real server on loopback that can misbehave in every way a fetch must survive."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests import loopback


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


class _Handler(loopback.QuietHandler):
    stage: Stage

    def do_GET(self) -> None:  # noqa: N802 (the name the library asks for)
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


@contextmanager
def serving(content: bytes) -> Iterator[Stage]:
    """A server for the time of a test."""
    stage = Stage(content)
    with loopback.serving(_Handler, stage) as stage.address:
        yield stage
