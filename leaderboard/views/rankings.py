"""Who stands where, now?"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.models import Metric, MetricVersion, Provenance, Rescoring, Run, Scoring, Standing, Work
from leaderboard.queries.rankings import (
    WITHIN_KIND,
    Ranking,
    current_versions,
    has_history,
    metrics_with_versions,
    ranking,
)
from leaderboard.queries.scorer_state import scorer_state
from leaderboard.services.scorers import problem_with
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import choose_metric, families, pick
from leaderboard.views.polling import polling
from scoring.metrics.formulas import slice_parts, slices_in_order
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL, AVERAGE
from scoring.metrics.toxicity import PARTS, RESCORED, TOXIC

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
    version: MetricVersion | None  # one that is chosen by its number; None for the current ones


@dataclass(frozen=True)
class Scenario:
    """One of the three views of Pozzobon et al. 2023 of the same outputs."""

    label: str
    note: str
    address: str
    chosen: bool


@require_safe
@kept(watching=True)
def rankings(request: HttpRequest) -> HttpResponse:
    """The ranking page. Without `provenance` published figures follow in a table of their own."""
    metrics = metrics_with_versions()
    choice = parse(request, metrics)
    poll = polling(request, Scoring.objects.filter(metric_version__metric=choice.metric))
    scorer = scorer_state(choice.metric)
    context = {
        "families": families(metrics),
        "choice": choice,
        "measures": choice.metric.formula.ranked,
        "provenances": [*Provenance.choices, (BOTH, "Both in one ranking")],
        "kinds": [(WITHIN_KIND, "Each kind by itself"), *Standing.Population.choices],
        "versions": published_versions(choice.metric),
        "problem": None if only_published(choice.metric) else problem_with(choice.metric.scorer),
        "scenarios": scenarios(choice),
        "reading": f"reading/{choice.metric.formula_name}.html",
        "tables": choose_tables(choice, metrics) if poll["fresh"] else [],
        "works": work_under_way(choice.metric, scorer.rescoring),
        "scorer": scorer,
        "has_history": has_history(choice.metric),
        **poll,
    }
    return render(request, "rankings.html", context)


def published_versions(metric: Metric) -> list[MetricVersion]:
    """Those that a reader may look at, oldest first: not one that a rescoring given up has left behind."""
    return [version for version in metric.versions.all() if version.published_at]


def only_published(metric: Metric) -> bool:
    """Whether all it shows is figures of papers, for which nobody needs its scorer."""
    versions = published_versions(metric)
    return bool(versions) and not any(version.measured for version in versions)


def scenarios(choice: Choice) -> list[Scenario]:
    """Which version's scores of the continuations are shown, and whose scores of the prompts split them.

    Versions of one provenance only: that of the chosen version, else of the last. Nothing where the prompts are not
    split by published scores, or nothing is ranked yet.
    """
    attribute, part = slice_parts(choice.slice)
    versions = published_versions(choice.metric)
    base = part.removesuffix(RESCORED) if part in PARTS and part != ALL else TOXIC

    def of(part: str) -> str:
        return slice_of(attribute, part) if attribute else part

    if not versions or of(base) not in choice.slices:
        return []
    shown = choice.version or versions[-1]
    versions = [version for version in versions if version.provenance == shown.provenance]
    first, last = versions[0], versions[-1]
    at_first = "As first scored" if first.measured else "As published"
    views = [(first, "", at_first)] if first != last else []
    views += [(last, "", "Generations rescored" if views else at_first)]
    views += [(last, RESCORED, "Generations and prompts rescored")]
    return [
        Scenario(
            label,
            f"version {version.number}, prompts split by {'its own' if suffix else 'published'} scores",
            "?"
            + urlencode(
                {
                    "metric": choice.metric.slug,
                    "measure": choice.measure,
                    "slice": of(base + suffix),
                    "version": version.number,
                }
            ),
            choice.version is not None and version == shown and part == base + suffix,
        )
        for version, suffix, label in views
        if of(base + suffix) in choice.slices
    ]


def work_under_way(metric: Metric, rescoring: Rescoring | None) -> list[Run | Scoring]:
    """What evaluations that are waiting, running or failed are at: the model's outputs, then their scores.

    Entries that wait for a rescoring to score what was collected are left out: it says how many are done.
    """
    unfinished = (
        Scoring.objects.filter(metric_version__metric=metric, run__isnull=False)
        .exclude(state__in=[Work.State.DONE, Work.State.CANCELLED])
        .select_related("model", "run__model", "run__protocol__evaluation_set")
    )
    if rescoring:
        waiting = Q(state__in=[Work.State.QUEUED, Work.State.RUNNING], run__state=Work.State.DONE)
        unfinished = unfinished.exclude(waiting, metric_version=rescoring.to_version)
    return [scoring if scoring.run.state == Work.State.DONE else scoring.run for scoring in unfinished if scoring.run]


def choose_tables(choice: Choice, metrics: list[Metric]) -> list[Ranking]:
    """One ranking; or, where the viewer made no choice, the measured one and then the published one.

    A metric of likelihoods without published figures borrows those of the first metric that has some, so that a new
    board shows what such numbers look like; the table names the metric it is of. One of continuations does not: figures
    of another scorer say little about its own.
    """

    def table(metric: Metric, versions: list[MetricVersion], name: str | None) -> list[Ranking]:
        return [ranking(metric, versions, choice.measure, name, choice.kind)] if versions else []

    if choice.version:
        return table(choice.metric, [choice.version], choice.slice)
    if choice.provenance == BOTH:
        return table(choice.metric, current_versions(choice.metric, list(Provenance)), choice.slice)
    if choice.provenance:
        return table(choice.metric, current_versions(choice.metric, [Provenance(choice.provenance)]), choice.slice)
    measured = table(choice.metric, current_versions(choice.metric, [Provenance.MEASURED]), choice.slice)
    for metric in [choice.metric, *metrics]:
        borrowed = metric != choice.metric
        if borrowed and (metric.formula_name != choice.metric.formula_name or metric.formula.asks_scorer):
            continue
        versions = current_versions(metric, [Provenance.PUBLISHED])
        if not versions:
            continue
        published = table(metric, versions, None if borrowed else choice.slice)
        if any(of.models for of in published):
            return measured + published
    return measured


def slices(metric: Metric, measure: str) -> list[str]:
    """The slices that a measure is ranked on, the overall one first; what is to come where nothing is ranked yet."""
    ranked = Standing.objects.filter(metric_version__metric=metric, measure=measure).values_list("slice", flat=True)
    found = set(ranked.distinct().order_by())
    counts = metric.protocol.evaluation_set.counts
    if not found and metric.formula.by_kind:
        found = set(counts) | ({AVERAGE} if len(counts) > 1 else set())
    return slices_in_order(found) or [AVERAGE]


def parse(request: HttpRequest, metrics: list[Metric]) -> Choice:
    """Read the address. Raises Http404 with a sentence where it names something that does not exist."""
    metric = choose_metric(request, metrics)
    measure = pick(request, "measure", metric.measure, [measure.key for measure in metric.formula.ranked])
    known_slices = slices(metric, measure)
    versions = {str(version.number): version for version in published_versions(metric)}
    number = pick(request, "version", "", ["", *versions])
    return Choice(
        metric=metric,
        measure=measure,
        slice=pick(request, "slice", known_slices[0], known_slices),
        slices=known_slices,
        provenance=pick(request, "provenance", "", ["", *Provenance.values, BOTH]),
        kind=pick(request, "kind", WITHIN_KIND, [WITHIN_KIND, *Standing.Population.values]),
        version=versions.get(number),
    )
