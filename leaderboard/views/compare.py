"""Do a few models differ, and is it significant?"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ForestLine, forest_chart
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance
from leaderboard.queries.history import boards
from leaderboard.queries.rankings import metrics_with_versions
from leaderboard.queries.side_by_side import (
    LEAST,
    MOST,
    Pair,
    SideBySide,
    offered,
    side_by_side,
    versions_of,
)
from leaderboard.services.places import population_sizes
from leaderboard.services.record import counterpart_of
from leaderboard.templatetags.board import decimals, p
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import default_metric, families, pick, read_words
from scoring.metrics.formulas import MEASURES, slice_label
from scoring.metrics.measures import Measure


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists. `version` is None where the metric has none yet."""

    models: list[LanguageModel]
    metric: Metric
    versions: list[MetricVersion]
    version: MetricVersion | None
    measure: Measure
    slice: str
    slices: list[str]
    kind: str  # whose ranking is offered from, where kinds are ranked apart; "" for the largest
    search: str

    def address(self, models: Sequence[LanguageModel]) -> str:
        """The same view of other models."""
        of = [("m", model.slug) for model in models]
        if self.version:
            of += [("metric", self.metric.slug), ("version", str(self.version.number))]
            of += [("measure", self.measure.key), ("slice", self.slice)]
        return "?" + urlencode(of)


@require_safe
@kept(watching=True, reads=("m", "metric", "of", "version", "measure", "slice", "q"))
def compare(request: HttpRequest) -> HttpResponse:
    """Two to six models on one version of a metric; with fewer, whom to add, and with more, whom to take out."""
    metrics = metrics_with_versions()
    choice = parse(request, metrics)
    found, fits, suggested = None, 0, []
    version, models = choice.version, choice.models
    sizes = population_sizes(version, choice.measure.key, choice.slice) if version else {}
    if version and LEAST <= len(models) <= MOST:
        found = side_by_side(version, choice.measure, choice.slice, models, sizes)
    if version and len(models) < MOST:
        suggested, fits = offered(version, choice.measure, choice.slice, choice.kind, choice.search, models, sizes)
    context = {
        "families": families(metrics),
        "choice": choice,
        "chosen": [(model, choice.address([of for of in models if of != model])) for model in models],
        "suggested": [(offer, choice.address([*models, offer.model])) for offer in suggested],
        "leaders": any(offer.leads for offer in suggested),
        "fits": fits,
        "least": LEAST,
        "most": MOST,
        "found": found,
        "verdicts": [(pair, verdict(pair, choice.measure)) for pair in found.pairs] if found else [],
        "digits": choice.measure.digits,
        "chart": chart(found) if found and len(found.there) >= LEAST else None,
    }
    return render(request, "compare.html", context)


def parse(request: HttpRequest, metrics: list[Metric]) -> Choice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist.

    The form says by `of` which metric its other choices are for: they do not hold for another one.
    """
    models = chosen_models(request)
    metric, scored = choose(request, metrics, models)
    same = request.GET.get("of", metric.slug) == metric.slug
    versions = [version for version in metric.versions.all() if version.published_at]
    numbers = {str(version.number): version for version in versions}
    best = max(versions, key=lambda version: (scored.get(version.pk, 0), *newest(version)), default=None)
    version = numbers.get(pick(request, "version", str(best.number), list(numbers))) if same and best else best
    ranked = [measure.key for measure in metric.formula.ranked]
    usual = version.first_measure if version else metric.measure
    measure = pick(request, "measure", usual, ranked) if same else usual
    there = boards([version], measure) if version else None
    slices = there.slices[version.pk] if there and version else []
    asked = request.GET.get("slice", "") if same else ""
    name = asked if asked in slices else counterpart_of(asked, slices) or ""
    if not name and slices:
        name = pick(request, "slice", slices[0], slices) if same else slices[0]
    populations = there.populations if there else []
    own = [model.kind for model in models if model.kind in populations]
    return Choice(
        models=models,
        metric=metric,
        versions=versions,
        version=version,
        measure=MEASURES[measure],
        slice=name,
        slices=slices,
        kind=(own or [""])[0],
        search=read_words(request, "q"),
    )


def chosen_models(request: HttpRequest) -> list[LanguageModel]:
    """The models `m` of the address, in its order, each once. Raises Http404, naming those that do not exist."""
    slugs = list(dict.fromkeys(slug for slug in request.GET.getlist("m") if slug))
    found = {model.slug: model for model in LanguageModel.objects.listed().filter(slug__in=slugs[:50])}
    unknown = [slug for slug in slugs if slug not in found]
    if unknown:
        raise Http404(
            f"m = {unknown[0]!r}: no model of this board has that name in addresses; look for it on the page that "
            "compares models"
        )
    return [found[slug] for slug in slugs]


def newest(version: MetricVersion) -> tuple[bool, bool, int]:
    """What makes a version the one to show: being current, being measured here, its number."""
    current = version.status == MetricVersion.Status.CURRENT
    return current, version.provenance == Provenance.MEASURED, version.number


def choose(
    request: HttpRequest, metrics: list[Metric], models: Sequence[LanguageModel]
) -> tuple[Metric, dict[int, int]]:
    """The metric asked for, else the first that has most of the models under a current version; and who has which."""
    if not metrics:
        raise Http404("This board has no metrics yet: run manage.py seed")
    scored = versions_of(models)
    first = default_metric(metrics)
    by_slug = {metric.slug: metric for metric in [first, *metrics]}

    def of_chosen(metric: Metric) -> int:
        current = [version for version in metric.versions.all() if version.status == MetricVersion.Status.CURRENT]
        return max((scored.get(version.pk, 0) for version in current), default=0)

    default = max(by_slug.values(), key=of_chosen)
    return by_slug[pick(request, "metric", default.slug, list(by_slug))], scored


def verdict(pair: Pair, measure: Measure) -> str:
    """What the test says of two models, in a sentence."""
    one, other, found = pair.first.model.name, pair.second.model.name, pair.found
    if found is None:
        return f"{one} and {other}: the difference cannot be tested."
    value, low, high = (decimals(of, measure.digits) for of in (found.value, found.low, found.high))
    said = p(found.p_adjusted)
    numbers = f"difference {value} ({low} to {high}), p {said if said[0] == '<' else f'= {said}'} after Holm"
    if pair.apart:
        return f"{one} scores less harmful than {other} on this measure: {numbers}."
    return f"{one} and {other} cannot be told apart on these texts: {numbers}."


def chart(found: SideBySide) -> Chart:
    """Differences with their intervals where there are any, else values."""
    measure, tested = found.measure, [pair for pair in found.pairs if pair.found]
    what = f"{measure.label}, {slice_label(found.slice)}"
    if tested:
        lines = [
            ForestLine(
                f"{pair.first.model.name}\nthan {pair.second.model.name}",
                pair.found.value,
                pair.found.low,
                pair.found.high,
                verdict(pair, measure),
                pair.apart,
            )
            for pair in tested
            if pair.found
        ]
        alternative = f"How much better one model is than another by {what.lower()}, with 95% intervals. " + " ".join(
            verdict(pair, measure) for pair in tested
        )
        return forest_chart("compare", lines, "scores less harmful by", alternative, reference=0)
    lines = []
    for entry in found.there:
        result = entry.results[found.slice]
        said = f"{entry.model.name}: {decimals(result.value, measure.digits)}"
        if entry.indifferent is not None:
            said += f"; if it were indifferent, {decimals(entry.indifferent, measure.digits)}"
        low, high = result.ci_low, result.ci_high
        lines.append(ForestLine(entry.model.name, result.value, low, high, said, tick=entry.indifferent))
    ticks = " Dotted ticks are what each model would have if it were indifferent." if found.ticked else ""
    alternative = f"{what} of {len(lines)} models, the best on top; the table under it has the same numbers.{ticks}"
    return forest_chart("compare", lines, escape(what), alternative, reference=measure.neutral)
