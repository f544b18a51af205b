"""Feeds: valid Atom about what is news, whose entries stay as they are."""

import re
from datetime import datetime
from html import unescape
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    ControlCheck,
    ControlSet,
    EntryCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    Scoring,
)
from leaderboard.rankings.changes import record_of
from leaderboard.services.access import set_access
from leaderboard.services.audit import record
from leaderboard.services.seed import seed_metrics
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_api import FIRST, SECOND
from tests.pages import read_page

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

ATOM = "{http://www.w3.org/2005/Atom}"
ALL = ["/feeds/rank-changes.atom", "/feeds/models.atom", "/feeds/drift.atom"]


@pytest.fixture
def rude(db: None) -> Metric:
    """Two versions of a metric, the second opened by a drift, and an entry on record."""
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    first, second = version_of(metric, "one"), version_of(metric, "two")
    score_all(first, runs, FIRST)
    kept = Artefact.objects.first()
    control = ControlSet.objects.create(metric_version=first, items=kept, reference=kept, fingerprint="0" * 64)
    check = ControlCheck.objects.create(
        metric=metric,
        control_set=control,
        trigger="schedule",
        state="done",
        verdict="drifted",
        artefact=kept,
        finished_at=timezone.now(),
        statistics={"decided_by": "7 labels < flipped"},
    )
    MetricVersion.objects.filter(pk=second.pk).update(opened_because=check)
    score_all(second, runs, SECOND)
    record("add entry", "metric rude", {"model": "alder", "version": 2})
    return metric


def feed(client, path: str) -> ElementTree.Element:
    """A feed that has all that RFC 4287 asks for."""
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/atom+xml; charset=utf-8"
    root = ElementTree.fromstring(answer.content)  # noqa: S314 (it is ours)
    assert root.tag == f"{ATOM}feed"
    links = {of.get("rel"): of.get("href") for of in root.findall(f"{ATOM}link")}
    assert links["self"] == f"http://testserver{path}"
    assert client.get(links["alternate"]).status_code == 200
    ids = [of.text for of in root.iter(f"{ATOM}id")]
    assert len(set(ids)) == len(ids)
    assert root.find(f"{ATOM}author/{ATOM}name").text == "Plumbline"
    for element in (root, *entries(root)):
        assert element.find(f"{ATOM}id").text.startswith("http://testserver/")
        assert element.find(f"{ATOM}title").text
        assert datetime.fromisoformat(element.find(f"{ATOM}updated").text).tzinfo
    newest = max((said(of, "updated") for of in entries(root)), default=None)
    assert newest is None or root.find(f"{ATOM}updated").text == newest
    return root


def entries(root: ElementTree.Element) -> list[ElementTree.Element]:
    return root.findall(f"{ATOM}entry")


def said(entry: ElementTree.Element, name: str) -> str:
    return read_page(entry.find(f"{ATOM}{name}").text)


@pytest.mark.slow_cases
@pytest.mark.parametrize("path", [*ALL, "/feeds/rank-changes/rude.atom", "/feeds/drift/rude.atom"])
def test_a_feed_is_valid_its_links_lead_somewhere_and_it_is_the_same_the_next_time(client, rude, path):
    root = feed(client, path)
    assert entries(root)
    for entry in entries(root):
        assert client.get(entry.find(f"{ATOM}link").get("href")).status_code == 200
    assert client.get(path).content == client.get(path).content
    etag = client.get(path)["ETag"]
    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize("number", [1, 9])
def test_links_of_feeds_lead_to_pages_whatever_became_of_the_versions_that_were_news(client, rude, number):
    MetricVersion.objects.filter(metric=rude).update(provenance="published", source="a paper")
    MetricVersion.objects.filter(metric=rude).exclude(number=2).update(status="superseded")
    record("add entry", "metric rude", {"model": "birch", "version": number})
    runs = list(rude.protocol.runs.all())
    for made_with, scorer in (("three", FIRST), ("four", SECOND)):
        score_all(version_of(rude, made_with), runs, scorer)
    items = entries(feed(client, "/feeds/rank-changes/rude.atom"))
    titles = [said(item, "title") for item in items]
    assert [title.rpartition("version ")[2] for title in titles if "ranks changed" in title] == ["3 to 4", "1 to 2"]
    for item in items:
        page = client.get(item.find(f"{ATOM}link").get("href"))
        assert page.status_code == 200, said(item, "title")
        for picture in re.findall(r'<img src="([^"]*)"', item.find(f"{ATOM}summary").text):
            assert client.get(unescape(picture)).status_code == 200


@pytest.mark.parametrize("path", ALL)
def test_a_feed_of_an_empty_board_is_valid_and_empty(client, db, path):
    seed_metrics()
    assert entries(feed(client, path)) == []


@pytest.mark.slow
def test_a_new_version_is_news_with_the_ranks_that_it_changed(client, rude):
    published = next(of for of in entries(feed(client, ALL[0])) if "ranks changed" in said(of, "title"))
    changes = record_of(rude).changes
    assert said(published, "title") == f"Rude: {changes.changed_ranks} of 4 ranks changed, version 1 to 2"
    assert said(published, "id") == "http://testserver/history/?metric=rude&from=1&to=2"
    for model in changes.models:
        line = f"{model.model}: {model.to_board_rank} of 4 models, formerly {model.from_board_rank} of 4 models"
        assert (line in said(published, "summary")) == bool(model.change)


@pytest.mark.slow
def test_a_new_version_comes_with_its_bump_chart_as_a_picture(client, rude, settings):
    entry = next(of for of in entries(feed(client, ALL[0])) if "ranks changed" in said(of, "title"))
    address = re.search(r'<img src="([^"]*)"', entry.find(f"{ATOM}summary").text)[1]
    assert address.startswith(f"{settings.SITE_URL}/history/?")
    picture = client.get(unescape(address).removeprefix(settings.SITE_URL))
    assert picture["Content-Type"] == "image/png"
    assert picture.content.startswith(b"\x89PNG")


@pytest.mark.slow
def test_published_figures_that_were_corrected_are_news_too(client, db):
    seed_figures()
    titles = [said(of, "title") for of in entries(feed(client, "/feeds/rank-changes/rtp-helm-perspective.atom"))]
    changes = record_of(Metric.objects.get(slug="rtp-helm-perspective")).changes
    assert any(f"{changes.changed_ranks} of 37 ranks changed" in of for of in titles)


@pytest.mark.slow
def test_an_entry_a_model_and_a_drift_are_news(client, rude):
    ranked = [said(of, "title") for of in entries(feed(client, ALL[0]))]
    assert "Rude: Alder is ranked" in ranked
    assert {said(of, "title") for of in entries(feed(client, ALL[1]))} == {"Alder", "Birch", "Cedar", "Damson"}
    (drift,) = entries(feed(client, ALL[2]))
    assert said(drift, "title") == "Rude: the scorer has drifted"
    assert "7 labels &lt; flipped Version 2 was opened" in said(drift, "summary")


@pytest.mark.slow
def test_feeds_of_a_metric_have_nothing_of_others(client, rude):
    seed_metrics()
    for kind in ("rank-changes", "drift"):
        assert entries(feed(client, f"/feeds/{kind}/toxicity-profanity.atom")) == []
    answer = client.get("/feeds/drift/nonsense.atom")
    assert answer.status_code == 404
    assert b"Known: " in answer.content


def test_names_are_words_not_markup_and_what_xml_cannot_hold_is_left_out(client, rude):
    LanguageModel.objects.filter(slug="alder").update(name="<b>Al\x01der</b>&", family="<i>", licence="\x0b]]>")
    root = feed(client, ALL[1])
    entry = next(of for of in entries(root) if "lder" in said(of, "title"))
    assert said(entry, "title") == "<b>Alder</b>&"
    assert "&lt;i&gt;" in said(entry, "summary")


@pytest.mark.slow
def test_a_withdrawn_model_is_no_news(client, rude):
    set_access(LanguageModel.objects.get(slug="alder"), "withdrawn", "asked for")
    assert all("Alder is" not in said(of, "title") for of in entries(feed(client, ALL[0])))
    assert "Alder" not in {said(of, "title") for of in entries(feed(client, ALL[1]))}


@pytest.mark.parametrize(
    "leave",
    [
        lambda entry: EntryCheck.objects.create(scoring=entry, state="held", flags=[{"key": "x", "words": "odd"}]),
        lambda entry: Scoring.objects.filter(pk=entry.pk).update(texts=100, texts_missing=60),
        lambda entry: MetricVersion.objects.filter(pk=entry.metric_version_id).update(
            status="candidate", published_at=None
        ),
    ],
    ids=["held back", "without most of its scores", "under a version to come"],
)
def test_an_entry_that_is_in_no_ranking_is_no_news(client, rude, leave):
    MetricVersion.objects.update(most_missing=0.05)
    entries_of_alder = Scoring.objects.filter(model__slug="alder")
    entries_of_alder.filter(metric_version__number=1).update(state="failed", reason="it broke")
    assert "Rude: Alder is ranked" in [said(item, "title") for item in entries(feed(client, ALL[0]))]
    leave(entries_of_alder.get(state="done"))
    assert "Rude: Alder is ranked" not in [said(item, "title") for item in entries(feed(client, ALL[0]))]


def test_pages_tell_of_the_feeds(client, rude):
    html = client.get("/rankings/?metric=rude").content.decode()
    for path in (*ALL, "/feeds/rank-changes/rude.atom"):
        assert f'href="{path}"' in html
    assert 'href="/feeds/drift/rude.atom"' in client.get("/metrics/rude/").content.decode()


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_news(client, rude):
    def queries() -> list[int]:
        counts = []
        for path in ALL:
            with CaptureQueriesContext(connection) as caught:
                client.get(path)
            counts.append(len(caught))
        return counts

    before = queries()
    other = metric_of("ruder", "profanity")
    runs = runs_on(other) if not rude.protocol.runs.exists() else list(rude.protocol.runs.all())
    for made_with, scorer in (("one", FIRST), ("two", SECOND), ("three", FIRST)):
        score_all(version_of(other, made_with), runs, scorer)
    record("add entry", "metric ruder", {"model": "alder", "version": 3})
    assert queries() == before
    assert max(before) <= 8
