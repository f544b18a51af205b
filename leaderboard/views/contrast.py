"""Which metrics tell two models apart?"""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.queries.contrast import contrast
from leaderboard.queries.side_by_side import LEAST
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.compare import choose_entries, chosen_candidates
from leaderboard.views.keeping import keep_page


@require_safe
@keep_page(shows_progress=True, reads=("m",))
def contrast_models(request: HttpRequest) -> HttpResponse:
    """Two models over all metrics that have numbers of both; the page that chooses models where there are not two."""
    models = choose_entries(chosen_candidates(request), None)
    if len(models) != LEAST:
        return redirect(f"{reverse('compare')}?{urlencode([('m', model.slug) for model in models])}")
    first, second = models
    return render(request, "contrast.html", {"contrast": contrast((first, second), metrics_with_versions())})
