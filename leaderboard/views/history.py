"""How did rankings move from one version of a metric to the next?"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from leaderboard.charts import BumpColumn, BumpLine, Chart, bump_chart
from leaderboard.models import Metric, MetricVersion, Standing
from leaderboard.queries.history import Changes, Line, Step, boards, changes, lines, sizes, spelled, summary, told
from leaderboard.queries.rankings import has_history, metrics_with_versions
from leaderboard.services.places import population_in_words, population_title
from leaderboard.views.keeping import kept
from leaderboard.views.parameters import choose_metric, families, pick
from scoring.metrics.formulas import MEASURES, slice_label, slices_in_order
from scoring.metrics.measures import Measure

ALL, DEFAULT_TOP = "all", "50"
FEWER_TOP, MANY_VERSIONS = "20", 10  # so many models where there are more versions
MOST_BESIDE = 5  # versions that leave room for a table beside the chart
TOPS = ["10", "20", DEFAULT_TOP, "100", "200"]
MOST = 200  # models that a chart can show and a page can hold


@dataclass(frozen=True)
class Choice:
    """What the address asks for; every value is one that exists. `before` and `after` are positions in the history."""

    metric: Metric
    measure: Measure
    slice: str
    slices: list[str]
    population: str
    populations: list[str]
    before: int
    after: int
    top: str
    tops: list[str]
    family: str
    families: list[str]
    model: str


@require_safe
@kept(reads=("metric", "of", "measure", "slice", "kind", "from", "to", "top", "family", "model"))
def history(request: HttpRequest) -> HttpResponse:
    """The ranks of every model over the versions of a metric, and what changed between two of them."""
    metrics = metrics_with_versions()
    metric = choose_metric(request, metrics, next(filter(has_history, metrics), None))
    if request.GET.get("of", metric.slug) != metric.slug:  # the form's other choices are of another metric
        return redirect(f"{request.path}?{urlencode({'metric': metric.slug})}")
    steps = told(metric)
    choice, found, counts = parse(request, metric, steps)
    shown = [line for line in found if choice.family in ("", line.family)]
    shown = shown if choice.top == ALL else shown[: int(choice.top)]
    moved = changes(found, steps, choice.measure.key, choice.before, choice.after) if len(steps) > 1 else None
    decimals = digits(choice.measure, moved)
    slugs = {line.slug for line in shown}
    by_kind = metric.formula.by_kind
    among = [population_in_words(size, choice.population, by_kind) if size else "" for size in counts]
    context = {
        "families": families(metrics),
        "choice": choice,
        "steps": steps,
        "population": population_title(choice.population, by_kind) if choice.population else "",
        "sizes": counts,
        "beside": len(steps) <= MOST_BESIDE,
        "tops": [(top, "All" if top == ALL else f"First {top}") for top in choice.tops],
        "kinds": [(value, label) for value, label in Standing.Population.choices if value in choice.populations],
        "lines": found,
        "shown": shown,
        "hidden": len(found) - len(shown),
        "moved": moved,
        "rows": [row for row in moved.rows if row[0].slug in slugs] if moved else [],
        "digits": decimals,
        "sentences": summary(moved, decimals) if moved else [],
        "chart": chart(choice, steps, among, shown, moved) if moved and shown else None,
    }
    return render(request, "history.html", context)


def parse(request: HttpRequest, metric: Metric, steps: list[Step]) -> tuple[Choice, list[Line], list[int]]:
    """Read the rest of the address, the ranks that it asks for, and of how many models these are under each version.

    Raises Http404 with a sentence.
    """
    measures = [measure.key for measure in metric.formula.ranked]
    measure = pick(request, "measure", steps[-1].version.first_measure if steps else metric.measure, measures)
    there = boards([step.version for step in steps], measure)
    slices = slices_in_order(name for of in there.slices.values() for name in of)
    populations = there.populations
    if metric.formula.by_kind:  # by default of one kind: values of different kinds are different quantities
        populations = sorted(populations, key=lambda population: population == Standing.Population.ALL)
    name = pick(request, "slice", slices[0], slices) if slices else ""
    population = pick(request, "kind", populations[0], populations) if populations else ""
    numbers = [str(step.version.number) for step in steps]
    before = pick(request, "from", numbers[-2], numbers) if len(steps) > 1 else ""
    after = pick(request, "to", numbers[-1], numbers) if len(steps) > 1 else ""
    board = steps, measure, spelled(there, name), population
    found = lines(*board)
    tops = TOPS if len(found) > MOST else [*TOPS, ALL]
    names = sorted({line.family for line in found if line.family})
    choice = Choice(
        metric=metric,
        measure=MEASURES[measure],
        slice=name,
        slices=slices,
        population=population,
        populations=populations,
        before=numbers.index(before) if before else 0,
        after=numbers.index(after) if after else 0,
        top=pick(request, "top", FEWER_TOP if len(steps) > MANY_VERSIONS else DEFAULT_TOP, tops),
        tops=tops,
        family=pick(request, "family", "", ["", *names]),
        families=names,
        model=pick(request, "model", "", ["", *(line.slug for line in found)]),
    )
    return choice, found, sizes(*board)


def digits(measure: Measure, moved: Changes | None) -> int:
    """Decimals that values are shown with: as printed, else those of the measure."""
    printed = moved.record.decimals if moved else None
    return measure.digits if printed is None else printed


def chart(choice: Choice, steps: list[Step], among: list[str], shown: list[Line], moved: Changes) -> Chart:
    """The ranks of the models shown, as a bump chart."""
    change = {line.slug: model.change for line, _, _, model in moved.rows}
    versions = [step.version for step in steps]
    columns = [
        BumpColumn(
            step.version.number,
            caption(step.version),
            f"scorer: {step.version.scorer}" if step.other_scorer else "",
            population,
        )
        for step, population in zip(steps, among, strict=True)
    ]
    return bump_chart(
        f"{choice.metric.slug}-history",
        columns,
        [BumpLine(line.slug, line.name, line.ranks, change.get(line.slug)) for line in shown],
        f"Ranks of {len(shown)} models by {choice.measure.label.lower()}, {slice_label(choice.slice).lower()}, under "
        f"versions {versions[0].number} to {versions[-1].number} of {choice.metric.title}, the best on top; under the "
        f"last, ranks are among {among[-1] or 'no models'}. Between "
        f"versions {moved.before.number} and {moved.after.number} {moved.record.changed_ranks} of "
        f"{len(moved.record.models)} ranks changed. The table under it has the same numbers.",
    )


def caption(version: MetricVersion) -> str:
    """What stands under a version's number, in two lines: when it was published, which nobody knows of a paper's."""
    known = version.measured and version.published_at
    return f"{version.published_at:%-d %b<br>%Y}" if known else "published<br>figures"
