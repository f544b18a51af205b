"""How many requests a minute one address may send: counted before anything else is done for them."""

import pytest
from django.core.cache import caches
from django.test import Client, RequestFactory

from leaderboard import counting
from leaderboard.counting import client_address, count_request
from leaderboard.middleware import too_many_page

pytestmark = pytest.mark.django_db

PAGES = ["/", "/about/", "/accounts/login/", "/admin/", "/embed/", "/healthz", "/nonsense", "/feeds/models.atom"]


@pytest.fixture(autouse=True)
def _counting(settings, monkeypatch):
    """Real counts, and a clock that stands still 20 s before the end of a minute."""
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "limits"}
    settings.CACHES = {**settings.CACHES, "visits": memory}
    settings.REQUESTS_A_MINUTE, settings.API_REQUESTS_A_MINUTE = 3, 2
    monkeypatch.setattr(counting, "time", lambda: 60 * 1000.0 + 40)
    caches["visits"].clear()
    yield
    caches["visits"].clear()


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_limited_by_address_and_says_how_long_to_wait(client, path):
    before = [client.get("/healthz").status_code for _ in range(3)]
    assert before == [200, 200, 200]
    answer = client.get(path)
    assert (answer.status_code, answer["Retry-After"]) == (429, "20")
    assert "Too many requests" in answer.content.decode()
    assert Client(REMOTE_ADDR="192.0.2.7").get("/healthz").status_code == 200


def test_who_is_refused_costs_no_query(client, django_assert_num_queries):
    for _ in range(3):
        client.get("/healthz")
    too_many_page()
    with django_assert_num_queries(0):
        assert client.get("/rankings/", headers={"Authorization": "Bearer plumb_x"}).status_code == 429


def test_the_next_minute_is_a_new_one(client, monkeypatch):
    for _ in range(4):
        refused = client.get("/healthz")
    assert refused.status_code == 429
    monkeypatch.setattr(counting, "time", lambda: 60 * 1001.0)
    assert client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_there_is_no_limit_where_the_operator_wants_none(client, settings):
    settings.REQUESTS_A_MINUTE = 0
    assert {client.get("/healthz").status_code for _ in range(10)} == {200}


def test_programs_are_refused_in_the_shape_of_the_api(client):
    for _ in range(3):
        client.get("/healthz")
    answer = client.get("/api/v1/models")
    assert (answer.status_code, answer["Retry-After"]) == (429, "20")
    assert answer.json()["errors"][0]["remedy"].startswith("Wait 20 s.")
    assert answer["Access-Control-Allow-Origin"] == "*"


def test_who_guesses_tokens_is_refused_before_the_next_one_is_looked_up(client, settings, django_assert_num_queries):
    settings.REQUESTS_A_MINUTE = 100
    wrong = {"Authorization": "Bearer plumb_wrong"}
    assert [client.get("/api/v1/models", headers=wrong).status_code for _ in range(2)] == [401, 401]
    with django_assert_num_queries(0):
        answer = client.get("/api/v1/models", headers=wrong)
    assert (answer.status_code, answer["Retry-After"]) == (429, "20")
    assert client.get("/api/v1/models").status_code == 200, "who sends no token guesses none"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        (2, "203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (1, "::ffff:203.0.113.9", "203.0.113.9"),
        (1, "nonsense", "unknown"),
        (1, "", "127.0.0.1"),
    ],
)
def test_behind_proxies_the_address_is_the_one_that_the_outermost_trusted_one_saw(
    settings, proxies, forwarded, address
):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    assert client_address(RequestFactory().get("/", headers=headers)) == address


def test_counts_of_different_people_are_apart():
    store = caches["visits"]
    assert [count_request(store, who, 1) for who in ("a", "b", "a", "b")] == [0, 0, 20, 20]
