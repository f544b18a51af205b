"""The process that cages are forked from: started clean, with the libraries imported, and without any secret.

    python -m scoring.cage.zygote CONTROL     # a socket's number, as the supervisor passes it

To import torch and transformers takes seconds, to fork a process that has them milliseconds. For each request on its
control socket, which brings two sockets, it forks a warden. The warden enters namespaces and forks the process in the
cage, which shuts itself in, tries its protections, and only then reads what it is asked to. The warden does nothing but
end that process when the supervisor says so, or is gone, remove what it wrote, and say how it ended.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from scoring.cage.confinement import confine, die_with_parent, enter_namespaces
from scoring.cage.limits import CageLimits
from scoring.cage.pipe import Pipe
from scoring.cage.protections import as_json, probe

MOST_REQUEST = 2**16
BY_SIGNAL = 128  # and its number: the exit status of a first process whose child was ended


def main() -> None:
    """Serve the control socket until it is closed."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the supervisor decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are nobody's to wait for
    gc.disable()  # it would look through all libraries again and again while they come
    import scoring.cage.work  # noqa: F401 - what cages need, once for all of them

    gc.freeze()  # or every cage would copy what the collector touches
    gc.enable()
    control.send(b"ready")
    while True:
        request, ends, _, _ = socket.recv_fds(control, MOST_REQUEST, 2)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            _keep_watch(json.loads(request), *(socket.socket(fileno=end) for end in ends))
        for end in ends:
            os.close(end)
        control.send(b"forked")


def _keep_watch(request: dict[str, Any], work: socket.socket, watch: socket.socket) -> None:
    """Be the warden of one cage; does not return."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        is_apart = enter_namespaces()
        child = os.fork()
        if child == 0:
            watch.close()
            if is_apart:
                _be_first(work)
            _work(request, work)
        work.close()
        watch.sendall(json.dumps({"process": child}).encode() + b"\n")
        either: list[Any] = [woken, watch]
        ready, _, _ = select.select(either, [], [])
        if watch in ready:
            os.kill(child, signal.SIGKILL)
        _, wait_status = os.waitpid(child, 0)
        shutil.rmtree(request["scratch"], ignore_errors=True)  # as the supervisor does, which may be gone
        code = os.waitstatus_to_exitcode(wait_status)
        number = -code if code < 0 else code - BY_SIGNAL if is_apart and code > BY_SIGNAL else 0
        message = {"signal": number} if number else {"status": code}
        watch.sendall(json.dumps(message).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _be_first(work: socket.socket) -> None:
    """Be the first process of a namespace, which signals do not end as others, and return in its child."""
    die_with_parent()
    child = os.fork()
    if child == 0:
        return
    work.close()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(BY_SIGNAL - code if code < 0 else code)


def _work(request: dict[str, Any], work: socket.socket) -> None:
    """Be the process in the cage; does not return."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # libraries write texts there
            os.dup2(silent, stream)
        limits = CageLimits(**request["limits"])
        folders = [Path(path) for path in request["readable"]]
        tempfile.tempdir = None  # asked for anew, in its scratch folder
        confine(limits, Path(request["scratch"]), folders, os.cpu_count() or 1, cuda=request["cuda"])
        pipe = Pipe(work)
        pipe.send({"protections": as_json(probe(Path(request["scratch"]).parent, request["supervisor"]))})
        from scoring.cage.work import serve

        serve(pipe)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
