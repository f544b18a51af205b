"""Readers at so many connections, as fast as answers come or at a fixed rate, and what their requests came to.

At a fixed rate (open loop) a request's time runs from the moment at which it was due: waiting for a free connection
counts, so a site that stalls is not measured at the leisure that it imposes (coordinated omission).
"""

import asyncio
import gzip
import itertools
import re
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
RETRY = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
NONCE = re.compile(rb'nonce="[^"]*"')
TABLES = re.compile(rb"<table.*?</table>", re.DOTALL)
PATIENCE = 2.0  # seconds that a reader may wait, PAGE_WAIT_SECONDS of the board


@dataclass
class Report:
    """Seconds of answers by status, how long all of it took, and each different body of a page once."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    whole: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    bodies: dict[tuple[str, int], bytes] = field(default_factory=dict)
    late: Counter[int] = field(default_factory=Counter)  # answers beyond PATIENCE, by the second in which they came

    @property
    def count(self) -> int:
        """Answers of any status."""
        return sum(map(len, self.seconds.values()))

    @property
    def rate(self) -> float:
        """Pages a second, refusals left out."""
        return sum(len(times) for status, times in self.seconds.items() if status < 400) / self.whole

    @property
    def refused(self) -> int:
        """Honest refusals."""
        return len(self.seconds.get(503, ()))

    @property
    def error_count(self) -> int:
        """Broken connections, and answers that are neither pages nor honest refusals."""
        return sum(self.errors.values())

    def percentiles(self, *statuses: int) -> list[float]:
        """Milliseconds: median, 95th and 99th percentile, and the longest; of answers of these statuses, or all."""
        times = [time for status in statuses or self.seconds for time in self.seconds.get(status, ())]
        return [float(value) for value in 1000 * np.percentile(times, [50, 95, 99, 100])] if times else [0.0] * 4


class Connection(asyncio.Protocol):
    """A connection that stays open, with one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None
        self.data = b""

    def connection_made(self, transport) -> None:
        """Keep what to write to."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand over an answer once it is whole."""
        self.data += data
        head, separator, body = self.data.partition(b"\r\n\r\n")
        if not separator:
            return
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if length is None and b"chunked" in head:
            if not body.endswith(b"0\r\n\r\n"):
                return
            size = len(body)
        if len(body) >= size and self.answer and not self.answer.done():
            self.data = b""
            self.answer.set_result((int(head[9:12]), head, body))

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits for an answer gets none."""
        self.transport = None
        if self.answer and not self.answer.done():
            self.answer.set_exception(ConnectionError("closed"))

    async def ask(self, request: bytes) -> tuple[int, bytes, bytes]:
        """Status, head and body of the answer."""
        self.data, self.answer = b"", asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await asyncio.wait_for(self.answer, 60)


def spell_request(path: str) -> bytes:
    """A reader's request."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\nUser-Agent: load\r\n\r\n".encode()


def read_pages(
    port: int,
    paths: Iterable[str],
    connections: int,
    seconds: float,
    rate: float = 0.0,
    keeps_bodies: bool = False,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> Report:
    """Ask for these pages in turn, at `rate` a second, or where that is 0 as fast as answers come.

    Who gets a 503 waits as long as it says, where nothing sets the rate. beside: what else goes on meanwhile.
    """
    report = Report()
    requests = itertools.cycle([(path, spell_request(path)) for path in paths])

    async def run() -> None:
        began = time.perf_counter()
        dues: Iterator[float] = (began + number / rate for number in itertools.count()) if rate else iter(())
        readers = [one_reader(port, requests, began + seconds, dues if rate else None, report, keeps_bodies)
                   for _ in range(connections)]  # fmt: skip
        await asyncio.gather(*readers, *([beside()] if beside else []))
        report.whole = time.perf_counter() - began

    asyncio.run(run())
    return report


async def one_reader(port, requests, end, dues, report, keeps_bodies) -> None:
    """Ask until the end, over one connection, which is opened again where it was closed."""
    connection = Connection()
    while (due := next(dues) if dues else time.perf_counter()) < end:
        if (pause := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        path, request = next(requests)
        try:
            if connection.transport is None:
                _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
            status, head, body = await connection.ask(request)
        except (OSError, TimeoutError) as error:
            report.errors[type(error).__name__] += 1
            connection = Connection()
            continue
        seconds = time.perf_counter() - due
        report.seconds.setdefault(status, []).append(seconds)
        if seconds > PATIENCE:
            report.late[int(time.perf_counter())] += 1
        retry = RETRY.search(head)
        if status >= 400 and not (status == 503 and retry):
            report.errors[str(status)] += 1
        elif status == 503 and dues is None:
            await asyncio.sleep(int(retry[1]))
        elif keeps_bodies and status == 200:
            report.bodies.setdefault((path, zlib.crc32(body)), body)


def tables_of(body: bytes) -> bytes:
    """The tables of a compressed page, without the nonce of its scripts."""
    return b"".join(TABLES.findall(NONCE.sub(b"", gzip.decompress(body))))
