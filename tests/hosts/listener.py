"""A listening socket that outlives the web servers on it, as systemd keeps the one of plumbline-web.socket.

As a program: `python -m tests.hosts.listener FILE` starts the web server of the release in the folder that FILE
names. SIGHUP is `systemctl restart`: the server ends when it has answered, and the next one starts on the same socket.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

ADDRESS = ("127.0.0.1", 8000)
PASSED = 3  # the first descriptor that systemd passes
GUNICORN = "-m gunicorn --config python:leaderboard.serving"
restarts = threading.Semaphore(0)


def start_server(folder: str) -> "subprocess.Popen[bytes]":
    """Start the web server of a release on the socket."""
    command = f"LISTEN_PID=$$ LISTEN_FDS=1 exec {sys.executable} {GUNICORN}"
    return subprocess.Popen(["bash", "-c", command], cwd=folder, pass_fds=[PASSED])


def main(path: Path) -> None:
    """Serve until the process is killed."""
    signal.signal(signal.SIGHUP, lambda *_: restarts.release())
    os.dup2(socket.create_server(ADDRESS, backlog=512).detach(), PASSED)
    while True:
        server = start_server(path.read_text().strip())
        while not restarts.acquire(timeout=0.2):
            if server.poll() is not None:
                raise SystemExit(f"the web server ended with {server.returncode}")
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
