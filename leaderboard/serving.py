"""How gunicorn serves the site, wherever it runs: `gunicorn --config python:leaderboard.serving --bind HOST:PORT`."""

import ctypes
import os
from typing import Any

from environs import Env, validate
from gunicorn.workers import gthread

wsgi_app = "leaderboard.wsgi"
worker_class = "leaderboard.serving.PatientWorker"
# One import for all of them: what they do not write to is in memory once.
preload_app = True
ONE_OR_MORE = validate.Range(min=1, error="{input}: set it to {min} or more")
workers = Env().int("WEB_PROCESSES", 2, validate=ONE_OR_MORE)
# Few make pages at a time (PAGE_MAKERS), some wait for one (PAGE_LINE): the rest answer what is ready meanwhile.
threads = 16
# Longer than a proxy keeps its idle connections, or it sends a request on one that closes at this moment.
keepalive = 75
# A worker tells that it lives by a file: in memory, where a slow disk does not hold it up.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
control_socket_disable = True

ARENAS, MOST_ARENAS = -8, 2  # of malloc: M_ARENA_MAX. With one for each thread, what pages leave behind adds up.
MOMENT_SECONDS = 0.05


class PatientWorker(gthread.ThreadWorker):  # type: ignore[misc]
    """Threads as gunicorn's, which a new connection without a request holds for a moment alone, and not for 5 s.

    A proxy opens some in advance. Linux can hold them back itself, by TCP_DEFER_ACCEPT; but where the proxy asks such a
    connection after 15 s whether it is alive, Linux drops what comes over it for the next minute (6.18 does).
    """

    def handle(self, conn: gthread.TConn) -> Any:
        """Give the thread back where nothing comes: the connection waits where those do that are kept alive."""
        if not (conn.initialized or conn.data_ready or conn.wait_for_data(MOMENT_SECONDS)):
            return gthread._DEFER
        return super().handle(conn)


def post_fork(_server: Any, _worker: Any) -> None:
    """Keep the memory of a process flat."""
    ctypes.CDLL(None).mallopt(ARENAS, MOST_ARENAS)


def post_worker_init(worker: Any) -> None:
    """Give pages that are made anew their threads: what forks must not have any yet."""
    if worker.app.app_uri == wsgi_app:  # and no other application, as `make load` compares with
        from leaderboard.views.keeping import line

        line().start_threads()
