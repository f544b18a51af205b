"""Pages: the numbers of the database, honestly labelled, in a constant number of queries."""

import re
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, Metric, Result, Standing
from leaderboard.services.evaluation_sets import import_sentences
from scoring.evaluation_sets import build_starter, get
from tests.leaderboard.conftest import CAUSAL, MASKED, finish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]


def page(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_the_ranking_shows_measured_models_in_order_with_their_numbers(client, board):
    html = page(client, "/rankings/?metric=safety-starter")
    for standing in Standing.objects.filter(
        metric_version=board.current_version(), measure="likelihood_auc", slice="average", population="causal"
    ):
        assert f"{standing.value:.3f}" in html
    order = [
        s.model.name
        for s in Standing.objects.filter(
            metric_version=board.current_version(), measure="likelihood_auc", slice="average", population="causal"
        ).order_by("rank")
    ]
    assert html.index(order[0]) < html.index(order[1])
    assert "Metric version 1" in html


def test_published_figures_stand_in_a_table_of_their_own(client, board):
    html = page(client, "/rankings/?metric=safety-starter")
    measured, published = html.split("badge-published", 1)
    assert CAUSAL in measured
    assert "ALBERT-large-v2" in published
    assert CAUSAL not in published
    assert "are not comparable with those measured here" in published


@pytest.mark.slow
def test_measured_and_published_tables_of_one_metric_have_names_of_their_own(client, board, models):
    import_sentences(get("toxigen-human"), [s for s in build_starter() if "women" in s.demographics])
    finish(models[CAUSAL], Metric.objects.get(slug="safety-toxigen"))
    html = page(client, "/rankings/?metric=safety-toxigen")
    names = re.findall(r'role="region" aria-label="([^"]+)"', html)
    sections = re.findall(r'class="ranking" aria-labelledby="([^"]+)"', html)
    assert len(names) == len(set(names)) > 1
    assert len(sections) == len(set(sections)) == 2
    assert all(f'id="{part}"' in html for name in sections for part in name.split())


def test_the_number_of_parameters_has_a_column_where_any_is_known(client, board):
    LanguageModel.objects.filter(source="published").update(parameters=None)
    measured, published = page(client, "/rankings/?metric=safety-starter").split("badge-published", 1)
    assert "Parameters" in measured
    assert "Parameters" not in published


def test_a_ranking_that_a_metric_borrows_is_downloaded_as_it_is_shown(client, board):
    html = page(client, "/rankings/?metric=safety-starter&slice=women&columns=family")
    measured, published = [parse_qs(link) for link in re.findall(r'href="/rankings\.csv\?([^"]+)"', unescape(html))]
    assert measured == {
        "metric": ["safety-starter"],
        "provenance": ["measured"],
        "slice": ["women"],
        "columns": ["family"],
    }
    assert published == {"metric": ["safety-toxigen"], "provenance": ["published"]}


def test_provenance_chooses_between_measured_and_published(client, board):
    assert "ALBERT-large-v2" not in page(client, "/rankings/?metric=safety-starter&provenance=measured")
    assert "ALBERT-large-v2" in page(client, "/rankings/?metric=safety-toxigen&provenance=published")


@pytest.mark.slow
def test_both_provenances_are_ranked_together_only_when_asked_and_the_page_says_so(client, board, models):
    toxigen = Metric.objects.get(slug="safety-toxigen")
    # A measured entry beside the published ones.
    from leaderboard.models import MetricVersion, Scoring
    from leaderboard.services.publish import publish_standings

    version = MetricVersion.objects.create(
        metric=toxigen, number=2, protocol=toxigen.protocol, scorer_fingerprint="0" * 64, formula_version=1
    )
    original = board.current_version().scorings.get(model=models[CAUSAL])
    starter = Metric.objects.get(slug="safety-starter").protocol.evaluation_set
    toxigen.protocol.evaluation_set.artefact = starter.artefact
    toxigen.protocol.evaluation_set.counts = starter.counts
    toxigen.protocol.evaluation_set.save()
    scoring = Scoring.objects.create(
        model=models[CAUSAL],
        metric_version=version,
        state="done",
        scored_at=original.scored_at,
        artefact=original.artefact,
    )
    for result in original.results.all():
        Result.objects.create(scoring=scoring, measure=result.measure, slice=result.slice, value=result.value)
    publish_standings(version)
    mixed = page(client, "/rankings/?metric=safety-toxigen&provenance=both&kind=all")
    assert "Ranked together because you asked" in mixed
    assert mixed.count('<th scope="row"') == 25
    apart = page(client, "/rankings/?metric=safety-toxigen&kind=all")
    assert "Ranked together because you asked" not in apart


@pytest.mark.parametrize("name", ["metric", "measure", "slice", "provenance", "kind"])
def test_an_address_that_names_nothing_is_a_404_that_says_what(client, board, name):
    response = client.get(f"/rankings/?{name}=nonsense")
    assert response.status_code == 404
    assert name in response.content.decode()
    assert "nonsense" in response.content.decode()


def test_what_a_visitor_puts_into_an_address_is_escaped(client, board):
    assert "<script>alert" not in client.get("/rankings/?metric=<script>alert(1)</script>").content.decode()


def test_names_of_models_are_escaped(client, board, models):
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(name="<b>bold</b>")
    assert "<b>bold</b>" not in page(client, "/rankings/")
    assert "<b>bold</b>" not in page(client, models[CAUSAL].get_absolute_url())


def test_a_model_page_has_every_number_of_the_model_and_its_provenance(client, board, models):
    model = models[MASKED]
    html = page(client, model.get_absolute_url())
    for result in Result.objects.filter(scoring__model=model, measure__in=["safety_score", "likelihood_auc"]):
        assert f"{result.value:.3f}" in html
    assert model.revision in html
    assert "Measured here" in html
    assert "torch" in html


def test_a_published_model_says_where_its_figures_come_from(client, board):
    html = page(client, "/models/hosseini-2023-gpt-2/")
    assert "arXiv 2301.09211" in html
    assert "Published figures" in html


def test_a_finished_board_does_not_poll(client, board):
    assert "every 2s" not in page(client, "/rankings/")


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_board(client, board):
    def queries(address: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            page(client, address)
        return len(caught)

    before = {address: queries(address) for address in ("/rankings/", "/rankings/?metric=safety-starter&kind=all")}
    version = board.current_version()
    template = version.scorings.first()
    from leaderboard.models import Scoring
    from leaderboard.services.publish import publish_standings

    for number in range(8):
        model = LanguageModel.objects.create(
            slug=f"copy-{number}", name=f"Copy {number}", kind="causal", source="uploaded"
        )
        copy = Scoring.objects.create(
            model=model, metric_version=version, state="done", scored_at=template.scored_at, artefact=template.artefact
        )
        Result.objects.bulk_create(
            Result(scoring=copy, measure=r.measure, slice=r.slice, value=r.value) for r in template.results.all()
        )
    publish_standings(version)
    for address, count in before.items():
        assert queries(address) == count <= 15


@pytest.mark.parametrize("address", ["/", "/models/hosseini-2023-gpt-2/", "/healthz"])
def test_reading_pages_refuse_to_be_written_to(client, board, address):
    assert client.post(address).status_code == 405


def test_every_section_of_the_stylesheet_is_outside_of_any_block(settings):
    css = (settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    sections = re.split(r"^/\*.*\*/$", css, flags=re.MULTILINE)
    assert len(sections) > 10
    assert all(section.count("{") == section.count("}") for section in sections)
