"""Every model and every metric, on a page each."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel
from leaderboard.queries.lists import SORTS, ModelFilters, list_families, list_metrics, list_models
from leaderboard.rankings.view import SIZES, UNKNOWN
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import page_number, pick, read_words

MODELS_A_PAGE = 100
SORT_LABELS = {
    "name": "Name",
    "-parameters": "Largest first",
    "parameters": "Smallest first",
    "-metrics": "Most metrics first",
    "-entered": "Newest first",
}
# Columns: the sort that each heading leads to, "" for none; its label and its look.
HEADINGS = (
    ("name", "Model", ""),
    ("", "Made by", ""),
    ("", "Family", ""),
    ("", "Kind", ""),
    ("-parameters", "Parameters", "num"),
    ("", "Licence", ""),
    ("", "Entries", "num"),
    ("-metrics", "Metrics", "num"),
)


@require_safe
@keep_page(reads=("q", "family", "kind", "source", "size", "sort", "page"))
def model_list(request: HttpRequest) -> HttpResponse:
    """The models, narrowed and sorted as the address asks."""
    families = list_families()
    filters = ModelFilters(
        q=read_words(request, "q"),
        family=pick(request, "family", "", ["", *families]),
        kind=pick(request, "kind", "", ["", *LanguageModel.Kind.values]),
        source=pick(request, "source", "", ["", *LanguageModel.Source.values]),
        size=pick(request, "size", "", ["", *SIZES, UNKNOWN]),
    )
    sort = pick(request, "sort", "name", list(SORTS))
    page = Paginator(list_models(filters, sort), MODELS_A_PAGE).get_page(page_number(request))
    sizes = [*((key, band.label) for key, band in SIZES.items()), (UNKNOWN, "Unknown")]
    choices = [
        ("family", "Family", [(name, name) for name in families], filters.family),
        ("kind", "Kind", LanguageModel.Kind.choices, filters.kind),
        ("source", "Source", LanguageModel.Source.choices, filters.source),
        ("size", "Parameters", sizes, filters.size),
    ]
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "filters": filters,
        "choices": choices,
        "sorts": SORT_LABELS.items(),
        "sort": sort,
        "headings": HEADINGS,
        "page": page,
        "query": query.urlencode(),
    }
    return render(request, "models.html", context)


@require_safe
@keep_page(shows_progress=True)
def metric_list(request: HttpRequest) -> HttpResponse:
    """The metrics: what each measures, and what is known of its scorer."""
    rows = list_metrics()
    context = {"filled": [row for row in rows if row.models], "unfilled": [row for row in rows if not row.models]}
    return render(request, "metrics.html", context)
