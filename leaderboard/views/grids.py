"""Safety and perplexity over depth and width, family by family."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.queries.grids import SIZES, grid_families, size_grids
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick


@require_safe
@keep_page(shows_progress=True, reads=("family",))
def grids(request: HttpRequest) -> HttpResponse:
    """One family, the first unless the address names another. Raises Http404 for a family without a grid."""
    families = grid_families()
    family = pick(request, "family", next(iter(families), ""), families or [""])
    context = {
        "families": families,
        "family": family,
        "grids": size_grids(family) if family else [],
        "sizes": SIZES,
    }
    return render(request, "grids.html", context)
