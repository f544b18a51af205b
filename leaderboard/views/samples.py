"""What does a model write? Its texts, covered until they are asked for."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel, Scoring
from leaderboard.queries.profiles import scorings_of
from leaderboard.queries.samples import HIGHEST, LOWEST, PAGE, SPREAD, attributes, find_listing, samples
from leaderboard.views.keeping import keep_page
from leaderboard.views.models import hidden_page
from leaderboard.views.parameters import page_number, pick
from scoring.metrics.kinds import Listing
from scoring.refusals import Refused

OF_SCORES = [(HIGHEST, "Highest first"), (LOWEST, "Lowest first"), (SPREAD, "Spread from highest to lowest")]
SHOW = "yes"  # the value of `show` with which a reader asks for the texts


@require_safe
@keep_page(reads=("metric", "show", "attribute", "order", "page"))
def model_samples(request: HttpRequest, slug: str) -> HttpResponse:
    """A notice; and once it has been read a page of a model's texts, each covered. Never for search engines."""
    language_model = get_object_or_404(LanguageModel, slug=slug)
    if language_model.hidden_note:
        return hidden_page(request, language_model)
    # Of each metric the newest version's; the outputs of a withdrawn model are passed on to nobody.
    is_withheld = language_model.access == LanguageModel.Access.WITHDRAWN
    newest = (
        {}
        if is_withheld
        else {
            scoring_row.metric_version.metric.slug: scoring_row
            for scoring_row in scorings_of(language_model)
            if scoring_row.run_id
        }
    )
    context: dict[str, object] = {"model": language_model, "withheld": is_withheld, "metrics": list(newest.values())}
    if newest:
        scoring = newest[pick(request, "metric", next(iter(newest)), list(newest))]
        context |= {"scoring": scoring, "show": pick(request, "show", "", ["", SHOW]) == SHOW}
        try:
            context |= select_texts(request, scoring)
        except Refused as error:
            context["problem"] = str(error)
    response = render(request, "samples.html", context)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def orders_of(listing: Listing) -> list[tuple[str, str]]:
    """The orders to choose from, the usual one first."""
    return [(LOWEST, listing.lowest_first), (HIGHEST, listing.highest_first), (SPREAD, listing.spread)]


def select_texts(request: HttpRequest, scoring: Scoring) -> dict[str, object]:
    """What the address asks for of a scoring's texts; the texts only with `show`. Raises Http404, Refused."""
    names = attributes(scoring)
    attribute = pick(request, "attribute", names[0] if names else "", names or [""])
    listing = None if names else find_listing(scoring)
    orders = OF_SCORES if listing is None else orders_of(listing)
    order = pick(request, "order", orders[0][0], [value for value, _ in orders])
    context: dict[str, object] = {
        "attributes": names,
        "attribute": attribute,
        "listing": listing,
        "orders": orders,
        "order": order,
    }
    if pick(request, "show", "", ["", SHOW]) != SHOW:
        return context
    texts = samples(scoring, attribute, order, page_number(request), listing)
    page = int(pick(request, "page", "1", [str(number) for number in range(1, texts.pages + 1)]))
    first = (page - 1) * PAGE + 1
    shown_texts = {
        "found": texts,
        "page": page,
        "pages": texts.pages,
        "first": first,
        "last": first + len(texts.samples) - 1,
    }
    return context | shown_texts
