"""Finding things: one box, results by kind, and suggestions where an address leads nowhere."""

import xml.etree.ElementTree as ElementTree

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, SearchPage
from leaderboard.queries.search import search
from leaderboard.queries.search_entries import EntryKind, split_words
from leaderboard.queries.search_index import compare_grams, find_similar, list_grams, refresh_index
from leaderboard.services.access import hide_model, set_access
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def figures_of_papers(db: None) -> None:
    seed_figures()


def test_the_exact_name_of_one_page_leads_straight_to_it(client):
    answer = client.get("/search/?q=gpt-2")
    assert answer.status_code == 302
    assert answer["Location"] == "/models/gpt-2/"
    assert client.get("/search/?q=women")["Location"] == "/demographics/women/"
    assert client.get(client.get("/search/?q=women")["Location"]).status_code == 200


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("query", "kind", "address"),
    [
        ("misogyny", EntryKind.METRIC, "/rankings/?metric=rtp-lexicon-farrell"),
        ("Perspective", EntryKind.METRIC, "/metrics/toxicity-perspective/"),
        ("HELM", EntryKind.METRIC, "/rankings/?metric=rtp-helm-perspective"),
    ],
)
def test_the_first_result_is_the_page_that_is_meant(client, query, kind, address):
    found_kind, entries = search(query).groups[0]
    assert found_kind is kind
    assert entries[0].address == address
    assert client.get(address).status_code == 200


@pytest.mark.slow
def test_every_result_of_a_wide_search_leads_to_a_page(client):
    addresses = {entry.address for _, entries in search("a").groups for entry in entries}
    assert len(addresses) > 20
    for address in addresses:
        assert client.get(address.partition("#")[0]).status_code == 200, address


def test_names_are_alike_by_three_characters_in_a_row_with_bars_for_blanks_and_both_ends():
    assert list_grams("xl b") == {"_xl", "xl_", "l_b", "_b_"}
    assert compare_grams(list_grams("bert"), "BERT") == 1
    assert compare_grams(list_grams("bert"), "berth") == 3 / 6


def test_a_word_misspelt_is_answered_with_what_is_like_it(client):
    html = page(client, "/search/?q=distilbret base cased")
    assert "Did you mean" in html
    assert "DistilBERT-base-cased" in html


def test_an_address_that_leads_nowhere_names_pages_like_it(client):
    answer = client.get("/models/gpt-22/")
    assert answer.status_code == 404
    html = answer.content.decode()
    assert "Did you mean" in html
    assert "/models/gpt-2/" in html
    assert "No LanguageModel matches" not in html


@pytest.mark.slow
def test_hidden_models_are_not_found():
    assert search("DistilGPT-2").direct is not None
    for model in LanguageModel.objects.filter(name="DistilGPT-2"):
        hide_model(model, "a test")
    assert search("DistilGPT-2").direct is None
    assert "/models/gpt-1/" in str(search("GPT-1").groups)
    set_access(LanguageModel.objects.get(slug="gehman-2020-gpt1"), "withdrawn", "a test")
    assert "/models/gpt-1/" not in str(search("GPT-1").groups)


@pytest.mark.slow_cases
@pytest.mark.parametrize("query", ["", " ", "<script>alert(1)</script>", "%00", "ﷺ" * 400, "a" * 1000, "' OR 1=1 --"])
def test_odd_words_are_answered_politely_and_escaped(client, query):
    answer = client.get("/search/", {"q": query})
    assert answer.status_code == 200
    assert b"<script>alert" not in answer.content


def test_case_accents_and_signs_make_no_difference():
    assert split_words("GPT‑2, Émile") == split_words("gpt 2 emile") == ["gpt", "2", "emile"]


@pytest.mark.slow
def test_a_search_takes_as_many_queries_for_any_number_of_models(client):
    def count_queries(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, f"/search/?q={query}")
        return len(queries)

    count_queries("bert")
    count = count_queries("bert")
    LanguageModel.objects.bulk_create(
        LanguageModel(slug=f"bert-{number}", name=f"BERT copy {number}", kind="masked", source="published")
        for number in range(30)
    )
    many = count_queries("bert")  # which makes the index again
    assert count_queries("bert") == count <= 12
    LanguageModel.objects.bulk_create(
        LanguageModel(slug=f"bart-{number}", name=f"BART copy {number}", kind="masked", source="published")
        for number in range(90)
    )
    assert count_queries("bert") == many <= 40


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("gpt2", "/models/gpt-2/"),
        ("GPT-2 small", "/models/gpt-2/"),
        ("openai-community/gpt2", "/models/gpt-2/"),
        ("together_ul2,stop=hash,global_prefix=nlg", "/models/ul2-20b/"),
        ("Women", "/demographics/women/"),
        ("mental dis", "/demographics/mental%20dis/"),
        ("t5-11b", "/models/t5-11b/"),
    ],
)
def test_a_name_in_any_spelling_of_a_source_leads_straight_to_its_page(client, query, address):
    assert client.get("/search/", {"q": query})["Location"] == address


def test_exact_names_come_before_beginnings_before_words_and_misspelt_ones_are_suggested():
    titles = [entry.title for _, entries in search("GPT-3").groups for entry in entries if "/models/" in entry.address]
    assert titles[0] == "GPT-3 davinci", "which papers call GPT3"
    assert {"GPT-3 ada", "GPT-3 curie"} <= set(titles)
    assert search("open").groups[0][1], "the beginning of a word"
    assert next(entry.title for entry in search("robetra large").suggestions) == "RoBERTa-large"
    assert search("qqqqqqqqq").suggestions == []
    assert [entry.address for entry in find_similar(["perspectiv"], 3)]


def test_the_index_is_made_again_when_the_board_changes_and_only_then(client):
    assert refresh_index()
    assert not refresh_index()
    pages = dict(SearchPage.objects.values_list("address", "pk"))
    LanguageModel.objects.create(slug="zebra-1", name="Zebra", kind="causal", source="published")
    assert client.get("/search/?q=zebra")["Location"] == "/models/zebra-1/"
    kept = dict(SearchPage.objects.values_list("address", "pk"))
    assert {address: kept[address] for address in pages} == pages, "what did not change is not written"


@pytest.mark.slow
def test_the_sitemap_names_pages_that_answer_and_robots_points_to_it(client):
    root = ElementTree.fromstring(client.get("/sitemap.xml").content)  # noqa: S314 (our own)
    addresses = [element.text for element in root.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert "http://testserver/models/hosseini-2023-gpt-2/" in addresses
    for address in [*addresses[:25], *addresses[-3:]]:
        assert client.get(address.removeprefix("http://testserver")).status_code == 200, address
    robots = client.get("/robots.txt").content.decode()
    assert "Sitemap: http://testserver/sitemap.xml" in robots
    assert "Disallow: /operate/" in robots
