"""How did rankings move from one version of a metric to the next?"""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from leaderboard.charts import BumpColumn, BumpLine, Chart, bump_chart
from leaderboard.models import Metric, Standing, address_of_model
from leaderboard.queries.scenarios import has_scenarios
from leaderboard.rankings.digits import digits_between
from leaderboard.rankings.history import (
    HistoryStep,
    ModelHistory,
    VersionChanges,
    changes,
    lines,
    list_moves,
    list_steps,
    sizes,
    spell_slice,
    summary,
)
from leaderboard.rankings.populations import first_population, population_in_words, population_title
from leaderboard.rankings.slices import rankings_of
from leaderboard.rankings.versions import has_history, metrics_with_versions
from leaderboard.templatetags.layout import counted
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import choose_metric, families, pick
from scoring.metrics.formulas import MEASURES, slice_phrase, slices_in_order
from scoring.metrics.measures import Measure

ALL, DEFAULT_TOP = "all", "50"
FEWER_TOP, MANY_VERSIONS = "20", 10  # so many models where there are more versions
MOST_BESIDE = 4  # versions that leave room for a table beside the chart
TOPS = ["10", "20", DEFAULT_TOP, "100", "200"]
MOST = 200  # models that a chart can show and a page can hold


@dataclass(frozen=True)
class HistoryChoice:
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
@keep_page(reads=("metric", "of", "measure", "slice", "kind", "from", "to", "top", "family", "model", *CHART_FILE))
def history(request: HttpRequest) -> HttpResponse:
    """The ranks of every model over the versions of a metric, and what changed between two of them.

    Of the versions that make one history with those that the address names.
    """
    metrics = metrics_with_versions()
    metric = choose_metric(request, metrics, next(filter(has_history, metrics), None))
    if request.GET.get("of", metric.slug) != metric.slug:  # the form's other choices are of another metric
        return redirect(f"{request.path}?{urlencode({'metric': metric.slug})}")
    steps = list_steps(metric, request.GET.get("from") or request.GET.get("to", ""))
    choice, model_lines, counts, version_changes = parse(request, metric, steps)
    visible_lines = [line for line in model_lines if choice.family in ("", line.family)]
    visible_lines = visible_lines if choice.top == ALL else visible_lines[: int(choice.top)]
    decimals = (
        digits_between(version_changes.before, version_changes.after, choice.measure.key)
        if version_changes
        else choice.measure.digits
    )
    slugs = {line.slug for line in visible_lines}
    by_kind = metric.formula.by_kind
    population_words = [population_in_words(size, choice.population, by_kind) if size else "" for size in counts]
    bump = (
        chart(choice, steps, population_words, visible_lines, version_changes, list_moves(model_lines))
        if version_changes and visible_lines
        else None
    )
    context = {
        "families": families(metrics),
        "choice": choice,
        "steps": steps,
        "population": population_title(choice.population, by_kind) if choice.population else "",
        "sizes": counts,
        "beside": len(steps) <= MOST_BESIDE,
        "tops": [(top, "All" if top == ALL else f"First {top}") for top in choice.tops],
        "kinds": [(value, label) for value, label in Standing.Population.choices if value in choice.populations],
        "has_scenarios": has_scenarios(metric),
        "lines": model_lines,
        "shown": visible_lines,
        "hidden": len(model_lines) - len(visible_lines),
        "moved": version_changes,
        "rows": [row for row in version_changes.rows if row[0].slug in slugs] if version_changes else [],
        "digits": decimals,
        "sentences": summary(version_changes, decimals) if version_changes else [],
        "chart": bump,
    }
    return chart_file(request, [bump]) or render(request, "history.html", context)


def parse(
    request: HttpRequest, metric: Metric, steps: list[HistoryStep]
) -> tuple[HistoryChoice, list[ModelHistory], list[int], VersionChanges | None]:
    """Read the rest of the address, the ranks that it asks for, of how many models these are, and what changed.

    Raises Http404 with a sentence.
    """
    measures = [measure.key for measure in metric.formula.ranked]
    measure = pick(request, "measure", steps[-1].version.first_measure if steps else metric.measure, measures)
    rankings = rankings_of({step.version: measure for step in steps})
    by_version = {pk: slices_in_order(name for name, _ in boards) for pk, boards in rankings.items()}
    slices = slices_in_order(name for version_slices in by_version.values() for name in version_slices)
    numbers = [str(step.version.number) for step in steps]
    from_position = numbers.index(pick(request, "from", numbers[-2], numbers)) if len(steps) > 1 else 0
    to_position = numbers.index(pick(request, "to", numbers[-1], numbers)) if len(steps) > 1 else 0
    kinds = [{population for _, population in rankings[step.version.pk]} for step in steps]
    all_kinds = set().union(*kinds)
    populations = [population for population in Standing.Population.values if population in all_kinds]
    shared_kinds = kinds[from_position] & kinds[to_position] if steps else set()
    name = pick(request, "slice", slices[0], slices) if slices else ""
    population = pick(request, "kind", first_population(metric, shared_kinds), populations) if populations else ""
    board = steps, measure, spell_slice(by_version, name), population
    model_lines = lines(*board)
    tops = TOPS if len(model_lines) > MOST else [*TOPS, ALL]
    names = sorted({line.family for line in model_lines if line.family})
    choice = HistoryChoice(
        metric=metric,
        measure=MEASURES[measure],
        slice=name,
        slices=slices,
        population=population,
        populations=populations,
        before=from_position,
        after=to_position,
        top=pick(request, "top", FEWER_TOP if len(steps) > MANY_VERSIONS else DEFAULT_TOP, tops),
        tops=tops,
        family=pick(request, "family", "", ["", *names]),
        families=names,
        model=pick(request, "model", "", ["", *(line.slug for line in model_lines)]),
    )
    version_changes = changes(model_lines, *board, (from_position, to_position)) if len(steps) > 1 else None
    return choice, model_lines, sizes(*board), version_changes


def chart(
    choice: HistoryChoice,
    steps: list[HistoryStep],
    population_words: list[str],
    visible_lines: list[ModelHistory],
    version_changes: VersionChanges,
    moves: dict[str, list[int | None]],
) -> Chart:
    """The ranks of the models shown, as a bump chart."""
    versions = [step.version for step in steps]
    columns = [
        BumpColumn(
            step.version.number,
            captions(step),
            population,
            renewed=bool(step.other_scorer),
        )
        for step, population in zip(steps, population_words, strict=True)
    ]
    return bump_chart(
        f"{choice.metric.slug}-history",
        columns,
        [bump_line(line, moves[line.slug]) for line in visible_lines],
        f"Ranks of {counted(len(visible_lines), 'model')} by {choice.measure.label.lower()}, "
        f"{slice_phrase(choice.slice)}, under versions {versions[0].number} to {versions[-1].number} of "
        f"{choice.metric.title}, the best on top; under the last, ranks are among "
        f"{population_words[-1] or 'no models'}. Between versions {version_changes.before.number} and "
        f"{version_changes.after.number} {version_changes.record.changed_ranks} of "
        f"{len(version_changes.record.models)} ranks changed. The table under it has the same numbers.",
        choice.model,
    )


def captions(step: HistoryStep) -> tuple[str, ...]:
    """Lines under a version's number: when it was published, which nobody knows of a paper's, and why."""
    version = step.version
    is_dated = version.measured and version.published_at
    day = (f"{version.published_at:%-d %b}", f"{version.published_at:%Y}") if is_dated else ()
    return (*day, *step.cause.split())


def bump_line(line: ModelHistory, moves: list[int | None]) -> BumpLine:
    """The line of a model."""
    ranges = [(place.low, place.high) if place and place.low and place.high else None for place in line.places]
    return BumpLine(line.slug, line.name, line.ranks, moves, ranges, address_of_model(line.slug))
