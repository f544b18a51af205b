"""What a hub answers: read within limits, redirects followed to where they may lead, errors as what they mean."""

import json
from collections.abc import Callable

import httpx2
import pytest

from scoring.language_models import HubBusy, HubUnavailable, hub_client
from scoring.language_models.hub_client import HubClient, file_path

HUB = "https://hub.example"


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> HubClient:
    hub = HubClient(HUB, "secret", 10.0)
    object.__setattr__(hub, "client", httpx2.Client(transport=httpx2.MockTransport(answer)))
    return hub


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "answers with what is no JSON"),
        (b"[" * 10**5, "answers with what is no JSON"),
        (b"[]", "answers with JSON that is no object"),
        (b'{"a": "' + b"x" * 100 + b'"}', "answers with more than 100 bytes of metadata"),
    ],
    ids=lambda cell: str(cell)[:20],
)
def test_metadata_are_a_json_object_within_limits(content, words, monkeypatch):
    monkeypatch.setattr(hub_client, "MOST_METADATA_BYTES", 10**6 if content[:1] == b"[" else 100)
    with pytest.raises(HubUnavailable, match=f"{HUB} {words}"):
        client(lambda _request: httpx2.Response(200, content=content)).read_json("/a")
    whole = json.dumps({"a": "x" * 91}).encode()
    assert client(lambda _request: httpx2.Response(200, content=whole)).read_json("/a") == {"a": "x" * 91}


def test_redirects_are_followed_on_the_hub_with_the_token_up_to_five_times():
    requests: list[tuple[str, str]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append((request.url.path, request.headers.get("authorization", "")))
        place = int(request.url.path[1:])
        return (
            httpx2.Response(302, headers={"location": f"/{place - 1}"})
            if place
            else httpx2.Response(200, json={"a": 1})
        )

    assert client(answer).read_json("/5") == {"a": 1}
    assert requests == [(f"/{place}", "Bearer secret") for place in (5, 4, 3, 2, 1, 0)]
    with pytest.raises(HubUnavailable, match=f"{HUB} redirects more than 5 times"):
        client(answer).read_json("/6")


def test_a_redirect_leads_to_public_addresses_by_https_alone_and_takes_no_token_there():
    def leading_to(location: str) -> tuple[HubClient, list[httpx2.Request]]:
        requests: list[httpx2.Request] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            requests.append(request)
            first = len(requests) == 1
            return httpx2.Response(302, headers={"location": location}) if first else httpx2.Response(200, json={})

        return client(answer), requests

    hub, requests = leading_to("https://8.8.8.8/file")
    assert hub.read_json("/a") == {}
    assert ["authorization" in request.headers for request in requests] == [True, False]
    assert {request.headers["accept-encoding"] for request in requests} == {"identity"}
    for place in (
        "http://8.8.8.8/a",
        "https://127.0.0.1/a",
        "https://10.0.0.1/a",
        "ftp://8.8.8.8/a",
        "https://[::1]/a",
    ):
        hub, requests = leading_to(place)
        with pytest.raises(HubUnavailable, match=f"{HUB} redirects to an address that is not public"):
            hub.read_json("/a")
        assert len(requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_that_asks_to_wait_is_busy_for_so_long(status):
    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"retry-after": "17"})

    with pytest.raises(HubBusy, match=rf"hub\.example answered with status {status} and asks to wait 17 s") as busy:
        client(answer).read_json("/a")
    assert busy.value.seconds == 17


@pytest.mark.parametrize("answer", [httpx2.Response(503), httpx2.Response(500, headers={"retry-after": "17"})], ids=str)
def test_other_faults_of_a_hub_are_those_of_its_library(answer):
    with pytest.raises(Exception, match=str(answer.status_code)) as raised:
        client(lambda _request: answer).read_json("/a")
    assert not isinstance(raised.value, HubBusy)


def test_an_error_is_told_by_the_headers_of_the_hub():
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"x-error-code": "RepoNotFound", "x-error-message": "no such place", "content-encoding": "br"}
        return httpx2.Response(404, headers=headers, stream=httpx2.ByteStream(b"no"), request=request)

    with pytest.raises(Exception, match=r"no such place|Repository Not Found") as raised:
        client(answer).read_json("/a")
    assert type(raised.value).__name__ == "RepositoryNotFoundError"


def test_names_of_files_are_escaped_and_lie_in_their_folders():
    assert file_path("org/a name", "refs/pr/1", "b c/d#.json") == "/org/a%20name/resolve/refs%2Fpr%2F1/b%20c/d%23.json"
