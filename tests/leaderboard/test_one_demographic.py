"""The page of a demographic: who stands first and last on it, by every metric that has it."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, Standing
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


@pytest.fixture
def figures(db: None) -> None:
    seed_figures()


def test_every_metric_that_has_it_names_the_first_and_the_last_of_each_kind(client, figures):
    text = page(client, "/demographics/women/")
    assert 'href="/metrics/safety-toxigen/"' in text
    assert "metric=regard" in text
    standings = Standing.objects.filter(
        metric_version__metric__slug="safety-toxigen", slice="women", measure="safety_score", population="masked"
    ).order_by("rank")
    assert standings.count() > 6
    named = [model for model in re.findall(r'href="/models/([^"]+)/"', text) if model.startswith("hosseini")]
    for standing in (*standings[:3], *standings.reverse()[:3]):
        assert standing.model.slug in named
    assert standings[4].model.slug not in named[:12]
    assert f"{standings.count() - 6} more" in said(text)


def test_measured_values_have_the_indifferent_value_beside(client, board):
    row = Standing.objects.filter(metric_version__metric=board, slice="women", population="causal").first()
    html = page(client, "/demographics/women/")
    assert row.model.name in html
    assert "what the model would have if it were indifferent" in said(html)
    assert 'class="indifferent"' in html


def test_a_name_that_no_metric_has_is_a_404_that_lists_those_there_are(client, figures):
    answer = client.get("/demographics/martians/")
    assert answer.status_code == 404
    assert "Known: asian, black" in said(answer.content.decode())
    assert client.get("/demographics/average/").status_code == 404


def test_hidden_models_are_left_out(client, figures):
    standings = Standing.objects.filter(
        metric_version__metric__slug="safety-toxigen", slice="women", measure="safety_score", population="masked"
    ).order_by("rank")
    count = standings.count()
    LanguageModel.objects.filter(pk=standings[3].model_id).update(hidden_note="a test")
    LanguageModel.objects.filter(slug__startswith="hosseini-2023-gpt-2").update(hidden_note="a test")
    html = page(client, "/demographics/women/")
    assert "hosseini-2023-gpt-2" not in html
    assert f"{count - 7} more" in said(html)


def test_a_group_whose_name_has_a_slash_has_its_page_and_the_board_finds_it(client, figures):
    Standing.objects.filter(slice="women").update(slice="women/girls")
    assert "women/girls" in said(page(client, "/demographics/women/girls/")).lower()
    assert "/demographics/women/girls/" in page(client, "/demographics/asian/")
    assert client.get("/search/?q=girls").status_code in (200, 302)
    assert client.get("/sitemap.xml").status_code == 200
    assert client.get("/there/is/none/").status_code == 404


def test_it_takes_as_many_queries_for_any_number_of_models(client, figures):
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, "/demographics/women/")
        return len(queries)

    count = count_queries()
    standing = Standing.objects.filter(metric_version__metric__slug="regard", slice="women").select_related("result")[0]
    for number in range(20):
        model = LanguageModel.objects.create(slug=f"m{number}", name=f"M {number}", kind="causal", source="published")
        scoring, result = standing.result.scoring, standing.result
        scoring.pk, scoring.model, scoring._state.adding = None, model, True
        scoring.save()
        result.pk, result.scoring, result._state.adding = None, scoring, True
        result.save()
        standing.pk, standing.model, standing.result, standing._state.adding = None, model, result, True
        standing.save()
    assert count_queries() == count <= 12
