"""The front page: an answer in one screen, and the ways in."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.queries.front import list_demographics, list_leaders, read_scorers_today
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import families
from leaderboard.views.ranking_address import PARAMETERS


@require_safe
def front(request: HttpRequest) -> HttpResponse:
    """The front page; an address of a ranking, which stood here before, leads to where it stands now."""
    if any(name in PARAMETERS for name in request.GET):
        return redirect(f"{reverse('rankings')}?{request.GET.urlencode()}", permanent=True)
    return front_page(request)


@keep_page(shows_progress=True)
def front_page(request: HttpRequest) -> HttpResponse:
    """Who leads in each family of harm, and what is known of the scorers today."""
    metrics = metrics_with_versions()
    leaders = list_leaders(metrics)
    by_demographic = next((board for board in leaders if board.ranking.metric.formula.by_demographic), None)
    context = {
        "leaders": leaders,
        "today": read_scorers_today(),
        "by_demographic": by_demographic,
        "demographics": list_demographics(by_demographic.version) if by_demographic else [],
        "families": families([metric for metric in metrics if metric.versions.all()]),
    }
    return render(request, "front.html", context)
