"""A ranking in pages of others: the numbers of the page in a frame that can do nothing else, and oEmbed."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from leaderboard.models import LanguageModel
from tests.leaderboard.conftest import CAUSAL

pytestmark = [pytest.mark.django_db, pytest.mark.either_database, pytest.mark.usefixtures("lasting_board")]

ROW = re.compile(
    r'<td class="num rank">(\d+).*?target="_top" rel="noopener">(.*?)</a>.*?class="num value">([\d.]+)', re.S
)
VIEWS = [
    "metric=safety-starter",
    "metric=safety-starter&slice=women&kind=all&sort=-model",
    "metric=safety-toxigen&q=gpt&measure=safety_score",
]


@pytest.mark.slow_cases
@pytest.mark.parametrize("query", VIEWS)
def test_a_frame_has_the_rows_of_the_page_of_the_same_query(client, board, query):
    html = client.get(f"/embed/?{query}").content.decode()
    entries = client.get(f"/rankings.json?{query}&columns=none").json()["entries"]
    shown = [(int(rank), name) for rank, name, _ in ROW.findall(html)]
    assert shown == [(of["rank"], of["model"]) for of in entries]
    assert shown
    for (*_, value), of in zip(ROW.findall(html), entries, strict=True):
        assert float(value) == pytest.approx(of["value"], abs=5e-4)


@pytest.mark.slow
def test_a_frame_may_be_anywhere_and_has_no_cookie_form_or_script(client, board):
    answer = client.get("/embed/?metric=safety-starter")
    html = answer.content.decode()
    assert "X-Frame-Options" not in answer
    policy = answer["Content-Security-Policy"]
    assert "frame-ancestors *" in policy
    assert "default-src 'none'" in policy
    assert not answer.cookies
    assert not re.search(r"<(form|script|input|button|iframe)\b|style=|javascript:|\son\w+=", html)
    links = re.findall(r"<a [^>]+>", html)
    assert links
    assert all('target="_top" rel="noopener"' in link for link in links)
    assert html.count("<h1") == 1
    for path in ("/", "/history/", f"/models/{CAUSAL}/", "/api/"):
        assert client.get(path)["X-Frame-Options"] == "DENY"


def test_a_frame_is_the_same_for_who_is_signed_in_and_not_sent_again(client, board, admin_client):
    path = "/embed/?metric=safety-starter"
    first = client.get(path)
    assert admin_client.get(path).content == first.content
    again = admin_client.get(path, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert "X-Frame-Options" not in again


def test_a_frame_without_numbers_says_so(client, board):
    html = client.get("/embed/?metric=toxicity-profanity").content.decode()
    assert "No numbers here yet." in html
    assert client.get("/embed/?metric=nonsense").status_code == 404


@pytest.mark.slow
def test_the_page_has_a_frame_to_copy_and_names_where_programs_find_it(client, board):
    LanguageModel.objects.filter(slug=CAUSAL).update(family='Fa"m')
    html = client.get("/rankings/", {"metric": "safety-starter", "family": 'Fa"m'}).content.decode()
    snippet = unescape(re.search(r'<pre id="embed-[^"]*"[^>]*>(.*?)</pre>', html)[1])
    address = unescape(re.search(r'src="([^"]+)"', snippet)[1])
    assert address.startswith("http://testserver/embed/?metric=safety-starter&")
    assert [name for _, name, _ in ROW.findall(client.get(address).content.decode())] == [CAUSAL]
    discovered = unescape(
        re.search(r'<link rel="alternate" type="application/json\+oembed"[^>]*href="([^"]+)"', html)[1]
    )
    assert (
        CAUSAL
        in client.get(unescape(re.search(r'src="([^"]+)"', client.get(discovered).json()["html"])[1])).content.decode()
    )


@pytest.mark.parametrize("format_", ["json", "xml"])
def test_oembed_answers_as_its_specification_asks(client, board, format_):
    url = "http://testserver/?metric=safety-starter&kind=all"
    answer = client.get("/oembed", {"url": url, "format": format_, "maxwidth": "400", "maxheight": "9999"})
    if format_ == "json":
        found = answer.json()
    else:
        root = ElementTree.fromstring(answer.content)  # noqa: S314 (it is ours)
        assert root.tag == "oembed"
        found = {of.tag: of.text for of in root}
    assert answer["Content-Type"].startswith("application/json" if format_ == "json" else "text/xml")
    assert (found["version"], found["type"]) == ("1.0", "rich")
    assert (int(found["width"]), int(found["height"])) == (400, 480)
    assert found["title"].startswith(board.title)
    assert 'width="400" height="480"' in found["html"]
    frame = unescape(re.search(r'src="([^"]+)"', found["html"])[1])
    assert client.get(frame).status_code == 200


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 404),
        ({"url": "http://elsewhere.example/?metric=safety-starter"}, 404),
        ({"url": "http://testserver/about/"}, 404),
        ({"url": "http://testserver/?metric=nonsense"}, 404),
        ({"url": "http://[::1"}, 404),
        ({"url": "http://testserver/rankings/?metric=safety-starter&slice=%00"}, 404),
        ({"url": "http://testserver/", "maxwidth": "wide"}, 404),
        ({"url": "http://testserver/", "maxwidth": "20"}, 404),
        ({"url": "http://testserver/", "format": "yaml"}, 501),
    ],
)
def test_what_oembed_cannot_show_is_said(client, board, asked, status):
    assert client.get("/oembed", asked).status_code == status
