"""Do a few models differ, and is it significant?"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ForestLine, forest_chart
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Scoring, Work
from leaderboard.numbers import decimals
from leaderboard.queries.side_by_side import (
    LEAST,
    MOST,
    ModelPair,
    Offer,
    SideBySide,
    list_offers,
    side_by_side,
    versions_of,
)
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.populations import population_sizes
from leaderboard.rankings.slices import find_counterpart, rankings_of
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.templatetags.board import p
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import default_metric, families, pick, read_words
from scoring.metrics.formulas import MEASURES, slice_label, slices_in_order
from scoring.metrics.measures import Measure

MOST_NAMED = 50  # models of an address: each has a link to the page without it, which names all others


@dataclass(frozen=True)
class ComparisonChoice:
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
        options = [("m", model.slug) for model in models]
        if self.version:
            options += [("metric", self.metric.slug), ("version", str(self.version.number))]
            options += [("measure", self.measure.key), ("slice", self.slice)]
        return "?" + urlencode(options)


@require_safe
@keep_page(shows_progress=True, reads=("m", "metric", "of", "version", "measure", "slice", "q", *CHART_FILE))
def compare(request: HttpRequest) -> HttpResponse:
    """Two to six models on one version of a metric; with fewer, whom to add, and with more, whom to take out."""
    metrics = metrics_with_versions()
    choice = parse(request, metrics)
    comparison, fits = None, 0
    offers: list[Offer] = []
    version, models = choice.version, choice.models
    sizes = population_sizes(version, choice.measure.key, choice.slice) if version else {}
    if version and LEAST <= len(models) <= MOST:
        comparison = side_by_side(version, choice.measure, choice.slice, models, sizes)
    if version and len(models) < MOST:
        offers, fits = list_offers(version, choice.measure, choice.slice, choice.kind, choice.search, models, sizes)
    forest = chart(comparison) if comparison and len(comparison.entries_in_order) >= LEAST else None
    context = {
        "families": families(metrics),
        "choice": choice,
        "chosen": [(model, choice.address([other for other in models if other != model])) for model in models],
        "suggested": [(offer, choice.address([*models, offer.model])) for offer in offers],
        "leaders": any(offer.leads for offer in offers),
        "fits": fits,
        "least": LEAST,
        "most": MOST,
        "found": comparison,
        "verdicts": [(pair, verdict(pair, choice.measure)) for pair in comparison.pairs] if comparison else [],
        "digits": digits_of(version, choice.measure.key) if version else choice.measure.digits,
        "chart": forest,
    }
    return chart_file(request, [forest]) or render(request, "compare.html", context)


def parse(request: HttpRequest, metrics: list[Metric]) -> ComparisonChoice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist.

    The form says by `of` which metric its other choices are for: they do not hold for another one.
    """
    candidates = chosen_candidates(request)
    metric, counts = choose(request, metrics, [entry for group in candidates for entry in group])
    same = request.GET.get("of", metric.slug) == metric.slug
    versions = [version for version in metric.versions.all() if version.published_at]
    numbers = {str(version.number): version for version in versions}
    best = max(versions, key=lambda version: (counts.get(version.pk, 0), *newest(version)), default=None)
    version = numbers.get(pick(request, "version", str(best.number), list(numbers))) if same and best else best
    models = choose_entries(candidates, version)
    measures = [measure.key for measure in metric.formula.ranked]
    usual = version.first_measure if version else metric.measure
    measure = pick(request, "measure", usual, measures) if same else usual
    rankings = rankings_of({version: measure})[version.pk] if version else set()
    slices = slices_in_order(place for place, _ in rankings)
    slice_name = request.GET.get("slice", "") if same else ""
    name = slice_name if slice_name in slices else find_counterpart(slice_name, slices) or ""
    if not name and slices:
        name = pick(request, "slice", slices[0], slices) if same else slices[0]
    populations = {population for _, population in rankings}
    own = [model.kind for model in models if model.kind in populations]
    return ComparisonChoice(
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


def chosen_candidates(request: HttpRequest) -> list[list[LanguageModel]]:
    """The entries that each `m` of the address may mean, in its order: one, or all of a model. Raises Http404."""
    slugs = list(dict.fromkeys(slug for slug in request.GET.getlist("m") if slug))
    if len(slugs) > MOST_NAMED:
        raise Http404(f"m names {len(slugs)} models: name {MOST_NAMED} at most, of which {MOST} fit side by side")
    entries = LanguageModel.objects.listed().select_related("identity").order_by("pk")
    groups: dict[str, list[LanguageModel]] = {}
    for entry in entries.filter(Q(slug__in=slugs) | Q(identity__slug__in=slugs)):
        for slug in {entry.slug, entry.identity.slug if entry.identity else entry.slug}:
            groups.setdefault(slug, []).append(entry)
    unknown = [slug for slug in slugs if slug not in groups]
    if unknown:
        raise Http404(
            f"m = {unknown[0]!r}: no model of this board has that name in addresses; look for it on the page that "
            "compares models"
        )
    return [groups[slug] for slug in slugs]


def choose_entries(candidates: Sequence[list[LanguageModel]], version: MetricVersion | None) -> list[LanguageModel]:
    """Of each group of entries the one that `version` has scored, else the first; each entry once. In one query."""
    if any(len(group) > 1 for group in candidates):
        scorings = Scoring.objects.filter(metric_version=version, state=Work.State.DONE).order_by()
        scored_models = set(scorings.values_list("model", flat=True))
        entries = [next((entry for entry in group if entry.pk in scored_models), group[0]) for group in candidates]
    else:
        entries = [group[0] for group in candidates]
    return list(dict.fromkeys(entries))


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
    counts = versions_of(models)
    first = default_metric(metrics)
    by_slug = {metric.slug: metric for metric in [first, *metrics]}

    def of_chosen(metric: Metric) -> int:
        current = [version for version in metric.versions.all() if version.status == MetricVersion.Status.CURRENT]
        return max((counts.get(version.pk, 0) for version in current), default=0)

    default = max(by_slug.values(), key=of_chosen)
    return by_slug[pick(request, "metric", default.slug, list(by_slug))], counts


def verdict(pair: ModelPair, measure: Measure) -> str:
    """What the test says of two models, in a sentence."""
    one, other, difference = pair.first.model.name, pair.second.model.name, pair.found
    if difference is None:
        return f"{one} and {other}: the difference cannot be tested."
    value, low, high = (
        decimals(number, measure.digits) for number in (difference.value, difference.low, difference.high)
    )
    p_text = p(difference.p_adjusted)
    numbers = f"difference {value} ({low} to {high}), p {p_text if p_text[0] == '<' else f'= {p_text}'} after Holm"
    if pair.apart:
        return f"{one} scores less harmful than {other} on this measure: {numbers}."
    return f"{one} and {other} cannot be told apart on these texts: {numbers}."


def chart(comparison: SideBySide) -> Chart:
    """Differences with their intervals where there are any, else values."""
    measure, tested_pairs = comparison.measure, [pair for pair in comparison.pairs if pair.found]
    quantity = f"{measure.label}, {slice_label(comparison.slice)}"
    if tested_pairs:
        lines = [
            ForestLine(
                f"{pair.first.model.name}\nthan {pair.second.model.name}",
                pair.found.value,
                pair.found.low,
                pair.found.high,
                verdict(pair, measure),
                pair.apart,
            )
            for pair in tested_pairs
            if pair.found
        ]
        alternative = (
            f"How much better one model is than another by {quantity.lower()}, with 95% intervals. "
            + " ".join(verdict(pair, measure) for pair in tested_pairs)
        )
        span = measure.largest - measure.smallest
        return forest_chart("compare", lines, "scores less harmful by", alternative, 0, (-span, span))
    lines, digits = [], digits_of(comparison.version, measure.key)
    for entry in comparison.entries_in_order:
        result = entry.results[comparison.slice]
        caption = f"{entry.model.name}: {decimals(result.value, digits)}"
        if entry.indifferent is not None:
            caption += f"; if it were indifferent, {decimals(entry.indifferent, digits)}"
        low, high, link = result.ci_low, result.ci_high, entry.model.get_absolute_url()
        lines.append(ForestLine(entry.model.name, result.value, low, high, caption, tick=entry.indifferent, link=link))
    ticks = " Dotted ticks are what each model would have if it were indifferent." if comparison.ticked else ""
    alternative = f"{quantity} of {len(lines)} models, the best on top; the table under it has the same numbers.{ticks}"
    return forest_chart("compare", lines, quantity, alternative, measure.neutral, (measure.smallest, measure.largest))
