"""One maker for each page, few at a time, and a short line: beyond it a page of a moment ago, or an honest 503."""

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.core.cache import caches
from django.http import Http404, HttpResponse
from django.test import RequestFactory

from leaderboard import serving
from leaderboard.api import front
from leaderboard.middleware import ContentPolicy
from leaderboard.queries.stamp import Stamp
from leaderboard.views import keeping, line
from leaderboard.views.clients import ClientGone
from leaderboard.views.keeping import keep_page
from leaderboard.views.line import BoardBusy, WaitingLine, sole_maker

NAME = "ab" * 16
SOON = 30.0  # seconds, which nothing here takes


@pytest.fixture(autouse=True)
def _store(settings, tmp_path):
    folder = {"BACKEND": "leaderboard.caches.FolderCache", "LOCATION": str(tmp_path / "pages")}
    settings.CACHES = {**settings.CACHES, "pages": folder}
    settings.VAR = tmp_path
    keeping.line.cache_clear()
    yield
    keeping.line.cache_clear()


class Page:
    """A view that counts how often it is called, and waits for `gate`."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls = self.at_once = self.most_at_once = 0
        self.view = keep_page(reads=None)(self._make)
        self._guard = threading.Lock()

    def _make(self, request):
        with self._guard:
            self.calls += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.gate.wait(SOON)
        with self._guard:
            self.at_once -= 1
        return HttpResponse(f"state {request.board_stamp.kept}")

    @staticmethod
    def fail(_request):
        raise ValueError("no such slice")

    def ask(self, path="/x/", state="1", **environment):
        request = RequestFactory().get(path, **environment)
        request.board_stamp, request.resolver_match, request.csp_nonce = Stamp(state, ""), None, ""
        return self.view(request)


def wait_until(condition) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_many_who_ask_for_a_page_at_once_wait_for_one_maker(settings):
    settings.PAGE_WAIT_SECONDS = SOON
    page = Page()
    with ThreadPoolExecutor(8) as readers:
        answers = [readers.submit(page.ask) for _ in range(8)]
        wait_until(lambda: page.at_once)
        page.gate.set()
        bodies = {answer.result().content for answer in answers}
    assert (page.calls, bodies) == (1, {b"state 1"})


def test_another_process_waits_for_the_maker_and_makes_the_page_when_that_one_dies(settings):
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        with sole_maker(NAME, lambda: False, time.monotonic() + SOON, 0.0):
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os._exit(0)  # without letting go of anything
    assert os.read(ready[0], 1) == b"x"
    with pytest.raises(BoardBusy), sole_maker(NAME, lambda: False, time.monotonic(), 0.0):
        pass
    with sole_maker(NAME, lambda: True, time.monotonic() + SOON, 0.0) as is_maker:
        assert not is_maker
    with sole_maker("cd" * 16, lambda: False, time.monotonic(), 0.0) as is_maker:
        assert is_maker
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    with sole_maker(NAME, lambda: False, time.monotonic() + SOON, 0.0) as is_maker:
        assert is_maker


def test_few_pages_are_made_at_a_time_and_a_full_line_is_told_to_come_back(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE, settings.PAGE_WAIT_SECONDS = 2, 3, SOON
    page = Page()
    with ThreadPoolExecutor(5) as readers:
        answers = [readers.submit(page.ask, f"/{number}/") for number in range(5)]
        wait_until(lambda: not keeping.line()._free_seats)
        refused = page.ask("/6/")
        assert (refused.status_code, refused["Retry-After"]) == (503, str(keeping.RETRY_SECONDS))
        assert "try again in a few seconds" in refused.content.decode()
        assert "ETag" not in refused
        page.gate.set()
        assert {answer.result().status_code for answer in answers} == {200}
    assert (page.calls, page.most_at_once) == (5, 2)
    assert page.ask("/6/").status_code == 200


def test_who_waits_too_long_is_told_so_and_nothing_is_made_for_them(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE, settings.PAGE_WAIT_SECONDS = 1, 3, 0.55
    page = Page()
    with ThreadPoolExecutor(1) as readers:
        first = readers.submit(page.ask, "/1/")
        wait_until(lambda: page.at_once)
        assert page.ask("/2/").status_code == 503
        page.gate.set()
        assert first.result().status_code == 200
    assert page.calls == 1


@pytest.fixture
def _threads(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE = 1, 1
    keeping.line().start_threads()
    yield
    keeping.line()._threads.shutdown()


@pytest.fixture
def _crowd(_threads):
    with keeping.line().take_seat():  # somebody else, who waits for a turn
        yield


@pytest.mark.parametrize(("application", "has_threads"), [("leaderboard.wsgi", True), ("tests.load.empty", False)])
def test_gunicorn_gives_the_pages_of_the_site_threads_and_no_other_application(application, has_threads):
    serving.post_worker_init(SimpleNamespace(app=SimpleNamespace(app_uri=application)))
    assert (keeping.line()._threads is not None) is has_threads


@pytest.mark.usefixtures("_threads")
def test_who_is_alone_waits_for_a_page_however_long_it_takes(settings):
    settings.PAGE_WAIT_SECONDS = 0.0
    page = Page()
    with ThreadPoolExecutor(1) as readers:
        answer = readers.submit(page.ask)
        wait_until(lambda: page.at_once)
        time.sleep(0.05)
        assert not answer.done()
        page.gate.set()
        assert answer.result().status_code == 200


@pytest.mark.usefixtures("_crowd")
def test_who_asked_is_told_in_time_and_finds_the_page_when_asking_again(settings, monkeypatch):
    monkeypatch.setattr(keeping, "WAY_SECONDS", 0.2)
    settings.PAGE_WAIT_SECONDS = 0.7
    page = Page()
    began = time.monotonic()
    refused = page.ask()
    assert time.monotonic() - began >= 0.5
    assert (refused.status_code, refused["Retry-After"]) == (503, str(keeping.RETRY_SECONDS))
    assert page.at_once == 1  # its maker goes on, and keeps its seat
    assert page.ask("/2/").status_code == 503
    page.gate.set()
    wait_until(lambda: keeping.line()._free_seats)
    assert (page.ask().content, page.calls) == (b"state 1", 1)
    assert page.ask("/2/").status_code == 200


@pytest.mark.usefixtures("_crowd")
@pytest.mark.parametrize(
    ("error", "is_logged"), [(OSError("the disk is full"), True), (ClientGone(), False), (Http404(), False)]
)
def test_a_page_that_nobody_waits_for_any_more_and_that_fails_is_logged(settings, caplog, error, is_logged):
    settings.PAGE_WAIT_SECONDS = 0.0
    gate = threading.Event()

    def fail(_request):
        assert gate.wait(SOON)
        raise error

    page = Page()
    page.view = keep_page(reads=None)(fail)
    assert page.ask().status_code == 503
    gate.set()
    wait_until(lambda: keeping.line()._free_seats)
    keeping.line()._threads.shutdown()
    assert ("a page that came too late could not be made" in caplog.text) is is_logged


@pytest.mark.usefixtures("_crowd")
def test_a_page_that_is_made_after_the_answer_has_the_nonce_of_its_scripts(settings):
    settings.PAGE_WAIT_SECONDS = 0.0
    gate, page, request = threading.Event(), Page(), RequestFactory().get("/x/")
    request.board_stamp, request.resolver_match = Stamp("1", ""), None

    def make(request):
        assert gate.wait(SOON)
        return HttpResponse(request.csp_nonce)

    page.view = keep_page(reads=None)(make)
    assert ContentPolicy(page.view)(request).status_code == 503
    gate.set()
    wait_until(lambda: keeping.line()._free_seats)
    later_answer = page.ask()
    assert f"script-src 'nonce-{later_answer.content.decode()}'" in later_answer["Content-Security-Policy"]


@pytest.mark.usefixtures("_threads")
def test_an_error_of_a_maker_is_the_error_of_whoever_asked(settings):
    settings.PAGE_WAIT_SECONDS = SOON
    page = Page()
    page.view = keep_page(reads=None)(Page.fail)
    with pytest.raises(ValueError, match="no such slice"):
        page.ask()
    assert keeping.line()._free_seats == 2


class Clock:
    """A clock that only waiting moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        """Of a turn that never comes."""
        self.now += seconds
        return False


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of the line, which waits by it for turns that never come."""
    clock = Clock()
    monkeypatch.setattr(line, "time", clock)
    monkeypatch.setattr(line, "threading", SimpleNamespace(Lock=threading.Lock, Event=lambda: clock))
    return clock


def test_waiting_ends_when_the_rest_of_the_time_is_twice_what_such_a_page_took_of_late(clock):
    queue, request = WaitingLine(1, 1), RequestFactory().get("/")
    with queue.take_turn(request, "slow", 0):
        clock.now += 0.3
    with queue.take_turn(request, "quick", 0):
        pass
    with queue.take_turn(request, "quick", 0):
        for view, seconds in {"slow": 0.4, "quick": 1.0}.items():
            began = clock.now
            with pytest.raises(BoardBusy), queue.take_turn(request, view, began + 1):
                pass
            assert clock.now - began == pytest.approx(seconds)


def test_who_waited_for_a_maker_that_gave_up_makes_the_page_only_while_there_is_time():
    for latest_start, is_made in ((SOON, True), (0.0, False)):
        makers, began, has_waited = [], time.monotonic(), threading.Event()
        with ThreadPoolExecutor(1) as readers:

            def make_after_another(latest=began + latest_start, end=began + SOON, makers=makers, look=has_waited.set):
                with sole_maker(NAME, look, end, latest) as is_maker:  # a look finds nothing
                    makers.append(is_maker)

            with sole_maker(NAME, lambda: False, began, 0.0):
                waiting = readers.submit(make_after_another)
                assert has_waited.wait(SOON)
            assert isinstance(waiting.exception(), BoardBusy) is not is_made
        assert makers == [True] * is_made
    with sole_maker(NAME, lambda: False, 0.0, 0.0) as is_maker:  # whoever comes first makes it, however long that takes
        assert is_maker


@pytest.mark.parametrize(
    ("name", "value", "others"), [("RECENT_PAGES", 2, (0, 0)), ("RECENT_SECONDS", 0, ()), ("RECENT_PAGES", 3, (0, 0))]
)
def test_a_slow_page_is_forgotten_after_others_of_its_view_and_after_some_time(monkeypatch, clock, name, value, others):
    monkeypatch.setattr(line, name, value)
    monkeypatch.setattr(line, "FIRST_SECONDS", 0)
    queue, request = WaitingLine(1, 1), RequestFactory().get("/")
    for seconds in (0.3, *others):
        with queue.take_turn(request, "page", 0):
            clock.now += seconds
    with queue.take_turn(request, "page", 0):
        began = clock.now
        with pytest.raises(BoardBusy), queue.take_turn(request, "page", began + 0.3):
            pass
        assert clock.now - began == pytest.approx(0.3)


def test_in_a_full_line_the_last_page_is_better_than_none_and_says_of_which_state_it_is(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE, settings.PAGE_WAIT_SECONDS = 1, 0, SOON
    page = Page()
    page.gate.set()
    old = page.ask("/1/", "1")
    page.gate.clear()
    with ThreadPoolExecutor(1) as readers:
        maker = readers.submit(page.ask, "/2/")
        wait_until(lambda: page.at_once)
        late = page.ask("/1/", "2")
        assert (late.content, late["ETag"]) == (old.content, old["ETag"])
        page.gate.set()
        maker.result()
    assert page.ask("/1/", "2").content == b"state 2"


def test_while_a_page_is_made_again_others_get_the_last_one_and_do_not_wait(settings):
    settings.PAGE_WAIT_SECONDS = SOON
    page = Page()
    page.gate.set()
    old = page.ask(state="1")
    page.gate.clear()
    with ThreadPoolExecutor(1) as readers:
        maker = readers.submit(page.ask, state="2")
        wait_until(lambda: page.at_once)
        began = time.monotonic()
        assert {page.ask(state="2").content for _ in range(20)} == {old.content}
        assert time.monotonic() - began < SOON / 2
        page.gate.set()
        assert maker.result().content == b"state 2"
    assert page.calls == 2


@pytest.mark.slow
def test_who_left_while_waiting_is_dropped_and_leaves_the_line_to_others(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE, settings.PAGE_WAIT_SECONDS = 1, 1, SOON
    page = Page()
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(2) as readers:
        first = readers.submit(page.ask, "/1/")
        wait_until(lambda: page.at_once)
        gone = readers.submit(page.ask, "/2/", **{"gunicorn.socket": ours})
        wait_until(lambda: not keeping.line()._free_seats)
        theirs.close()
        assert gone.result(SOON).status_code == 499
        assert keeping.line()._free_seats == 1
        page.gate.set()
        assert first.result().status_code == 200
    assert page.calls == 1


def test_pages_of_people_who_are_signed_in_stand_in_the_same_line_and_are_not_kept(settings):
    settings.PAGE_MAKERS, settings.PAGE_LINE, settings.PAGE_WAIT_SECONDS = 1, 0, SOON
    page = Page()
    with ThreadPoolExecutor(1) as readers:
        first = readers.submit(page.ask, "/1/", HTTP_COOKIE="sessionid=ada")
        wait_until(lambda: page.at_once)
        assert page.ask("/2/", HTTP_COOKIE="sessionid=grace").status_code == 503
        page.gate.set()
        assert "ETag" not in first.result()
    assert not list((settings.VAR / "pages").glob("*"))


def test_turns_come_in_the_order_of_the_line():
    order, queue = [], WaitingLine(1, 5)
    request = RequestFactory().get("/")
    threads = []

    def wait_for_turn(number):
        with queue.take_turn(request, "page", time.monotonic() + SOON):
            order.append(number)

    with queue.take_turn(request, "page", 0):
        for number in range(5):
            threads.append(threading.Thread(target=wait_for_turn, args=[number]))
            threads[-1].start()
            wait_until(lambda count=number + 1: len(queue._waiting) == count)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_a_turn_that_fails_goes_to_the_next(monkeypatch):
    queue, request = WaitingLine(1, 1), RequestFactory().get("/")

    def leave(_request):
        raise ClientGone

    monkeypatch.setattr(line, "require_client", leave)
    with pytest.raises(ClientGone), queue.take_turn(request, "page", time.monotonic() + SOON):
        pass
    monkeypatch.undo()
    with queue.take_turn(request, "page", time.monotonic()):
        pass


def test_the_api_says_busy_as_a_problem_with_the_time_to_wait(rf):
    answer = front.as_problem(rf.get("/api/v1/models"), keeping.refuse_for_now())
    assert (answer.status_code, answer["Retry-After"]) == (503, str(keeping.RETRY_SECONDS))
    assert b"Try again in" in answer.content
    assert answer["Content-Type"].startswith("application/json")


def test_a_page_is_made_without_a_lock_where_its_file_cannot_be_written(settings, tmp_path):
    settings.VAR = tmp_path / "absent"
    with sole_maker(NAME, lambda: False, 0.0, 0.0) as is_maker:
        assert is_maker
    page = Page()
    page.gate.set()
    assert page.ask().status_code == 200
    assert caches["pages"].get("nothing") is None
