"""Every model and every metric on a page each."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from leaderboard.models import EntryCheck, LanguageModel, Metric, MetricVersion, ModelIdentity, Scoring, Work
from leaderboard.queries.lists import ModelFilters, list_models
from leaderboard.services.access import set_access
from leaderboard.services.publish import publish_standings
from tests.leaderboard.conftest import CAUSAL, seed_figures
from tests.leaderboard.test_history import page

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


def names(html: str) -> list[str]:
    return re.findall(r'name="m" value="[^"]+" aria-label="Compare ([^"]+)"', html)


@pytest.mark.slow
def test_models_are_listed_narrowed_and_sorted(client, db):
    seed_figures()
    assert "DistilGPT-2" in names(page(client, "/models/?q=distil"))
    masked = names(page(client, "/models/?kind=masked&family=BERT"))
    assert masked
    assert set(masked) == set(LanguageModel.objects.filter(kind="masked", family="BERT").values_list("name", flat=True))
    largest = names(page(client, "/models/?sort=-parameters"))[0]
    assert largest == "TNLG v2 (530B)"
    assert "No model here is like that" in page(client, "/models/?q=nothing-is-called-so")
    assert client.get("/models/?size=enormous").status_code == 404


def test_hidden_models_are_left_out(client, db):
    seed_figures()
    LanguageModel.objects.filter(name="DistilGPT-2").update(hidden_note="a test")
    assert "DistilGPT-2" not in names(page(client, "/models/?q=distil"))


@pytest.mark.slow
def test_ticked_models_are_compared_by_the_entries_that_one_metric_has_of_them(client, db):
    seed_figures()
    assert client.get("/compare/?m=hosseini-2023-gpt-2&m=hosseini-2023-gpt-2-xl").status_code == 200
    html = page(client, "/compare/?m=gpt-2&m=ctrl&metric=rtp-perspective")
    assert "/models/gehman-2020-gpt2/" in html
    assert "/models/gehman-2020-ctrl/" in html
    assert "/models/hosseini-2023-gpt-2/" in page(client, "/compare/?m=gpt-2&m=gpt-2-xl&metric=safety-toxigen")
    assert client.get("/compare/?m=zebra").status_code == 404


def test_a_model_of_several_sources_is_one_row_with_what_is_known_of_it(client, db):
    seed_figures()
    html = page(client, "/models/?q=gpt2")
    assert names(html).count("GPT-2") == 1
    row = re.search(r'<tr>(?:(?!</tr>).)*href="/models/gpt-2/".*?</tr>', html, re.S)[0]
    cells = [" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in re.findall(r"<td.*?</td>", row, re.S)]
    assert cells[1:] == ["OpenAI", "GPT-2", "Causal", "124M", "Modified MIT", "4", "7"]
    assert names(page(client, "/models/?q=together_ul2")) == ["UL2 (20B)"]
    assert 'aria-sort="descending"' in page(client, "/models/?sort=-parameters")


@pytest.mark.slow
def test_models_are_listed_in_each_order_with_those_of_unknown_size_last(client, db):
    seed_figures()
    for sort, column in (("parameters", "size"), ("-parameters", "size"), ("-metrics", "metric_count")):
        values = [row[column] for row in list_models(ModelFilters(), sort)]
        known_values = [value for value in values if value is not None]
        assert known_values == sorted(known_values, reverse=sort.startswith("-"))
        assert values[len(known_values) :] == [None] * (len(values) - len(known_values))
        assert re.search(rf'<option value="{sort}"\s+selected', page(client, f"/models/?sort={sort}"))


def test_a_metric_counts_once_it_has_numbers_of_a_model(board):
    assert list_models(ModelFilters(q=CAUSAL), "name").get()["metric_count"] == 1
    Scoring.objects.filter(model__slug=CAUSAL).update(state=Work.State.FAILED, reason="It ran out of memory.")
    assert list_models(ModelFilters(q=CAUSAL), "name").get()["metric_count"] == 0


def cells_of(html: str, address: str) -> list[str]:
    """The cells of the row that leads to `address`, as text."""
    row = next(row for row in re.findall(r"<tr>.*?</tr>", html, re.S) if f'href="{address}"' in row)
    return [" ".join(re.sub("<[^>]+>", "", cell).split()) for cell in re.findall(r"<td.*?</td>", row, re.S)]


def test_a_version_that_readers_do_not_see_counts_for_no_model(client, board):
    assert cells_of(page(client, f"/models/?q={CAUSAL}"), f"/models/{CAUSAL}/")[-1] == "1"
    identity = ModelIdentity.objects.create(slug="causal", name="Causal")
    LanguageModel.objects.filter(slug=CAUSAL).update(identity=identity)
    assert cells_of(page(client, f"/models/?q={CAUSAL}"), "/models/causal/")[-1] == "1"
    MetricVersion.objects.filter(metric=board).update(status="superseded")
    assert cells_of(page(client, f"/models/?q={CAUSAL}"), "/models/causal/")[-1] == "0"
    assert "No entry of this model has numbers under a current version" in page(client, "/models/causal/")
    LanguageModel.objects.filter(slug=CAUSAL).update(identity=None)
    assert cells_of(page(client, f"/models/?q={CAUSAL}"), f"/models/{CAUSAL}/")[-1] == "1"
    MetricVersion.objects.filter(metric=board).update(status="candidate", published_at=None)
    assert cells_of(page(client, f"/models/?q={CAUSAL}"), f"/models/{CAUSAL}/")[-1] == "0"


def test_models_of_a_metric_are_as_many_as_its_ranking_has(client, board):
    address = f"/rankings/?metric={board.slug}"

    def count_models() -> tuple[int, int]:
        own_ranking = page(client, address).split('<section class="ranking"')[1]  # figures of another metric follow
        links = re.findall(r'<th scope="row"><a [^>]*href="/models/', own_ranking)
        return int(cells_of(page(client, "/metrics/"), address)[1]), len(links)

    count = board.current_version().scorings.count()
    assert count_models() == (count, count)
    first, second, third = board.current_version().scorings.order_by("pk")[:3]
    set_access(first.model, "withdrawn", "asked for")
    assert count_models() == (count - 1, count - 1)
    EntryCheck.objects.create(scoring=second, state="held", flags=[{"key": "x", "words": "odd"}])
    publish_standings(board.current_version())
    assert count_models() == (count - 2, count - 2)
    MetricVersion.objects.update(most_missing=0.05)
    Scoring.objects.filter(pk=third.pk).update(texts=100, texts_missing=60)
    publish_standings(board.current_version())
    assert "Not ranked" in page(client, address)
    assert count_models() == (count - 2, count - 2)


def test_the_lists_take_as_many_queries_for_any_number_of_models(client, board):
    def count_queries(address: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, address)
        return len(queries)

    counts = {address: count_queries(address) for address in ("/models/", "/metrics/")}
    LanguageModel.objects.bulk_create(
        LanguageModel(slug=f"copy-{number}", name=f"Copy {number}", kind="masked", source="published")
        for number in range(30)
    )
    for address, count in counts.items():
        assert count_queries(address) == count <= 15


def test_every_metric_is_listed_and_those_without_numbers_come_last(client, board):
    html = page(client, "/metrics/")
    first, last = html.split('id="unfilled-title"')
    assert board.title in first
    for metric in Metric.objects.all():
        assert escape(metric.title) in html
    assert "Stereotypes in CrowS-Pairs" in last
