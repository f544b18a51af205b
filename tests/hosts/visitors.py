"""Visitors of a board: they read pages and the API, and submit outputs, all the time, and count what fails.

As a program: `python -m tests.hosts.visitors FOLDER` until SIGTERM; FOLDER holds `token`, `outputs.jsonl` and gets
`visits.json`: how many requests there were of each kind, the longest in seconds, and every one that failed.
"""

import json
import signal
import sys
import threading
import time
from collections import Counter
from itertools import count, cycle
from pathlib import Path

import httpx

BOARD = "http://127.0.0.1:8000"
PAGES = ("/", "/rankings/?metric=words-0", "/metrics/words-0/", "/models/", "/api/v1/metrics", "/api/v1/models")
READERS, PAUSE, SUBMIT_EVERY = 3, 0.02, 1.5
PATIENCE = 60.0  # seconds
BUSY = 503  # with Retry-After: the board makes as many answers as it can, and a client comes back


class Visits:
    """What came of all requests."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.longest = 0.0
        self.ends = threading.Event()

    def send(self, kind: str, method: str, path: str, status: int, **content: object) -> None:
        """Send one request over a connection of its own."""
        began = time.monotonic()
        try:
            answer = httpx.request(method, BOARD + path, timeout=PATIENCE, **content)  # type: ignore[arg-type]
            while (
                answer.status_code == BUSY and "Retry-After" in answer.headers and time.monotonic() - began < PATIENCE
            ):
                with self.lock:
                    self.counts["asked to come back"] += 1
                time.sleep(int(answer.headers["Retry-After"]))
                answer = httpx.request(method, BOARD + path, timeout=PATIENCE, **content)  # type: ignore[arg-type]
            problem = "" if answer.status_code == status else f"{answer.status_code} {answer.text[:200]}"
        except httpx.HTTPError as error:
            problem = f"{type(error).__name__}: {error}"
        with self.lock:
            self.counts[kind] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            if problem:
                self.failures.append(f"{time.strftime('%H:%M:%S')} {method} {path}: {problem}")

    def read(self) -> None:
        """Read one page after the other."""
        for path in cycle(PAGES):
            if self.ends.wait(PAUSE):
                return
            self.send("read", "GET", path, 200)

    def submit(self, folder: Path) -> None:
        """Submit outputs under new names."""
        headers = {"Authorization": f"Bearer {(folder / 'token').read_text()}"}
        rows = (folder / "outputs.jsonl").read_bytes()
        for number in count(1):
            values = {"form": "outputs", "name": f"Visitor {number}", "revision": f"r{number}", "kind": "causal"}
            content = {"data": values | {"metrics": "words-0"}, "files": {"file": ("outputs.jsonl", rows)}}
            self.send("submit", "POST", "/api/v1/submissions", 201, headers=headers, **content)
            if self.ends.wait(SUBMIT_EVERY):
                return


def main(folder: Path) -> None:
    """Visit until SIGTERM."""
    visits = Visits()
    signal.signal(signal.SIGTERM, lambda *_: visits.ends.set())
    threads = [threading.Thread(target=visits.read) for _ in range(READERS)]
    threads.append(threading.Thread(target=visits.submit, args=[folder]))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = {"counts": visits.counts, "failures": visits.failures, "longest": round(visits.longest, 2)}
    (folder / "visits.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
