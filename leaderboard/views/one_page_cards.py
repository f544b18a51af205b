"""The card of a model as a file: one page to print or to attach."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.citations import cite_board, cite_result
from leaderboard.models import LanguageModel
from leaderboard.one_page_pdf import draw_card
from leaderboard.queries.one_page_cards import compose_card
from leaderboard.views.keeping import keep_page
from leaderboard.views.models import address_of, hidden_page


@require_safe
@keep_page(personal=False)
def one_page_card(request: HttpRequest, slug: str) -> HttpResponse:
    """The model's card as PDF; for a hidden model the page that says so."""
    model = get_object_or_404(LanguageModel, slug=slug)
    if model.hidden_note:
        return hidden_page(request, model)
    card = compose_card(model)
    address = request.build_absolute_uri(model.get_absolute_url())
    citation = None
    if card.profiles:
        profile = card.profiles[0]
        citation = cite_result(model, profile, request.build_absolute_uri(address_of(model, profile)))
    if citation is None:
        citation = cite_board(request.build_absolute_uri(reverse("front")), None)
    response = HttpResponse(draw_card(card, address, citation.text), content_type="application/pdf")
    response["Content-Disposition"] = f'inline; filename="plumbline-{model.slug}.pdf"'
    return response
