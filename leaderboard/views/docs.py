"""The documentation: how to run a board, what its numbers are, how to add to it."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from leaderboard.people.services.roles import ROLES
from leaderboard.queries.docs import (
    METHODS,
    chapters,
    commands,
    example_source,
    find_definition,
    glossary,
    measure_address,
    metrics_with_formula,
    protections,
    settings_parts,
)
from leaderboard.queries.recipes import read_recipes
from leaderboard.queries.reproductions import reproductions
from leaderboard.views.keeping import keep_page
from scoring.language_models.model_types import read_model_types


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
    """The measures by formula, and the methods that they use: a page for each."""
    return render(request, "docs/metrics.html", {"chapters": chapters(), "methods": METHODS.values()})


@require_safe
@keep_page()
def docs_measure(request: HttpRequest, name: str) -> HttpResponse:
    """The exact definition of a measure, with an example; a measure that another's page explains leads there."""
    definition = find_definition(name)
    if definition is None:
        raise Http404(f"No measure is called {name}.")
    if definition.name != name:
        return redirect(measure_address(name))
    context = {"definition": definition, "metrics": metrics_with_formula(definition.formula)}
    return render(request, "docs/measure.html", context)


@require_safe
@keep_page()
def docs_method(request: HttpRequest, name: str) -> HttpResponse:
    """A method that several measures use."""
    if name not in METHODS:
        raise Http404(f"No method is called {name}.")
    return render(request, "docs/method.html", {"method": METHODS[name]})


@require_safe
@keep_page()
def docs_glossary(request: HttpRequest) -> HttpResponse:
    """What the words of the board mean, measures among them."""
    return render(request, "docs/glossary.html", {"groups": glossary()})


@require_safe
@keep_page()
def docs_model_types(request: HttpRequest) -> HttpResponse:
    """Which types of models enter, and which are refused, and why."""
    verdicts = read_model_types()
    context = {
        "refused": [verdict for verdict in verdicts if not verdict.accepted],
        "accepted": [
            (likelihood, [verdict for verdict in verdicts if verdict.accepted and verdict.likelihood == likelihood])
            for likelihood in dict.fromkeys(verdict.likelihood for verdict in verdicts)
        ],
        "count": len(verdicts),
    }
    return render(request, "docs/model_types.html", context)


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


@require_safe
@keep_page()
def docs_changes(request: HttpRequest) -> HttpResponse:
    """The common changes of the code, step by step."""
    return render(request, "docs/changes.html", {"recipes": read_recipes()})
