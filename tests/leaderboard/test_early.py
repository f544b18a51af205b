"""Pages that are ready are answered before Django, with all that they promise."""

import gzip
import io
import os
import time

import pytest
from django.core.cache import caches
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard import early
from leaderboard.early import answer_early
from leaderboard.models import LanguageModel
from leaderboard.operations.monitoring.requests import SECONDS
from leaderboard.queries import shared_stamp
from leaderboard.queries.stamp import board_stamp
from leaderboard.state_memo import StateMemo
from leaderboard.views import page_store

PATHS = ["/", "/rankings/?metric=safety-starter", "/history/", "/about/", "/docs/", "/feeds/models.atom", "/embed/"]
ONLY_THERE = {"X-Request-ID"}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board", "board")]


@pytest.fixture(autouse=True)
def _shared_pages(settings, tmp_path):
    """The store and the state that the processes of a host share, looked at once in a long while."""
    folder = {"BACKEND": "leaderboard.caches.FolderCache", "LOCATION": str(tmp_path / "pages")}
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "early"}
    settings.CACHES = {**settings.CACHES, "pages": folder, "visits": memory}
    settings.BOARD_LOOK_SECONDS, settings.VAR = 3600.0, tmp_path
    shared_stamp.stamp_file.cache_clear()
    caches["visits"].clear()
    for signal in (request_started, request_finished):  # as Django's client does: the test's connection stays open
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    shared_stamp.stamp_file.cache_clear()


def ask(path: str, application=None, **environment: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a plain request."""
    address, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": address, "QUERY_STRING": query, "SERVER_NAME": "localhost",
        "SERVER_PORT": "80", "HTTP_HOST": "localhost", "REMOTE_ADDR": "192.0.2.1", "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), **environment,
    }  # fmt: skip
    heads = []
    body = b"".join((application or answer_early(WSGIHandler()))(environ, lambda *head: heads.append(head)))
    status, headers = heads[0][:2]
    return int(status.split()[0]), dict(headers), body


def fail(*_arguments):
    pytest.fail("the request came to Django")


@pytest.mark.parametrize("path", PATHS)
def test_a_page_that_is_ready_needs_no_query_no_session_and_no_middleware(path):
    first = ask(path)
    with CaptureQueriesContext(connection) as queries:
        status, headers, body = ask(path, answer_early(fail))
    assert len(queries) == 0
    assert (status, body) == (200, first[2])
    unlike = {name for name in {*headers, *first[1]} if headers.get(name) != first[1].get(name)}
    assert unlike == ONLY_THERE


def test_a_ready_page_carries_its_own_nonce_and_is_compressed_once(monkeypatch):
    _, headers, body = ask("/history/")
    nonce = headers["Content-Security-Policy"].partition("'nonce-")[2].partition("'")[0]
    assert nonce
    assert f'nonce="{nonce}"' in body.decode()
    monkeypatch.setattr("leaderboard.views.page_store.gzip.compress", fail)
    packed = ask("/history/", answer_early(fail), HTTP_ACCEPT_ENCODING="br, gzip")
    assert packed[1]["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed[2]) == body
    assert packed[1]["Content-Security-Policy"] == headers["Content-Security-Policy"]


def test_who_has_a_ready_page_is_not_sent_it_again():
    etag = ask("/about/")[1]["ETag"]
    status, headers, body = ask("/about/", answer_early(fail), HTTP_IF_NONE_MATCH=f'"x", {etag}')
    assert (status, body, headers["ETag"]) == (304, b"", etag)
    assert not {"Content-Security-Policy", "Content-Length", "Content-Type"} & set(headers)
    assert ask("/about/", answer_early(fail), HTTP_IF_NONE_MATCH='"x"')[0] == 200


def test_whoever_is_signed_in_or_polls_goes_on_to_django():
    ask("/about/")
    for environment in (
        {"HTTP_COOKIE": "a=b; sessionid=whoever"},
        {"HTTP_COOKIE": "messages=whatever"},
        {"HTTP_PLUMBLINE_SEEN": "0"},
        {"REQUEST_METHOD": "POST"},
        {"HTTP_HOST": "elsewhere.example"},
    ):
        with pytest.raises(pytest.fail.Exception, match="came to Django"):
            ask("/about/", answer_early(fail), **environment)
    assert ask("/about/", answer_early(fail), HTTP_COOKIE="other=1")[0] == 200


def test_ready_pages_count_as_visits(settings):
    settings.REQUESTS_A_MINUTE = 3
    statuses = [ask("/about/")[0] for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert ask("/about/", REMOTE_ADDR="192.0.2.7")[0] == 200


def test_ready_pages_are_counted_and_logged_with_their_view_and_id(monkeypatch):
    ask("/about/")
    lines = []
    monkeypatch.setattr(early, "log_request", lambda *fields: lines.append(fields))
    histogram = SECONDS.labels("GET", "about", "2xx")
    before = histogram._sum.get()
    _, headers, _ = ask("/about/", answer_early(fail), HTTP_X_REQUEST_ID="request-0001")
    assert headers["X-Request-ID"] == "request-0001"
    assert histogram._sum.get() > before
    assert [fields[1:4] for fields in lines] == [("request-0001", 200, "GET /about/")]


def test_an_address_in_any_script_comes_to_django_as_it_was_sent():
    ask("/about/")  # or nothing is known of the board's state, and each request goes on as it came
    path = "/models/模型-é/"
    assert ask(path.encode().decode("iso-8859-1"))[0] == 404


def test_a_process_reads_a_ready_page_from_the_store_once(monkeypatch):
    monkeypatch.setattr(page_store, "ready_pages", StateMemo(1))
    first = ask("/about/")
    assert ask("/about/", answer_early(fail))[2] == first[2]
    caches["pages"].clear()
    assert ask("/about/", answer_early(fail))[2] == first[2]
    ask("/docs/")
    ask("/docs/", answer_early(fail))  # takes the one place
    with pytest.raises(pytest.fail.Exception, match="came to Django"):
        ask("/about/", answer_early(fail))


def test_a_page_in_memory_goes_with_the_state_that_it_shows(monkeypatch):
    monkeypatch.setattr(page_store, "ready_pages", StateMemo(9))
    path = "/rankings/?metric=safety-starter"
    first = ask(path)
    assert ask(path, answer_early(fail))[1]["ETag"] == first[1]["ETag"]
    LanguageModel.objects.create(slug="x", name="X", kind="causal", source="published")
    shared_stamp.stamp_file(os.getpid()).write(time.monotonic(), shared_stamp.digest_stamp(board_stamp()))
    with pytest.raises(pytest.fail.Exception, match="came to Django"):
        ask(path, answer_early(fail))
    assert ask(path)[1]["ETag"] != first[1]["ETag"]


def test_a_page_in_memory_that_shows_work_under_way_goes_with_that_and_others_stay(monkeypatch):
    monkeypatch.setattr(page_store, "ready_pages", StateMemo(9))
    moving, lasting = "/rankings/?metric=safety-starter", "/about/"
    for path in (moving, lasting):
        ask(path)
        ask(path, answer_early(fail))
    shared = shared_stamp.stamp_file(os.getpid())
    shared.write(time.monotonic(), shared.read()[1]._replace(moving="0" * 16))
    assert ask(lasting, answer_early(fail))[0] == 200
    with pytest.raises(pytest.fail.Exception, match="came to Django"):
        ask(moving, answer_early(fail))


def test_one_request_looks_at_the_state_and_the_others_are_answered_meanwhile(settings):
    ask("/about/")
    shared = shared_stamp.stamp_file(os.getpid())
    began, patience = time.monotonic(), settings.BOARD_LOOK_SECONDS
    shared.write(began - 0.6 * patience, shared.read()[1])  # a look is due, and nobody has to wait for it
    with pytest.raises(pytest.fail.Exception, match="came to Django"):
        ask("/about/", answer_early(fail))
    assert [ask("/about/", answer_early(fail))[0] for _ in range(3)] == [200] * 3
    shared._sent_at = began - patience / 8  # the one that was sent takes too long
    with pytest.raises(pytest.fail.Exception, match="came to Django"):
        ask("/about/", answer_early(fail))
    shared.write(began - patience, shared.read()[1])  # too old for anybody
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception, match="came to Django"):
            ask("/about/", answer_early(fail))


def test_a_change_of_the_board_ends_its_pages_in_all_processes_at_once(settings):
    first = ask("/rankings/?metric=safety-starter")
    LanguageModel.objects.create(slug="x", name="X", kind="causal", source="published")
    assert ask("/rankings/?metric=safety-starter")[1]["ETag"] == first[1]["ETag"]
    settings.BOARD_LOOK_SECONDS = 1e-6  # another process looks
    other = shared_stamp.StampFile(settings.VAR / f"state-{settings.HOST}")
    seen = shared_stamp.latest_stamp()
    assert other.read()[1] == seen
    settings.BOARD_LOOK_SECONDS = 3600.0
    assert ask("/rankings/?metric=safety-starter")[1]["ETag"] != first[1]["ETag"]


def test_a_look_serves_all_requests_until_the_next_is_due(settings):
    stamp = shared_stamp.latest_stamp()
    with CaptureQueriesContext(connection) as queries:
        assert [shared_stamp.latest_stamp() for _ in range(5)] == [stamp] * 5
    assert len(queries) == 0
    settings.BOARD_LOOK_SECONDS = 1e-6
    with CaptureQueriesContext(connection) as queries:
        shared_stamp.latest_stamp()
    assert len(queries) == 1


def test_a_state_that_was_half_written_or_is_of_another_start_is_not_believed(tmp_path):
    shared = shared_stamp.StampFile(tmp_path / "half")
    assert shared.read()[0] == float("inf")
    stamp = shared_stamp.digest_stamp(shared_stamp.Stamp("a", "b"))
    shared.write(time.monotonic(), stamp)
    assert shared.read()[0] < 60
    assert shared.read()[1] == stamp
    shared._memory[9] ^= 1
    assert shared.read()[0] == float("inf")
    shared.write(time.monotonic() + 60, stamp)
    assert shared.read()[0] == float("inf")


def test_one_process_looks_and_the_others_do_not_wait_for_it(tmp_path):
    ours, theirs = shared_stamp.StampFile(tmp_path / "state"), shared_stamp.StampFile(tmp_path / "state")
    with ours.hold(wait=False) as mine, theirs.hold(wait=False) as also:
        assert (mine, also) == (True, False)
    with theirs.hold(wait=False) as mine:
        assert mine


def test_what_django_answers_is_not_kept_for_others_when_it_is_personal(django_user_model):
    ada = Client()
    ada.force_login(django_user_model.objects.create_user("ada", is_staff=True))
    page = ada.get("/about/")
    assert "ETag" not in page
    assert b"/operate/" in page.content
    assert b"/operate/" not in ask("/about/")[2]
    assert isinstance(page.wsgi_request, HttpRequest)
