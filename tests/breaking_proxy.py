"""A way to a server that breaks: answers that end too early, or errors in their place."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class BreakingProxy(ThreadingHTTPServer):
    """Passes GET and HEAD on to `endpoint`; breaks as many GETs as `breaks` says, after `cut` bytes, or by 500."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = endpoint
        self.host = endpoint.removeprefix("http://")
        self.breaks = 0
        self.cut: int | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: BreakingProxy

    def do_GET(self) -> None:
        breaking = self.command == "GET" and self.server.breaks > 0
        self.server.breaks -= breaking
        if breaking and self.server.cut is None:
            self.send_error(500)
            return
        address = self.server.endpoint + self.path
        passed_on = Request(address, method=self.command, headers=dict(self.headers))  # noqa: S310 (of this machine)
        try:
            with urlopen(passed_on) as answer:  # noqa: S310 (as above)
                status, headers, body = answer.status, answer.headers, answer.read()
        except HTTPError as error:
            status, headers, body = error.code, error.headers, error.read()
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[: self.server.cut] if breaking else body)
        self.close_connection = True

    do_HEAD = do_GET  # noqa: N815 (as the base class calls it)

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


@contextmanager
def break_the_way(endpoint: str) -> Iterator[BreakingProxy]:
    """A proxy to the server while the block lasts."""
    with BreakingProxy(endpoint) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield proxy
        proxy.shutdown()
