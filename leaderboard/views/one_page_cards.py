"""The card of a model as a file: one page to print or to attach."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.citations import cite_board, cite_result
from leaderboard.models import LanguageModel, ModelIdentity, address_of_model
from leaderboard.one_page_pdf import draw_card
from leaderboard.queries.identities import list_visible_entries
from leaderboard.queries.one_page_cards import OnePageCard, compose_card, compose_identity_card
from leaderboard.views.keeping import keep_page
from leaderboard.views.models import address_of, hidden_page


@require_safe
@keep_page(personal=False)
def one_page_card(request: HttpRequest, slug: str) -> HttpResponse:
    """The card as PDF of an entry, or of the model that entries are evidence about; a hidden one's page says so."""
    entry = LanguageModel.objects.filter(slug=slug).first()
    if entry is None:
        identity = get_object_or_404(ModelIdentity, slug=slug)
        entries = list_visible_entries(identity)
        if not entries:
            raise Http404(f"There is nothing about {slug} on this board.")
        return write_card(request, slug, compose_identity_card(identity, entries))
    if entry.hidden_note:
        return hidden_page(request, entry)
    return write_card(request, slug, compose_card(entry))


def write_card(request: HttpRequest, slug: str, card: OnePageCard) -> HttpResponse:
    """The card with its address and the citation of its first number, or of the board where it has none."""
    citation = None
    if profile := card.headline:
        model = profile.scoring.model
        citation = cite_result(model, profile, request.build_absolute_uri(address_of(model, profile)))
    if citation is None:
        citation = cite_board(request.build_absolute_uri(reverse("front")), None)
    address = request.build_absolute_uri(address_of_model(slug))
    response = HttpResponse(draw_card(card, address, citation.text), content_type="application/pdf")
    response["Content-Disposition"] = f'inline; filename="plumbline-{slug}.pdf"'
    return response
