"""Whatever stands in an address, a page answers with what was asked for or with what is wrong, and never with a 500."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.addresses import METRIC, addresses

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

NAMES = (
    *("a", "access", "actor", "add", "against", "as_of", "attribute", "b", "c", "check", "coefficient", "columns", "e"),
    *("family", "for", "format", "from", "invitation", "kind", "limit", "m", "maxheight", "maxwidth", "measure"),
    *("metric", "model", "model_kind", "next", "numbers", "o", "of", "offset", "order", "p", "page", "population"),
    *("property", "provenance", "q", "rows", "search", "show", "since", "size", "slice", "sort", "source", "state"),
    *("status", "tie_rule", "to", "top", "until", "url", "verb", "verdict", "version", "x", "y", "hub_id", "revision"),
)
HOSTILE = (
    *("9999-12-31", "0001-01-01", "2026-13-45", "2026W53", "-1", "0", "1e400", "NaN", "Infinity", "9" * 9, "9" * 18),
    *(
        "9" * 19,
        "9" * 5000,
        "٣",
        "²",
        "\0",
        "a\0b",
        "\ud800",
        "%00",
        "\u202e",
        "'\";--",
        "../../etc/passwd",
        "a" * 3000,
    ),
    *(
        "http://[",
        "http://testserver/rankings/?as_of=9999-12-31",
        "slice:",
        "-slice:",
        "toxicity@" + "9" * 5000,
        "safety_score",
    ),
)
PATHS = [
    *addresses(),
    *(f"/operate/work/run/{'9' * 25}/retry/", f"/submissions/{'9' * 25}/", f"/artefacts/{'0' * 64}.parquet"),
]
VALUES = st.sampled_from(HOSTILE) | st.text(max_size=20)
QUERIES = st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3)


def encoded(query: dict[str, str]) -> str:
    """A query string, with what no text can hold as bytes that are no UTF-8."""
    return "&".join(
        f"{name}={''.join(f'%{byte:02X}' for byte in value.encode('utf-8', 'surrogatepass'))}"
        for name, value in query.items()
    )


@pytest.fixture(scope="module")
def operator(lasting_board, django_db_blocker) -> Client:
    """Somebody who may open every page."""
    with django_db_blocker.unblock():
        client = Client(REMOTE_ADDR="127.0.0.1")
        client.force_login(User.objects.create_superuser("fuzz", "fuzz@example.org"))
    return client


@pytest.mark.slow
@given(st.sampled_from(PATHS), QUERIES)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_address_makes_a_page_fail(operator, path, query):
    assert operator.get(f"{path}?{encoded(query)}").status_code != 500


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "path", ["/rankings/", "/embed/", "/rankings.csv", "/oembed", f"/api/v1/metrics/{METRIC}/standings"]
)
@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01"])
def test_a_day_that_no_ranking_can_be_of_is_refused_with_the_days_that_can_be(client, path, day):
    query = {"url": f"http://testserver/rankings/?as_of={day}"} if path == "/oembed" else {"as_of": day}
    answer = client.get(path, query)
    assert answer.status_code in (404, 422)
    assert ("2999-12-31" if day > "2999" else "2000-01-01") in answer.content.decode()


def test_a_nul_character_is_refused_on_every_page_by_the_name_of_its_parameter(client):
    for path in ("/", "/about/", "/admin/auth/user/", "/accounts/login/"):
        answer = client.get(f"{path}?q=a%00b")
        assert answer.status_code == 400
        assert "q: it contains a NUL character" in answer.content.decode()


@pytest.mark.parametrize("path", ["/", "/rankings/", "/admin/auth/user/", "/accounts/login/", "/nothing/"])
def test_more_parameters_than_are_read_are_refused_on_every_page(client, path):
    answer = client.get(path + "?" + "&".join(f"q{number}=1" for number in range(1500)))
    assert answer.status_code == 400
    assert "The address has more than 1,000 parameters. Leave out those" in answer.content.decode()
    form = {f"q{number}": "1" for number in range(1500)}
    assert client.post(path, form).status_code < 500


def test_the_api_refuses_more_parameters_than_it_reads_in_its_own_shape(client):
    answer = client.get("/api/v1/metrics?" + "&".join(f"q{number}=1" for number in range(1500)))
    assert answer.status_code == 400
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.json()["errors"][0]["message"] == "The address has more than 1,000 parameters."
