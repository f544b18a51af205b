"""Sentences that were retired stay away, and a word has one meaning wherever it is explained."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from leaderboard.glossary import GLOSSARY, TERMS
from leaderboard.queries.drift import Condition
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

ROOT = Path(settings.BASE_DIR)
RETIRED = (
    *("ranked by representational harm, on scores", "watched for drift", "kind by itself", "not excluded"),
    *("cannot exclude", "keep back your one", "nobody's many", "drifted and put right", "put right"),
)
FOLDERS = ("templates", "leaderboard", "scoring", "static", "deploy")
FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SUFFIXES = (".html", ".txt", ".py", ".toml", ".js", ".md", ".svg", ".xml")
PAGES = (
    *("/", "/rankings/", "/models/", "/metrics/", "/history/", "/demographics/", "/compare/", "/agreement/", "/drift/"),
    *("/published/", "/about/", "/docs/", "/docs/glossary/", "/docs/metrics/", "/docs/operating/", "/api/"),
)
CONNECTED = re.compile(r"[\s\"']+")  # lines of a sentence, in a template or in adjacent strings of a program


@pytest.fixture
def fresh_board(db: None) -> None:
    """A board with the figures of papers, before anything is measured."""
    seed_figures()


def read_sources() -> dict[str, str]:
    """Each file that people read or that makes what they read, as one line without quotation marks."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    paths += [ROOT / name for name in FILES]
    return {str(path.relative_to(ROOT)): CONNECTED.sub(" ", path.read_text(encoding="utf-8")).lower() for path in paths}


@pytest.mark.slow
def test_retired_sentences_are_in_no_source():
    sources = read_sources()
    assert len(sources) > 500
    for phrase in RETIRED:
        plain = CONNECTED.sub(" ", phrase).lower()
        assert [name for name, text in sources.items() if plain in text and "/migrations/" not in name] == [], phrase


@pytest.mark.slow
def test_retired_sentences_are_on_no_page_of_a_fresh_board(client, fresh_board):
    for address in PAGES:
        text = said(page(client, address)).lower()
        for phrase in RETIRED:
            assert phrase not in text, (address, phrase)


@pytest.mark.slow_cases
@pytest.mark.parametrize("address", ["/models/unheard-of/", "/metrics/unheard-of/", "/rankings/?metric=unheard-of"])
def test_an_address_that_leads_nowhere_names_no_class(client, fresh_board, address):
    response = client.get(address)
    assert response.status_code == 404
    assert not re.search(r"No \w+ matches", said(response.content.decode()))


def test_the_states_of_a_scorer_are_words_of_the_glossary():
    for condition in Condition:
        assert TERMS[condition.key].name == condition.label


def test_meanings_are_sentences_and_no_word_is_declared_twice():
    terms = [term for group in GLOSSARY for term in group.terms]
    assert len({term.key for term in terms}) == len({term.name.lower() for term in terms}) == len(terms)
    for term in terms:
        assert re.fullmatch(r"[A-Z“].*\.", term.meaning), term.key


@pytest.mark.slow
def test_the_reading_notes_and_the_drift_page_explain_words_as_the_glossary_does(client, fresh_board):
    notes = said(page(client, "/rankings/?metric=safety-starter"))
    for key in ("rank-range", "interval", "not-significant", "kind", "indifferent-value"):
        assert TERMS[key].meaning in notes
        assert f'href="/docs/glossary/#{key}"' in page(client, "/rankings/?metric=safety-starter")
    states = said(page(client, "/drift/"))
    for condition in Condition:
        assert TERMS[condition.key].meaning in states
