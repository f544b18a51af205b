"""Who may make a page now: one maker for each page, few makers at a time, and a short line of those who wait.

A page costs the time of a core. More of them at a time than there are cores only keep each other waiting, and a line
that is longer than its readers' patience makes pages for nobody. While others wait, a reader is answered in time
whatever a page takes: the maker of a page that is kept has a thread of its own, and what comes too late is there for
whoever asks again.
"""

import fcntl
import logging
import os
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from statistics import median

from django.conf import settings
from django.db import close_old_connections
from django.http import Http404, HttpRequest, HttpResponse

from leaderboard.views.clients import ClientGone, require_client

LOOK_SECONDS = 0.02  # between two looks at whether another process has made the page
ASK_SECONDS = 0.25  # between two looks at whether the reader still waits
RECENT_PAGES, RECENT_SECONDS = 20, 10.0  # of a view: what its last pages took tells how long the next one may take
MARGIN = 2.0  # times their median: of 749 pages made side by side 2 took longer
FIRST_SECONDS = 0.5  # that a page is expected to take of a view that has made none of late
FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, process
RANGE = 2**62

logger = logging.getLogger(__name__)


class BoardBusy(Exception):
    """The line is full, or it took too long."""


class WaitingLine:
    """The line of one process. makers: pages it makes at a time; places: requests that may wait for one of those."""

    def __init__(self, makers: int, places: int) -> None:
        self._guard = threading.Lock()
        self._makers, self._places = makers, places
        self._free_makers, self._free_seats = makers, makers + places
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: deque[threading.Event] = deque()
        # Of each view when its last pages were ready, and the seconds that each took.
        self._last_pages: dict[Hashable, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=RECENT_PAGES))

    def start_threads(self) -> None:
        """Make pages in threads of their own from now on, one for each maker. No process forks after that."""
        self._threads = ThreadPoolExecutor(self._makers, thread_name_prefix="maker")

    def make(self, make: Callable[[], HttpResponse], place: ExitStack, deadline: float) -> HttpResponse:
        """What `make` returns, or raises; the place in the line, with its turn, is given up when it ends.

        Raises BoardBusy from the deadline on, once others wait for a turn, and the maker goes on: whoever is alone
        waits for the page. Without threads `make` takes the time that it takes.
        """
        if self._threads is None:
            with place:
                return make()
        page = self._threads.submit(copy_context().run, make_apart, make, place)
        wait([page], max(0.0, deadline - time.monotonic()))
        while not page.done():
            if self._free_seats < self._places:
                page.add_done_callback(log_failure)
                raise BoardBusy
            wait([page], ASK_SECONDS)
        return page.result()

    @contextmanager
    def take_seat(self) -> Iterator[None]:
        """Be one of those who make a page or wait for one. Raises BoardBusy at once where the line is full."""
        with self._guard:
            if not self._free_seats:
                raise BoardBusy
            self._free_seats -= 1
        try:
            yield
        finally:
            with self._guard:
                self._free_seats += 1

    def latest_start(self, view: Hashable, deadline: float) -> float:
        """When a page of `view` has to be begun to be ready at the deadline, by what such pages took of late.

        A slow one counts for RECENT_SECONDS: were it remembered for longer, nobody might get to make a quicker one.
        """
        horizon = time.monotonic() - RECENT_SECONDS
        with self._guard:
            recent_seconds = [seconds for end, seconds in self._last_pages[view] if end > horizon]
        return deadline - (MARGIN * median(recent_seconds) if recent_seconds else FIRST_SECONDS)

    @contextmanager
    def take_turn(self, request: HttpRequest, view: Hashable, deadline: float) -> Iterator[None]:
        """Be one of the makers, first come first served, of a page of `view` that has to be ready at the deadline.

        Raises BoardBusy as soon as that leaves no time to make it, as long as such pages took of late; and ClientGone.
        """
        latest_start = self.latest_start(view, deadline)
        with self._guard:
            turn = None if self._free_makers else threading.Event()
            if turn:
                self._waiting.append(turn)
            else:
                self._free_makers -= 1
        try:
            if turn:
                await_turn(turn, request, latest_start)
            require_client(request)
            began = time.monotonic()
            yield
            end = time.monotonic()
            with self._guard:
                self._last_pages[view].append((end, end - began))
        finally:
            with self._guard:
                self._end_turn(turn)

    def _end_turn(self, turn: threading.Event | None) -> None:
        if turn and turn in self._waiting:  # it never came
            self._waiting.remove(turn)
        elif self._waiting:
            self._waiting.popleft().set()
        else:
            self._free_makers += 1


def make_apart(make: Callable[[], HttpResponse], place: ExitStack) -> HttpResponse:
    """What `make` returns in a thread that no request has: its database connection is kept as that of a request is."""
    with place:
        close_old_connections()
        try:
            return make()
        finally:
            close_old_connections()


def log_failure(page: Future[HttpResponse]) -> None:
    """Log what broke the making of a page that nobody waits for any more."""
    error = page.exception()
    if error and not isinstance(error, (ClientGone, Http404)):
        logger.error("a page that came too late could not be made", exc_info=error)


def await_turn(turn: threading.Event, request: HttpRequest, deadline: float) -> None:
    """Wait for a turn. Raises BoardBusy at the deadline, and ClientGone."""
    while not turn.wait(max(0.0, min(ASK_SECONDS, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            raise BoardBusy
        require_client(request)


@contextmanager
def sole_maker(name: str, is_ready: Callable[[], bool], deadline: float, latest_start: float) -> Iterator[bool]:
    """Whether this thread is the only one of the host that makes the page `name`; else another one has made it.

    Raises BoardBusy at the deadline, and where another one gave up after `latest_start`. The lock goes with the
    process, however that ends. Where its file cannot be opened, each makes the page.
    """
    try:
        descriptor = os.open(settings.VAR / "pages.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield True
        return
    has_waited = False
    try:
        while not hold_range(descriptor, int(name, 16) % RANGE):
            has_waited = True
            time.sleep(LOOK_SECONDS)
            if is_ready():
                break
            if time.monotonic() >= deadline:
                raise BoardBusy
        is_maker = not is_ready()
        if is_maker and has_waited and time.monotonic() > latest_start:
            raise BoardBusy
        yield is_maker
    finally:
        os.close(descriptor)


def hold_range(descriptor: int, start: int) -> bool:
    """Lock one byte of a file for this open file alone, not for all of the process; whether that worked."""
    with suppress(BlockingIOError):
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))
        return True
    return False
