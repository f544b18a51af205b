"""How gunicorn serves the site, wherever it runs: `gunicorn --config python:leaderboard.serving --bind HOST:PORT`."""

import ctypes
import os
import socket
from typing import Any

wsgi_app = "leaderboard.wsgi"
# One import for all of them: what they do not write to is in memory once.
preload_app = True
workers = int(os.environ.get("WEB_PROCESSES", "2"))
# Few make pages at a time (PAGE_MAKERS), some wait for one (PAGE_LINE): the rest answer what is ready meanwhile.
threads = 16
# Longer than a proxy keeps its idle connections, or it sends a request on one that closes at this moment.
keepalive = 75
# A worker tells that it lives by a file: in memory, where a slow disk does not hold it up.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
control_socket_disable = True

ARENAS, MOST_ARENAS = -8, 2  # of malloc: M_ARENA_MAX. With one for each thread, what pages leave behind adds up.
PATIENCE_SECONDS = 60


def when_ready(server: Any) -> None:
    """Hand over a connection when it brings a request: a proxy opens some in advance, and each would hold a thread."""
    for listener in server.LISTENERS:
        if listener.sock.family in (socket.AF_INET, socket.AF_INET6):
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, PATIENCE_SECONDS)


def post_fork(_server: Any, _worker: Any) -> None:
    """Keep the memory of a process flat."""
    ctypes.CDLL(None).mallopt(ARENAS, MOST_ARENAS)


def post_worker_init(worker: Any) -> None:
    """Give pages that are made anew their threads: what forks must not have any yet."""
    if worker.app.app_uri == wsgi_app:  # and no other application, as `make load` compares with
        from leaderboard.views.keeping import line

        line().start_threads()
