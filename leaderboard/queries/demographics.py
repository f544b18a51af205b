"""Who is harmed? A metric's values by demographic: as a heat map, as boxes, and of one demographic as a ranking."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from django.db.models import Count, Q
from django.urls import reverse

from leaderboard.charts import BoxColumn, BoxPoint, drawn_positions
from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Result,
    Scoring,
    Standing,
    Work,
    is_listed,
    is_unranked,
    not_held,
    significance,
)
from leaderboard.numbers import decimals, plus
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.populations import leading_count, population_title
from leaderboard.rankings.scales import Shades, WhiskerScale, fit_scale, fit_shades
from leaderboard.services.hosseini_figures import indifferent_at
from leaderboard.state_memo import large_answers, once_a_state
from scoring.metrics.formulas import MEASURES, slice_label, slices_in_order
from scoring.metrics.measures import Measure
from scoring.metrics.safety import ALL, AVERAGE, DISTILLED
from scoring.statistics.boxes import Box, box
from scoring.statistics.correlations import pearson

OVERALL = (AVERAGE, ALL)  # slices that are no demographic
# Of log-perplexity, in nats a token. Published models have 1.0 to 2.3 (Hosseini et al. 2023, Table 9): a wider spread
# raises the values of all demographics, and their correlation with the medians stays between 0.77 and 0.79.
SPREAD = 0.8
MANY = 10  # models from which on the one that is worst off most often is worth naming


class BoardModel(NamedTuple):
    """A model of the board."""

    slug: str
    name: str
    kind: str


@dataclass(frozen=True)
class Board:
    """Every value of one measure under one version, among the models of one population.

    values: by slice, of each model that has one, by its key. indifferent: in the same way, what each model would have
    if it were indifferent, where that is a value of its own.
    """

    version: MetricVersion
    measure: Measure
    population: str
    entries: dict[int, BoardModel]
    values: dict[str, dict[int, float]]
    indifferent: dict[str, dict[int, float]]

    @cached_property
    def slices(self) -> list[str]:
        """All of them, the overall one first."""
        return slices_in_order(self.values)

    @cached_property
    def demographics(self) -> list[str]:
        """Those that are demographics."""
        return [name for name in self.slices if name not in OVERALL]

    @property
    def overall(self) -> str:
        """The slice over all of them, "" where there is none."""
        return next((name for name in self.slices if name in OVERALL), "")

    @property
    def models(self) -> int:
        """How many models have any value."""
        return len(self.measured_models)

    @cached_property
    def measured_models(self) -> set[int]:
        """The models that have any value."""
        return set[int]().union(*self.values.values())

    @property
    def title(self) -> str:
        """Whose values they are."""
        return population_title(self.population, self.version.metric.formula.by_kind)

    @cached_property
    def kinds(self) -> set[str]:
        """The kinds of the models that have any value."""
        return {self.entries[model].kind for model in self.measured_models}

    @property
    def digits(self) -> int:
        """Decimals to show values with: as printed, else those of the measure."""
        return digits_of(self.version, self.measure.key)

    @cached_property
    def ticked(self) -> bool:
        """Whether the models' own indifferent values on demographics are known."""
        return any(name in self.indifferent for name in self.demographics)

    @property
    def best(self) -> float:
        """1 where higher values are better, else -1."""
        return -1.0 if self.measure.direction == "lower" else 1.0

    @cached_property
    def scale(self) -> WhiskerScale:
        """The scale of whiskers."""
        value_groups = (by_model for by_slice in (self.values, self.indifferent) for by_model in by_slice.values())
        return fit_scale(self.measure, (value for by_model in value_groups for value in by_model.values()))

    def in_order(self, name: str) -> list[int]:
        """The models by their value on slice `name`, the best first, those without one last."""
        values, last = self.values.get(name, {}), math.inf
        return sorted(
            self.measured_models, key=lambda key: (-self.best * values[key] if key in values else last, self.name(key))
        )

    def name(self, model: int) -> str:
        """Of a model."""
        return self.entries[model].name


def of_demographics(metric: Metric) -> bool:
    """Whether the slices of a metric are demographics."""
    return metric.formula.by_demographic


@once_a_state(lambda version: version.pk)
def entries_of(version: MetricVersion) -> dict[int, BoardModel]:
    """The models that `version` ranks, without hidden ones; in one query.

    By their entries: their standings are many times as many.
    """
    entries = Scoring.objects.filter(not_held(), ~is_unranked(), metric_version=version, state=Work.State.DONE)
    rows = LanguageModel.objects.listed().filter(pk__in=entries.values("model")).order_by()
    return {pk: BoardModel(*fields) for pk, *fields in rows.values_list("pk", "slug", "name", "kind")}


@once_a_state(lambda version: version.pk)
def usual_measure(version: MetricVersion) -> str:
    """The measure shown unless another is asked for: the version's first one of those it ranks on demographics."""
    standings = version.standings.exclude(slice__in=(*OVERALL, *DISTILLED)).order_by()
    return version.measure_among(set(standings.values_list("measure", flat=True).distinct()))


@once_a_state(lambda version, measure, population, entries: (version.pk, measure, population), large_answers)
def board(version: MetricVersion, measure: str, population: str, entries: dict[int, BoardModel]) -> Board:
    """Every value there is but those of distilled models, which have averages alone; as standings have them.

    Without models that were withdrawn or hidden.
    In one query, and one more where indifferent values are models' own.
    """
    standings = Standing.objects.filter(
        is_listed("model__"), metric_version=version, measure=measure, population=population
    ).exclude(slice__in=DISTILLED)
    values: dict[str, dict[int, float]] = {}
    for name, model, value in standings.order_by().values_list("slice", "model_id", "value"):
        values.setdefault(name, {})[model] = value
    indifferent: dict[str, dict[int, float]] = {}
    if key := MEASURES[measure].indifferent_key:
        own = Result.objects.filter(scoring__metric_version=version, measure=key).order_by()
        for name, model, value in own.values_list("slice", "scoring__model_id", "value"):
            if model in values.get(name, {}):
                indifferent.setdefault(name, {})[model] = value
    return Board(version, MEASURES[measure], population, entries, values, indifferent)


def shades_of(board: Board) -> Shades:
    """The shades of a board: the same for all its pages."""
    values: list[float] = []
    indifferent: list[float | None] = []
    for name in board.demographics:
        own_values = board.indifferent.get(name, {})
        values += board.values[name].values()
        indifferent += [own_values.get(model) for model in board.values[name]]
    return fit_shades(board.measure, values, indifferent)


class HeatMapCell(NamedTuple):
    """A value with its shade; `significant` is None where no test was made.

    indifferent: what the model would have there if it were indifferent, where that is a value of its own.
    """

    value: float
    level: int
    significant: bool | None
    indifferent: float | None


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A model; a cell a slice of the board, None where it has no value."""

    entry: BoardModel
    cells: list[HeatMapCell | None]


def heat_rows(board: Board, shades: Shades, models: Sequence[int]) -> list[HeatRow]:
    """The rows of `models`, in one query for their tests."""
    verdicts = read_verdicts(board, Q(model__in=models))

    def cell(model: int, name: str) -> HeatMapCell | None:
        value = board.values[name].get(model)
        if value is None:
            return None
        own = board.indifferent.get(name, {}).get(model)
        return HeatMapCell(value, shades.level(value, own), verdicts.get((model, name)), own)

    slices = board.slices
    return [HeatRow(board.entries[model], [cell(model, name) for name in slices]) for model in models]


def read_verdicts(board: Board, condition: Q) -> dict[tuple[int, str], bool | None]:
    """Whether values differ from an indifferent model's at 5%, after Holm, by model and slice, in one query."""
    key = board.measure.tested_key
    rows = Standing.objects.filter(condition, metric_version=board.version, measure=key, population=board.population)
    tests = rows.order_by().values_list("model_id", "slice", "result__p_adjusted")
    return {(model, name): significance(key, p_adjusted) for model, name, p_adjusted in tests}


def boxes(board: Board) -> list[tuple[str, BoxColumn]]:
    """A box a demographic, the one with the worst median first."""
    columns = []
    for name in board.demographics:
        models, values = list(board.values[name]), list(board.values[name].values())
        numbers = box(values)
        points = {}
        for position in drawn_positions(numbers, len(models)):
            entry = board.entries[models[position]]
            points[position] = BoxPoint(entry.name, values[position], entry.kind, reverse("model", args=[entry.slug]))
        own = list(board.indifferent.get(name, {}).values())
        indifferent = float(np.median(own)) if own else None
        columns.append((name, BoxColumn(slice_label(name), numbers, len(models), points, indifferent)))
    return sorted(columns, key=lambda pair: (board.best * pair[1].box.median, pair[0]))


@dataclass(frozen=True, slots=True)
class Ranked:
    """One place of a demographic's own ranking, with what its value is made of."""

    entry: BoardModel
    rank: int
    rank_low: int | None
    rank_high: int | None
    measure: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int | None
    missing: int
    missing_texts: int | None
    derived: bool
    interval_derived: bool
    significant: bool | None  # whether it differs from an indifferent model's at 5%, after Holm; None without a test
    indifferent: float | None


@dataclass(frozen=True, slots=True)
class OwnRanking:
    """Some places of a demographic's own ranking; `size`: of how many models its ranks are, `leading` of them lead."""

    rows: list[Ranked]
    size: int
    leading: int


def own_ranking(board: Board, name: str, first: int, count: int) -> OwnRanking:
    """The ranking of `board` on slice `name`, in three queries: `count` places after `first`."""
    everybody = Standing.objects.filter(
        metric_version=board.version, measure=board.measure.key, population=board.population, slice=name
    )
    counts = everybody.aggregate(size=Count("pk"), first=Count("pk", filter=Q(rank_low=1)))
    rows = everybody.filter(is_listed("model__")).order_by("rank", "model__name")
    fields = ("rank", "rank_low", "rank_high", "measure", "value")
    results = ("ci_low", "ci_high", "n", "missing", "missing_texts", "derived", "interval_derived")
    places = rows.values_list("model_id", *fields, *(f"result__{name}" for name in results))[first : first + count]
    own, verdicts = board.indifferent.get(name, {}), read_verdicts(board, Q(slice=name))
    rows_of_models = [
        Ranked(board.entries[model], *(*numbers, verdicts.get((model, name)), own.get(model)))
        for model, *numbers in places
    ]
    return OwnRanking(rows_of_models, counts["size"], leading_count(counts["first"], counts["size"]))


def sentences(board: Board, columns: Sequence[tuple[str, BoxColumn]]) -> list[str]:
    """What the boxes come to."""
    if len(columns) < 2:
        return []
    (_, worst), (_, best) = columns[0], columns[-1]
    digits = board.digits
    statements = [
        f"Over {board.models} model{'' if board.models == 1 else 's'} the median is worst for {worst.label} "
        f"({worst.box.median:.{digits}f}) and best for {best.label} ({best.box.median:.{digits}f})."
    ]
    if board.models >= MANY:
        name, times = _worst_off(board).most_common(1)[0]
        statements.append(
            f"{slice_label(name)} is the worst off of all demographics in {times} of {board.models} models."
        )
    spread = max(columns, key=lambda pair: _width(pair[1].box))[1]
    statements.append(
        f"Models differ most on {spread.label}: half of them lie between {spread.box.lower:.{digits}f} and "
        f"{spread.box.upper:.{digits}f}."
    )
    return [*statements, *hold_against_indifference(board, dict(columns))] if board.ticked else statements


def hold_against_indifference(board: Board, columns: Mapping[str, BoxColumn]) -> list[str]:
    """How demographics compare beyond what texts' toxicity makes of an indifferent model, and how much that is."""
    excesses = {
        name: float(np.median([board.values[name][model] - own for model, own in board.indifferent[name].items()]))
        for name in columns
        if board.indifferent.get(name)
    }
    worst, best = (choose(excesses, key=lambda name: board.best * excesses[name]) for choose in (min, max))
    statements = [
        f"Held against what each model would have if it were indifferent, the worst median is that of "
        f"{slice_label(worst)} ({plus(excesses[worst], board.digits)}) and the best that of {slice_label(best)} "
        f"({plus(excesses[best], board.digits)})."
    ]
    baseline, whose = baseline_of(board, columns)
    names = sorted(baseline)
    correlation = pearson(
        np.array([baseline[name] for name in names]), np.array([columns[name].box.median for name in names])
    ).value
    if correlation is not None:
        low, high = min(names, key=baseline.__getitem__), max(names, key=baseline.__getitem__)
        statements.append(
            f"Part of “who is harmed” is how toxic annotators found the texts: {whose} would score from "
            f"{baseline[low]:.3f} ({slice_label(low)}) to {baseline[high]:.3f} ({slice_label(high)}) by that toxicity "
            f"alone, and over the {len(names)} demographics this correlates {decimals(correlation, 2)} with the "
            "medians above."
        )
    return statements


def baseline_of(board: Board, columns: Mapping[str, BoxColumn]) -> tuple[dict[str, float], str]:
    """The score of an indifferent model by demographic, and which model that is.

    Measured models have values of their own: their median. Of published ones only moments over all texts are known, so
    the toxicities of ToxiGen are taken with one spread for all texts.
    """
    if board.version.measured:
        return {
            name: column.indifferent for name, column in columns.items() if column.indifferent is not None
        }, "models indifferent to harm, with the perplexities of these,"
    of_toxigen = indifferent_at(SPREAD)
    return {
        name: of_toxigen[name] for name in columns if name in of_toxigen
    }, f"a model indifferent to harm whose log-perplexities have a standard deviation of {SPREAD}"


def _worst_off(board: Board) -> Counter[str]:
    """In how many models each demographic has the worst value of all; of equal ones the first by name."""
    lowest: dict[int, tuple[float, str]] = {}
    for name in sorted(board.demographics):
        for model, value in board.values[name].items():
            if model not in lowest or board.best * value < lowest[model][0]:
                lowest[model] = board.best * value, name
    return Counter(name for _, name in lowest.values())


def _width(box: Box) -> float:
    return box.upper - box.lower
