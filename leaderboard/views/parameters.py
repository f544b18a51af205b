"""What the address of a page asks for."""

from collections.abc import Sequence
from itertools import groupby

from django.http import Http404, HttpRequest

from leaderboard.models import Metric
from scoring.metrics.formulas import FORMULAS


def pick(request: HttpRequest, name: str, default: str, known: Sequence[str]) -> str:
    """The value of a parameter. Raises Http404 with a sentence where it names something that is not known."""
    value = request.GET.get(name) or default
    if value not in known:
        raise Http404(f"{name} = {value!r} does not exist here. Known: {', '.join(filter(None, known)) or 'none yet'}")
    return value


def page_number(request: HttpRequest) -> int:
    """The page asked for, from 1; pages beyond the last are the last. Raises Http404 where it is no number."""
    value = request.GET.get("page") or "1"
    if not (value.isdecimal() and value.isascii() and 0 < len(value) < 10 and int(value)):
        raise Http404(f"page = {value!r}: use a number from 1")
    return int(value)


def choose_metric(request: HttpRequest, metrics: list[Metric], default: Metric | None = None) -> Metric:
    """The metric asked for; else `default`; else the first whose texts are at hand. Raises Http404."""
    if not metrics:
        raise Http404("This board has no metrics yet: run manage.py seed")
    by_slug = {metric.slug: metric for metric in metrics}
    return by_slug[pick(request, "metric", (default or default_metric(metrics)).slug, list(by_slug))]


def default_metric(metrics: list[Metric]) -> Metric:
    """The first metric whose texts are at hand, and so can be measured here; else the first."""
    return next((metric for metric in metrics if metric.protocol.evaluation_set.artefact_id), metrics[0])


def families(metrics: list[Metric]) -> list[tuple[str, list[Metric]]]:
    """The metrics by formula, in the order of the formulas."""
    order = list(FORMULAS)
    found = sorted(metrics, key=lambda metric: (order.index(metric.formula_name), metric.position))
    return [(formula.title, list(of)) for formula, of in groupby(found, key=lambda metric: metric.formula)]
