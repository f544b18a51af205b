"""What the board is for, how to cite it, and what changed on it."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.citations import cite_board
from leaderboard.models import EvaluationSet, Metric
from leaderboard.queries.changes import KINDS, changes_page, latest
from leaderboard.services.build import code
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import families, page_number, pick

LATEST = 5


@require_safe
@keep_page(reads=("metric",))
def about(request: HttpRequest) -> HttpResponse:
    """Purpose, reading, citing (of the metric chosen by `metric`, if any), licences and limits."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set"))
    by_slug = {metric.slug: metric for metric in metrics}
    slug = pick(request, "metric", "", ["", *by_slug])
    context = {
        "families": families(metrics),
        "chosen": by_slug.get(slug),
        "citation": cite_board(request.build_absolute_uri(reverse("front")), by_slug.get(slug)),
        "sets": EvaluationSet.objects.filter(artefact__isnull=False).order_by("title", "version"),
        "changes": latest(LATEST, metrics),
        "code": code(),
        "project_url": settings.PROJECT_URL,
    }
    return render(request, "about.html", context)


@require_safe
@keep_page(reads=("metric", "kind", "page"))
def changes(request: HttpRequest) -> HttpResponse:
    """The change log, `page` by page, filtered by `metric` and `kind` of event."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set"))
    by_slug = {metric.slug: metric for metric in metrics}
    slug = pick(request, "metric", "", ["", *by_slug])
    kind = pick(request, "kind", "", ["", *(group.key for group in KINDS)])
    page, entries = changes_page(by_slug.get(slug), kind, page_number(request), metrics)
    context = {
        "families": families(metrics),
        "chosen": by_slug.get(slug),
        "kinds": KINDS,
        "kind": kind,
        "page": page,
        "changes": entries,
    }
    return render(request, "changes.html", context)
