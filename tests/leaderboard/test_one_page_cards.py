"""The card of a model: one page of PDF that says what the model's page says, with text that can be read back."""

from io import BytesIO
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pypdf import PdfReader

from leaderboard.models import AuditVerb, LanguageModel, MetricVersion, Result, Standing
from leaderboard.queries.identities import list_visible_entries
from leaderboard.queries.one_page_cards import missing_of
from leaderboard.services.audit import record
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.test_history import page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

GPT2 = "hosseini-2023-gpt-2"
A4 = (595, 842)  # points


def read_card(client, slug: str) -> PdfReader:
    """The card of a model."""
    response = client.get(f"/models/{slug}/card.pdf")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/pdf"
    return PdfReader(BytesIO(response.content))


def said(pdf: PdfReader) -> str:
    """Its text on one line."""
    (only,) = pdf.pages
    return " ".join(only.extract_text().split())


def test_it_is_one_page_of_a4_with_its_fonts(client, board):
    pdf = read_card(client, CAUSAL)
    (only,) = pdf.pages
    assert (round(only.mediabox.width), round(only.mediabox.height)) == A4
    fonts = [font.get_object() for font in only["/Resources"]["/Font"].get_object().values()]
    used = [font for font in fonts if "OpenSans" in font["/BaseFont"].replace(" ", "")]
    assert used
    assert all("/FontFile2" in font["/FontDescriptor"] for font in used)
    assert pdf.metadata.title == f"{CAUSAL} on Plumbline"


def test_it_says_who_the_model_is_its_numbers_and_where_to_read_on(client, board):
    text = said(read_card(client, CAUSAL))
    model = LanguageModel.objects.get(slug=CAUSAL)
    result = Result.objects.get(
        scoring__model=model, scoring__metric_version=board.current_version(), measure="likelihood_auc", slice="average"
    )
    standing = Standing.objects.get(result=result, population="causal")
    assert model.revision in text.replace(" ", "")
    assert f"{model.parameters:,}" in text
    assert f"{result.value:.3f} [{result.ci_low:.3f}, {result.ci_high:.3f}]" in text
    assert f"{standing.rank} of 2 causal models" in text
    assert f"measured here, scored {result.scoring.scored_at:%Y-%m-%d}" in text
    assert f"http://testserver/models/{CAUSAL}/" in text
    assert f"revision {model.revision[:12]}" in text
    assert "Cite as: Plumbline" in text
    assert "If indifferent" in text


def test_texts_without_a_score_are_counted_with_their_share(board):
    profile = SimpleNamespace(version=board.current_version())
    assert missing_of(profile, Result(n=97, missing=3)) == "3 (3.0%)"
    assert missing_of(profile, Result(n=1_997, missing=0)) == "0"
    assert missing_of(profile, None) == ""
    assert missing_of(SimpleNamespace(version=MetricVersion(provenance="published")), Result(n=97, missing=3)) == ""


@pytest.mark.slow
def test_three_slices_are_enough_for_a_chart_and_two_are_not(client, board):
    for name, has_chart in (("latino", True), ("muslim", False)):
        Standing.objects.filter(slice=name).delete()
        Result.objects.filter(slice=name).delete()
        text = said(read_card(client, CAUSAL))
        assert ("Safety on the starter set: likelihood auc" in text) is has_chart
        assert ("Bars are 95% intervals." in text) is has_chart


def test_published_figures_have_their_source_and_what_is_ours_is_marked(client, board):
    text = said(read_card(client, GPT2))
    assert "Hosseini, Palangi & Awadallah 2023, arXiv 2301.09211, entered" in text
    score = Result.objects.get(
        scoring__model__slug=GPT2, measure="safety_score", slice="all", scoring__metric_version__provenance="published"
    )
    assert f"{score.value:.3f} [≈ {score.ci_low:.3f}, {score.ci_high:.3f}]" in text
    assert "of 5 causal models" in text
    assert "Women" in text, "of the chart"
    assert "distilled" not in text.lower().replace("distilgpt", "")


def test_a_name_is_words_and_nothing_else(client, board):
    LanguageModel.objects.filter(slug=GPT2).update(name='<b>Fat</b> & "co" <font size="90">')
    assert '<b>Fat</b> & "co" <font size="90">' in said(read_card(client, GPT2))


def test_a_long_name_and_many_numbers_stay_on_one_page(client, board):
    LanguageModel.objects.filter(slug=GPT2).update(name="A very long name " * 11)
    assert len(read_card(client, GPT2).pages) == 1


def test_a_hidden_model_has_no_card_and_a_restricted_one_says_so(client, board):
    LanguageModel.objects.filter(slug=GPT2).update(hidden_note="Asked by its makers.")
    response = client.get(f"/models/{GPT2}/card.pdf")
    assert response["Content-Type"].startswith("text/html")
    assert "Asked by its makers." in response.content.decode()
    assert client.get("/models/nobody/card.pdf").status_code == 404
    LanguageModel.objects.filter(slug=CAUSAL).update(access="restricted")
    assert "Restricted. No reason is on record." in said(read_card(client, CAUSAL))
    record(AuditVerb.RESTRICT_MODEL, f"model {CAUSAL}", {"reason": "Its makers asked."})
    assert "The reason given: Its makers asked." in said(read_card(client, CAUSAL))


def test_the_model_s_page_leads_to_it_and_queries_do_not_grow(client, board):
    assert f'href="/models/{CAUSAL}/card.pdf"' in page(client, f"/models/{CAUSAL}/")
    with CaptureQueriesContext(connection) as one:
        read_card(client, "hosseini-2023-bert-base-cased")
    with CaptureQueriesContext(connection) as several:
        read_card(client, GPT2)
    assert len(several) <= len(one) <= 12


@pytest.mark.slow
def test_a_model_s_own_card_has_the_numbers_of_all_its_entries(client, board):
    entry = LanguageModel.objects.select_related("identity").get(slug=GPT2)
    identity = entry.identity
    text = said(read_card(client, identity.slug))
    assert text.startswith("Plumbline")
    assert identity.name in text
    entries = list_visible_entries(identity)
    assert len(entries) > 1
    for other in entries:
        assert other.slug in text.replace("- ", "-")
    assert f'href="/models/{identity.slug}/card.pdf"' in page(client, f"/models/{identity.slug}/")
    identity.entries.update(hidden_note="Asked by its makers.")
    assert client.get(f"/models/{identity.slug}/card.pdf").status_code == 404
