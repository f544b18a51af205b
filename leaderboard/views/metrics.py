"""What a metric is."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.queries.metric_page import find_metric, policy_rows, story
from leaderboard.queries.scorer_state import scorer_state
from leaderboard.views.keeping import kept


@require_safe
@kept()
def metric(request: HttpRequest, slug: str) -> HttpResponse:
    """What is measured and how, by which scorer, under which versions, and what the number does not tell."""
    found = find_metric(slug)
    if found is None:
        raise Http404(f"There is no metric {slug!r} on this board")
    told = story(found)
    context = {
        "metric": found,
        "story": told,
        "protocol": told.version.protocol if told.version else found.protocol,
        "policy": policy_rows(told.policy, found.formula.asks_scorer),
        "scorer": scorer_state(found),
    }
    return render(request, "metric.html", context)
