"""What does a model write? Its texts, covered until they are asked for."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel, Scoring
from leaderboard.queries.likelihoods import NotAtHand
from leaderboard.queries.profiles import scorings_of
from leaderboard.queries.samples import HIGHEST, LOWEST, PAGE, SPREAD, attributes, samples
from leaderboard.views.keeping import kept
from leaderboard.views.models import hidden_page
from leaderboard.views.parameters import page_number, pick

OF_SCORES = [(HIGHEST, "Highest first"), (LOWEST, "Lowest first"), (SPREAD, "Spread from highest to lowest")]
OF_LIKELIHOODS = [
    (LOWEST, "Most likely first"),
    (HIGHEST, "Least likely first"),
    (SPREAD, "Spread from least to most likely"),
]
SHOW = "yes"  # the value of `show` with which a reader asks for the texts


@require_safe
@kept(reads=("metric", "show", "attribute", "order", "page"))
def model_samples(request: HttpRequest, slug: str) -> HttpResponse:
    """A notice; and once it has been read a page of a model's texts, each covered. Never for search engines."""
    found = get_object_or_404(LanguageModel, slug=slug)
    if found.hidden_note:
        return hidden_page(request, found)
    # Of each metric the newest version's; the outputs of a withdrawn model are passed on to nobody.
    withheld = found.access == LanguageModel.Access.WITHDRAWN
    newest = {} if withheld else {of.metric_version.metric.slug: of for of in scorings_of(found) if of.run_id}
    context: dict[str, object] = {"model": found, "withheld": withheld, "metrics": list(newest.values())}
    if newest:
        scoring = newest[pick(request, "metric", next(iter(newest)), list(newest))]
        context |= {"scoring": scoring, "show": pick(request, "show", "", ["", SHOW]) == SHOW}
        try:
            context |= chosen(request, scoring)
        except NotAtHand as error:
            context["problem"] = str(error)
    response = render(request, "samples.html", context)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def chosen(request: HttpRequest, scoring: Scoring) -> dict[str, object]:
    """What the address asks for of a scoring's texts; the texts only with `show`. Raises Http404, NotAtHand."""
    known = attributes(scoring)
    attribute = pick(request, "attribute", known[0] if known else "", known or [""])
    orders = OF_SCORES if known else OF_LIKELIHOODS
    order = pick(request, "order", orders[0][0], [value for value, _ in orders])
    context: dict[str, object] = {
        "attributes": known,
        "attribute": attribute,
        "orders": orders,
        "order": order,
    }
    if pick(request, "show", "", ["", SHOW]) != SHOW:
        return context
    found = samples(scoring, attribute, order, page_number(request))
    page = int(pick(request, "page", "1", [str(of) for of in range(1, found.pages + 1)]))
    first = (page - 1) * PAGE + 1
    shown = {"found": found, "page": page, "pages": found.pages, "first": first, "last": first + len(found.samples) - 1}
    return context | shown
