"""The documentation: how to run a board, what its numbers are, how to add to it."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.people.services.roles import ROLES
from leaderboard.queries.docs import chapters, commands, example_source, protections, settings_parts
from leaderboard.queries.reproductions import reproductions
from leaderboard.views.keeping import keep_page


@require_safe
@keep_page()
def docs(request: HttpRequest) -> HttpResponse:
    """What there is to read."""
    return render(request, "docs/index.html")


@require_safe
@keep_page()
def docs_operating(request: HttpRequest) -> HttpResponse:
    """The operating guide, with every command and every setting."""
    context = {
        "commands": commands(),
        "parts": settings_parts(),
        "roles": ROLES,
        "attempts": settings.MOST_ATTEMPTS,
        "lease": settings.LEASE_SECONDS,
        "sweep": settings.SWEEP_SECONDS,
    }
    return render(request, "docs/operating.html", context)


@require_safe
@keep_page()
def docs_metrics(request: HttpRequest) -> HttpResponse:
    """Every formula: of measures, intervals, ranks and drift."""
    return render(request, "docs/metrics.html", {"chapters": chapters()})


@require_safe
@keep_page()
def docs_papers(request: HttpRequest) -> HttpResponse:
    """Each table, figure and claim of the three papers: where it is, and both values."""
    return render(request, "docs/papers.html", {"parts": reproductions()})


@require_safe
@keep_page()
def docs_threats(request: HttpRequest) -> HttpResponse:
    """Who could attack a board, with what, and where that is stopped."""
    return render(request, "docs/threats.html", protections())


@require_safe
@keep_page()
def docs_extending(request: HttpRequest) -> HttpResponse:
    """How to add a scorer, a metric, a formula."""
    return render(request, "docs/extending.html", {"source": example_source()})
