"""The page of one demographic."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.queries.one_demographic import list_demographics, read_demographic
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.keeping import keep_page


@require_safe
@keep_page()
def one_demographic(request: HttpRequest, name: str) -> HttpResponse:
    """Which metrics have the demographic, and which models stand first and last on it."""
    metrics = metrics_with_versions()
    names = list_demographics(metrics)
    if name not in names:
        raise Http404(f"No metric here has the demographic {name!r}. Known: {', '.join(names) or 'none yet'}.")
    context = {
        "name": name,
        "parts": read_demographic(metrics, name),
        "others": [other for other in names if other != name],
    }
    return render(request, "demographic.html", context)
