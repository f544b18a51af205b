"""Who stands where, now?"""

from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.models import Metric, Provenance, Run, Scoring, Standing, Work
from leaderboard.rankings import WITHIN_KIND, Ranking, current_versions, headline_slice, ranking
from leaderboard.views.polling import polling
from scoring.metrics.safety import RANKED

BOTH = "both"


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists."""

    metric: Metric
    measure: str
    slice: str
    slices: list[str]  # those to choose from
    provenance: str
    kind: str


@require_safe
def rankings(request: HttpRequest) -> HttpResponse:
    """The ranking page. Without `provenance` published figures follow in a table of their own."""
    metrics = list(Metric.objects.select_related("protocol__evaluation_set"))
    choice = parse(request, metrics)
    runs = list(
        Run.objects.filter(protocol=choice.metric.protocol)
        .exclude(state=Work.State.DONE)
        .select_related("model", "protocol__evaluation_set")
    )
    poll = polling(request, Scoring.objects.filter(metric_version__metric=choice.metric))
    context = {
        "metrics": metrics,
        "choice": choice,
        "measures": RANKED,
        "provenances": [*Provenance.choices, (BOTH, "Both in one ranking")],
        "kinds": [(WITHIN_KIND, "Each kind by itself"), *Standing.Population.choices],
        "tables": choose_tables(choice, metrics) if poll["fresh"] else [],
        "runs": runs,
        **poll,
    }
    return render(request, "rankings.html", context)


def choose_tables(choice: Choice, metrics: list[Metric]) -> list[Ranking]:
    """One ranking; or, where the viewer made no choice, the measured one and then the published one.

    A metric without published figures borrows those of the first metric that has some, so that a new board shows what
    such numbers look like; the table names the metric it is of.
    """

    def table(metric: Metric, provenances: list[Provenance], name: str) -> list[Ranking]:
        versions = current_versions(metric, provenances)
        return [ranking(metric, versions, choice.measure, name, choice.kind)] if versions else []

    if choice.provenance == BOTH:
        return table(choice.metric, list(Provenance), choice.slice)
    if choice.provenance:
        return table(choice.metric, [Provenance(choice.provenance)], choice.slice)
    measured = table(choice.metric, [Provenance.MEASURED], choice.slice)
    for metric in [choice.metric, *metrics]:
        name = choice.slice if metric == choice.metric else headline_slice(slices(metric))
        published = table(metric, [Provenance.PUBLISHED], name)
        if any(of.models for of in published):
            return measured + published
    return measured


def slices(metric: Metric) -> list[str]:
    """The slices of a metric's headline measure, from its evaluation set or its published standings."""
    names = Standing.objects.filter(metric_version__metric=metric).values_list("slice", flat=True).distinct()
    counts = metric.protocol.evaluation_set.counts
    found = set(names.order_by()) | (set(counts) | {"average"} if len(counts) > 1 else set())
    overall = headline_slice(found)
    return [overall, *sorted(found - {overall})]


def parse(request: HttpRequest, metrics: list[Metric]) -> Choice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist."""
    by_slug = {metric.slug: metric for metric in metrics}
    if not by_slug:
        raise Http404("This board has no metrics yet: run manage.py seed")

    def pick(name: str, default: str, known: list[str]) -> str:
        value = request.GET.get(name, default)
        if value not in known:
            raise Http404(f"{name} = {value!r} does not exist here. Known: {', '.join(filter(None, known))}")
        return value

    metric = by_slug[pick("metric", default_metric(metrics).slug, list(by_slug))]
    known_slices = slices(metric)
    return Choice(
        metric=metric,
        measure=pick("measure", metric.measure, [measure.key for measure in RANKED]),
        slice=pick("slice", known_slices[0], known_slices),
        slices=known_slices,
        provenance=pick("provenance", "", ["", *Provenance.values, BOTH]),
        kind=pick("kind", WITHIN_KIND, [WITHIN_KIND, *Standing.Population.values]),
    )


def default_metric(metrics: list[Metric]) -> Metric:
    """The first metric whose texts are at hand, and so can be measured here; else the first."""
    return next((metric for metric in metrics if metric.protocol.evaluation_set.artefact_id), metrics[0])
