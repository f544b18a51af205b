"""What the address of a page asks for."""

from collections.abc import Sequence
from datetime import date
from itertools import groupby

from django.http import Http404, HttpRequest

from leaderboard.models import Metric
from leaderboard.rankings.days import MOST_SHOWN, parse_day
from leaderboard.rankings.versions import ranks_known
from scoring.metrics.formulas import FORMULAS

MOST_DIGITS = 9
MOST_SEARCHED = 100  # characters


def pick(request: HttpRequest, name: str, default: str, values: Sequence[str]) -> str:
    """The value of a parameter. Raises Http404 with a sentence where it names something that is not known."""
    value = request.GET.get(name) or default
    if value not in values:
        choices = ", ".join(filter(None, values)) or "none yet"
        raise Http404(f"{name} = {value[:MOST_SHOWN]!r} does not exist here. Known: {choices}")
    return value


def page_number(request: HttpRequest) -> int:
    """The page asked for, from 1; pages beyond the last are the last. Raises Http404 where it is no number."""
    return read_number(request, "page") or 1


def read_number(request: HttpRequest, name: str) -> int | None:
    """A whole number from 1, of nine digits at most; None where the address has none. Raises Http404 for all else."""
    value = request.GET.get(name)
    if not value:
        return None
    if not (value.isdecimal() and value.isascii() and len(value) <= MOST_DIGITS and int(value)):
        raise Http404(f"{name} = {value[:MOST_SHOWN]!r}: use a whole number from 1")
    return int(value)


def read_day(request: HttpRequest, name: str) -> date | None:
    """A day from FIRST_DAY to LAST_DAY; None where the address has none. Raises Http404 where it is anything else."""
    value = request.GET.get(name)
    try:
        return parse_day(value) if value else None
    except ValueError as error:
        raise Http404(f"{name} = {error}") from error


def read_words(request: HttpRequest, name: str) -> str:
    """What is looked for, on one line, cut at 100 characters; empty where the address has none."""
    return " ".join(request.GET.get(name, "").split())[:MOST_SEARCHED]


def choose_metric(request: HttpRequest, metrics: list[Metric], default: Metric | None = None) -> Metric:
    """The metric asked for; else `default`; else that of `default_metric`. Raises Http404."""
    if not metrics:
        raise Http404("This board has no metrics yet: run manage.py seed")
    by_slug = {metric.slug: metric for metric in metrics}
    return by_slug[pick(request, "metric", (default or default_metric(metrics)).slug, list(by_slug))]


def default_metric(metrics: list[Metric]) -> Metric:
    """The first metric that ranks known models; else whose texts are at hand, so that it can be measured; else any.

    metrics: those of `metrics_with_versions`.
    """
    measurable = (metric for metric in metrics if metric.protocol.evaluation_set.artefact_id)
    return next(filter(ranks_known, metrics), next(measurable, metrics[0]))


def families(metrics: list[Metric]) -> list[tuple[str, list[Metric]]]:
    """The metrics by formula, in the order of the formulas."""
    order = list(FORMULAS)
    metrics_in_order = sorted(metrics, key=lambda metric: (order.index(metric.formula_name), metric.position))
    return [
        (formula.title, list(group)) for formula, group in groupby(metrics_in_order, key=lambda metric: metric.formula)
    ]
