"""A web server on this machine for the time of a test, for those that stand in for the outside world."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing of its own, and puts up with clients that hang up: that is part of the tests."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client went away, as it should when the answer is wrong or late
            self.close_connection = True

    def send_json(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        self.send_content(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send_content(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, line in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, line)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # a connection that the usual queue of 5 drops is tried again a second later
    daemon_threads = False  # so that closing waits for its threads and none outlives its test

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[QuietHandler], stage: object) -> Iterator[str]:
    """Serve by a `handler` whose `stage` says what to do; yields the address."""
    server = _Server(("127.0.0.1", 0), type("Handler", (handler,), {"stage": stage}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
