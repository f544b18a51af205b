"""Badges: where a model stands now, as a picture that anyone can read and nothing can break."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from leaderboard.models import LanguageModel, Metric, Standing
from leaderboard.services.access import set_access
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL

pytestmark = [pytest.mark.django_db, pytest.mark.either_database, pytest.mark.usefixtures("lasting_board")]

SVG = "{http://www.w3.org/2000/svg}"


def badge(client, path: str, status: int = 200) -> tuple[str, list[str]]:
    """The title of a badge, and its texts."""
    answer = client.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (status, "image/svg+xml")
    root = ElementTree.fromstring(answer.content)  # noqa: S314 (it is ours)
    assert root.get("role") == "img"
    title = root.find(f"{SVG}title")
    assert root.get("aria-labelledby") == title.get("id")
    return title.text, [of.text for of in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", [CAUSAL, OTHER_CAUSAL, MASKED])
def test_a_badge_has_the_rank_and_the_version_of_now(client, board, name):
    model = LanguageModel.objects.get(name=name)
    standing = Standing.objects.get(model=model, measure="likelihood_auc", slice="average", population=model.kind)
    among = 2 if model.kind == "causal" else 1
    title, (label, said) = badge(client, f"/badges/{model.slug}/safety-starter.svg")
    assert label == board.title
    words = f"rank {standing.rank} of {among} {model.kind} model{'s' if among > 1 else ''}"
    assert said == f"{words} · v1"
    assert f"{name} has {words} by " in title
    value = badge(client, f"/badges/{model.slug}/safety-starter.svg?show=value")[1][1]
    assert value == f"likelihood auc {standing.value:.3f} · v1"


def test_published_figures_have_badges_as_their_source_ranks_them(client, board):
    title, (_, said) = badge(client, "/badges/hosseini-2023-gpt-2/safety-toxigen.svg")
    standing = Standing.objects.get(
        model__slug="hosseini-2023-gpt-2", measure="likelihood_auc", slice="average", population="causal"
    )
    assert f"rank {standing.rank} of " in said
    assert "GPT-2" in title


def test_who_is_unknown_or_not_ranked_has_a_badge_that_says_so(client, board):
    assert badge(client, "/badges/nobody/safety-starter.svg", 404)[1][1] == "no such model"
    assert badge(client, f"/badges/{CAUSAL}/nonsense.svg", 404)[1][1] == "no such metric"
    assert badge(client, f"/badges/{CAUSAL}/safety-toxigen.svg")[1][1] == "not ranked"
    set_access(LanguageModel.objects.get(slug=CAUSAL), "withdrawn", "asked for")
    assert badge(client, f"/badges/{CAUSAL}/safety-starter.svg")[1][1] == "not ranked"
    assert client.get(f"/badges/{CAUSAL}/safety-starter.svg?show=all").status_code == 404


def test_a_badge_is_not_sent_again_until_the_board_changes(client, board):
    path = f"/badges/{OTHER_CAUSAL}/safety-starter.svg"
    etag = client.get(path)["ETag"]
    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304
    set_access(LanguageModel.objects.get(slug=CAUSAL), "withdrawn", "asked for")
    answer = client.get(path, headers={"If-None-Match": etag})
    assert answer.status_code == 200
    assert b"rank 1 of 1" in answer.content
    assert not answer.cookies


def test_names_are_words_not_markup(client, board):
    Metric.objects.filter(pk=board.pk).update(title="<script>&\x01" + "x" * 180)
    title, (label, _) = badge(client, f"/badges/{CAUSAL}/safety-starter.svg")
    assert label.startswith("<script>&x")
    assert len(label) <= 60
    assert "\x01" not in title


def test_the_page_of_a_model_has_its_badge_to_copy(client, board):
    LanguageModel.objects.filter(slug=CAUSAL).update(name="A [model] <b>")
    html = client.get(f"/models/{CAUSAL}/").content.decode()
    markdown = unescape(re.search(r'<pre id="badge-markdown-[^"]*"[^>]*>(.*?)</pre>', html)[1])
    path = f"http://testserver/badges/{CAUSAL}/safety-starter.svg"
    assert markdown.endswith(f"]({path})](http://testserver/models/{CAUSAL}/)")
    assert r"A \[model\] \<b\>" in markdown
    snippet = unescape(re.search(r'<pre id="badge-html-[^"]*"[^>]*>(.*?)</pre>', html)[1])
    picture = ElementTree.fromstring(snippet.replace('height="22">', 'height="22"/>')).find("img")  # noqa: S314
    assert picture.get("src") == path
    assert "A [model] <b>" in picture.get("alt")
    assert f'<img src="/badges/{CAUSAL}/safety-starter.svg"' in html
