"""One search over everything that has a page; and addresses for those who index the board."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel, Metric, ranked_now
from leaderboard.queries.identities import identities_with_entries
from leaderboard.queries.one_demographic import list_demographics
from leaderboard.queries.search import search, suggest_pages
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import read_words

PAGES = (
    *(
        "front",
        "rankings",
        "models",
        "metrics",
        "history",
        "demographics",
        "compare",
        "agreement",
        "scorer_ranks",
        "grids",
        "published",
    ),
    *(
        "drift",
        "scorers",
        "about",
        "changes",
        "docs",
        "docs_metrics",
        "docs_glossary",
        "docs_papers",
        "docs_operating",
        "docs_extending",
    ),
    *("docs_changes", "docs_threats", "api_guide"),
)
DJANGO_ENDING = "matches the given query."  # of a sentence that names a class
CLOSED = ("operate", "admin:index", "account", "submit", "search", "compare_scorers")


@require_safe
@keep_page(reads=("q",))
def search_page(request: HttpRequest) -> HttpResponse:
    """What the words `q` find; where they are the title of exactly one page, that page."""
    query = read_words(request, "q")
    results = search(query)
    if results.direct:
        return redirect(results.direct.address)
    return render(request, "search.html", {"query": query, "results": results})


@require_safe
@keep_page(personal=False)
def sitemap(request: HttpRequest) -> HttpResponse:
    """Every page that anybody may read, for search engines."""
    addresses = [reverse(name) for name in PAGES]
    addresses += [metric.get_absolute_url() for metric in Metric.objects.all()]
    addresses += [reverse("demographic", args=[name]) for name in list_demographics(metrics_with_versions())]
    addresses += [identity.get_absolute_url() for identity in identities_with_entries()]
    addresses += [model.get_absolute_url() for model in LanguageModel.objects.filter(ranked_now())]
    context = {"addresses": [request.build_absolute_uri(address) for address in addresses]}
    return render(request, "sitemap.xml", context, content_type="application/xml")


@require_safe
@keep_page(personal=False)
def robots(request: HttpRequest) -> HttpResponse:
    """What search engines should leave alone: pages of people, and every address with parameters."""
    context = {
        "closed": [reverse(name) for name in CLOSED],
        "sitemap": request.build_absolute_uri(reverse("sitemap")),
    }
    return render(request, "robots.txt", context, content_type="text/plain")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page of an address that leads nowhere, with the pages whose names are most like it."""
    sentences = (argument for argument in exception.args if isinstance(argument, str))
    reason = next((sentence for sentence in sentences if not sentence.endswith(DJANGO_ENDING)), "")
    words = request.path.replace("/", " ").strip()
    context = {"reason": reason, "suggestions": suggest_pages(words.rpartition(" ")[2]) if words else []}
    return render(request, "404.html", context, status=404)
