"""How gunicorn takes connections: one without a request holds nobody up, and is answered whenever it has one."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest
from django.conf import settings

from leaderboard import serving
from tests.faults.worker import stretch

pytestmark = pytest.mark.slow

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
AT_ONCE = 3.0  # seconds; it takes milliseconds


@pytest.fixture
def port() -> Iterator[int]:
    """Of one web process with the settings of production, and an application that does nothing."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.serving", "tests.load.empty"]
    command += ["--workers", "1", "--bind", f"127.0.0.1:{number}", "--log-level", "warning"]
    process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=os.environ)
    try:
        deadline = time.monotonic() + stretch(60)
        while True:
            with suppress(OSError), connect(number) as connection:
                ask(connection)
                break
            assert time.monotonic() < deadline, "the web server does not answer"
            time.sleep(0.05)
        yield number
    finally:
        process.terminate()
        process.wait(60)


def connect(port: int) -> socket.socket:
    """A connection that is asked after a second of silence whether it is alive."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    return connection


def ask(connection: socket.socket) -> float:
    """Seconds until the answer begins."""
    began = time.monotonic()
    connection.sendall(REQUEST)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return time.monotonic() - began


def test_connections_without_a_request_hold_no_thread(port):
    with ExitStack() as stack:
        for _ in range(4 * serving.threads):
            stack.enter_context(connect(port))
        assert ask(stack.enter_context(connect(port))) < stretch(AT_ONCE)


def test_a_connection_that_was_opened_in_advance_is_answered_at_once_when_it_has_a_request(port):
    with connect(port) as connection:
        time.sleep(2.5)  # the system has asked whether it is alive
        assert ask(connection) < stretch(AT_ONCE)
