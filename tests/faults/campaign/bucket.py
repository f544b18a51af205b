"""A bucket that fails on demand: a proxy before an S3 server, which refuses, dawdles or breaks off."""

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests import loopback
from tests.object_store import KEY_ID, SECRET, run_object_store

SLOW_SECONDS = 5.0  # before each answer
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class FailingBucket:
    """What the proxy does now: `mode` is one of "", "500", "slow" and "truncated". `failures`: how often it did."""

    def __init__(self, endpoint: str) -> None:
        self.server = urlsplit(endpoint).netloc
        self.mode = ""
        self.failures = 0

    @contextmanager
    def failing(self, mode: str) -> Iterator[None]:
        """In that mode while the block lasts."""
        self.mode = mode
        try:
            yield
        finally:
            self.mode = ""


class Proxy(loopback.QuietHandler):
    """Passes requests on as they are signed, and answers back."""

    stage: FailingBucket

    def pass_on(self) -> None:
        mode = self.stage.mode
        self.stage.failures += bool(mode)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if mode == "500":
            self.send_content(500, b"<Error><Code>InternalError</Code></Error>", {"Content-Type": "application/xml"})
            return
        if mode == "slow":
            time.sleep(SLOW_SECONDS)
        if mode == "truncated" and body:
            self.close_connection = True  # half of it arrived, and nothing is answered
            return
        connection = http.client.HTTPConnection(self.stage.server, timeout=30)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
        for name, value in answer.headers.items():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if mode == "truncated" else content)
        connection.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 (the names the library asks for)


@contextmanager
def run_failing_bucket() -> Iterator[tuple[FailingBucket, dict[str, str]]]:
    """An S3 server with a bucket behind a proxy, and the variables of a board that keeps its files there."""
    with run_object_store("moto") as store:  # the failures are the proxy's: the lighter server does
        bucket = store.make_bucket()
        failing = FailingBucket(store.endpoint)
        with loopback.serving(Proxy, failing) as endpoint:
            variables = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
            yield failing, variables | {"STORAGE_URL": f"s3://{bucket}/files?endpoint={endpoint}&region=us-east-1"}
