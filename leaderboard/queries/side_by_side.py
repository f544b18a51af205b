"""A few models side by side on one version of a metric: values, and what paired tests say of their differences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from django.db.models import Count, OuterRef, Q, Subquery, Window

from leaderboard.models import (
    LanguageModel,
    MetricVersion,
    OutdatedEntry,
    Result,
    Scoring,
    Standing,
    Work,
    course_fields,
    is_listed,
)
from leaderboard.rankings.indifferent import indifferent_results
from leaderboard.rankings.intervals import explain_intervals
from leaderboard.rankings.places import Place
from leaderboard.rankings.populations import in_own_population, leading_count
from leaderboard.services.publish import influences
from scoring.artefacts import ArtefactError
from scoring.metrics.formulas import slices_in_order
from scoring.metrics.measures import Measure
from scoring.statistics.differences import PairedDifference, holm_over, paired_differences
from scoring.statistics.ranks import ALPHA

LEAST, MOST = 2, 6
MOST_OFFERED = 12


@dataclass(frozen=True, slots=True)
class ComparedEntry:
    """A chosen model: its scoring under the version with its results by slice.

    `scored` is that on the chosen slice; `reason` says why there is none. `indifferent` is what the model would have
    there if it were indifferent, where that is a value of its own; `place` its rank there, among models of its kind
    where kinds are ranked apart.
    """

    model: LanguageModel
    scoring: Scoring | None
    results: dict[str, Result]
    scored: Result | None
    indifferent: float | None
    place: Place | None
    reason: str


@dataclass(frozen=True, slots=True)
class ModelPair:
    """Two models, the better one on the chosen slice first.

    `found` has by how much the first is better: positive where it is less harmful. None where nothing can be tested.
    """

    first: ComparedEntry
    second: ComparedEntry
    found: PairedDifference | None

    @property
    def apart(self) -> bool:
        """Whether the test tells them apart, after Holm."""
        return self.found is not None and self.found.p_adjusted < ALPHA


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A slice: the result of each entry with a scoring, and each pair's difference there, in the order of the pairs."""

    slice: str
    results: list[Result | None]
    differences: list[PairedDifference | None]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The chosen models under one version. `problem`: why differences are not tested, where they are not."""

    version: MetricVersion
    measure: Measure
    slice: str
    entries: list[ComparedEntry]
    pairs: list[ModelPair] = field(default_factory=list)
    rows: list[SliceRow] = field(default_factory=list)
    problem: str = ""

    @property
    def entries_in_order(self) -> list[ComparedEntry]:
        """Those with a value on the chosen slice, the best first."""
        candidates = [(entry.scored.value, place, entry) for place, entry in enumerate(self.entries) if entry.scored]
        sign = -1 if self.measure.direction == "higher" else 1
        return [entry for _, _, entry in sorted(candidates, key=lambda candidate: (sign * candidate[0], candidate[1]))]

    @property
    def kinds(self) -> list[str]:
        """The kinds of likelihood that stand side by side, as people call them."""
        return sorted({entry.model.get_kind_display() for entry in self.entries_in_order})

    @property
    def ticked(self) -> bool:
        """Whether models have indifferent values of their own."""
        return any(entry.indifferent is not None for entry in self.entries_in_order)

    @property
    def derived(self) -> bool:
        """Whether any value was worked out here from what its source prints."""
        of_models = any(entry.scored and entry.scored.derived for entry in self.entries_in_order)
        return of_models or (self.ticked and not self.version.measured)

    @property
    def interval_note(self) -> str:
        """Why published values have intervals from counts or none; empty for measured ones."""
        return explain_intervals(self.version, self.slice, [entry.scored for entry in self.entries if entry.scored])

    @property
    def tested(self) -> bool:
        """Whether any difference could be tested."""
        return any(difference for row in self.rows for difference in row.differences)

    @property
    def tests(self) -> int:
        """How many differences are tested on the other slices."""
        return sum(
            difference is not None for row in self.rows if row.slice != self.slice for difference in row.differences
        )


def versions_of(models: Sequence[LanguageModel]) -> dict[int, int]:
    """How many of `models` each metric version has numbers of, in one query."""
    counts: dict[int, int] = {}
    scorings = Scoring.objects.filter(model__in=models, state=Work.State.DONE).order_by()
    for pk in scorings.values_list("metric_version_id", flat=True):
        counts[pk] = counts.get(pk, 0) + 1
    return counts


def side_by_side(
    version: MetricVersion, measure: Measure, name: str, models: Sequence[LanguageModel], sizes: dict[str, int]
) -> SideBySide:
    """`models` under `version`: values on all slices and differences, in a constant number of queries.

    Reads what is kept of each model's texts, which is why only a few fit. sizes: as of `population_sizes`.
    """
    entries = _entries(version, measure, name, models, sizes)
    draft = SideBySide(version, measure, name, entries)
    if len(draft.entries_in_order) < LEAST:
        return draft
    slices = slices_in_order(item for entry in draft.entries_in_order for item in entry.results)
    differences, problem = _test_differences(draft, slices)
    pairs = [
        ModelPair(one, other, differences.get((name, place)))
        for place, (one, other) in enumerate(_pairs(draft.entries_in_order))
    ]
    rows = [
        SliceRow(
            item,
            [entry.results.get(item) for entry in draft.entries_in_order],
            [differences.get((item, place)) for place in range(len(pairs))],
        )
        for item in slices
    ]
    # Two families of tests: the pairs on the chosen slice, which is the question; and all that the other slices show.
    other_differences = [
        (row, place, item) for row in rows if row.slice != name for place, item in enumerate(row.differences) if item
    ]
    for (row, place, _), adjusted_difference in zip(
        other_differences, holm_over([item for _, _, item in other_differences]), strict=True
    ):
        row.differences[place] = adjusted_difference
    return SideBySide(version, measure, name, entries, pairs, rows, problem)


def _pairs(entries: Sequence[ComparedEntry]) -> list[tuple[ComparedEntry, ComparedEntry]]:
    return list(combinations(entries, 2))


def _entries(
    version: MetricVersion, measure: Measure, name: str, models: Sequence[LanguageModel], sizes: dict[str, int]
) -> list[ComparedEntry]:
    """Each model with what the version has of it, in the order of `models`."""
    scorings = {
        scoring.model_id: scoring
        for scoring in Scoring.objects.filter(metric_version=version, model__in=models)
        .select_related(
            "artefact", "replicates", "metric_version__metric", "metric_version__protocol__evaluation_set__artefact"
        )
        .defer(*course_fields())
    }
    done_scorings = {
        pk: model_results for pk, model_results in scorings.items() if model_results.state == Work.State.DONE
    }
    results: dict[int, dict[str, Result]] = {}
    indifferent: dict[int, float] = {}
    own = indifferent_results(measure, (model_results.pk for model_results in done_scorings.values()), [name])
    for result in Result.objects.filter(Q(scoring__in=list(done_scorings.values()), measure=measure.key) | own):
        if result.measure == measure.key:
            results.setdefault(result.scoring_id, {})[result.slice] = result
        else:
            indifferent[result.scoring_id] = result.value
    standings = Standing.objects.filter(metric_version=version, measure=measure.key, slice=name)
    places = {
        standing.model_id: place_of(standing, version, sizes)
        for standing in standings.filter(in_own_population(version), model__in=models)
    }
    outdated_reasons = dict(
        OutdatedEntry.objects.filter(metric_version=version, model__in=models).values_list("model", "reason")
    )
    entries = []
    for model in models:
        scoring = done_scorings.get(model.pk) if model.access != LanguageModel.Access.WITHDRAWN else None
        model_results = results.get(scoring.pk, {}) if scoring else {}
        reason = (
            ""
            if name in model_results
            else _reason(version, model, scorings.get(model.pk), outdated_reasons.get(model.pk))
        )
        tick = indifferent.get(scoring.pk) if scoring else None
        entries.append(
            ComparedEntry(model, scoring, model_results, model_results.get(name), tick, places.get(model.pk), reason)
        )
    return entries


def _reason(version: MetricVersion, model: LanguageModel, scoring: Scoring | None, outdated_reason: str | None) -> str:
    """Why there is no value of `model` under `version`."""
    if model.access == LanguageModel.Access.WITHDRAWN:
        return "it was withdrawn from the board"
    if outdated_reason:
        return f"outdated: {outdated_reason}"
    if scoring and scoring.state == Work.State.DONE:
        return "its numbers under this version have no such slice"
    if scoring:
        return f"its scoring is {scoring.get_state_display().lower()}" + (
            f": {scoring.reason}" if scoring.reason else ""
        )
    if model.source == LanguageModel.Source.PUBLISHED:
        return "it is known from published figures only, and those of this version leave it out"
    if not version.measured:
        return "this version holds figures of a paper, which leaves it out"
    return "it was not evaluated on this metric under this version"


def _test_differences(draft: SideBySide, slices: Sequence[str]) -> tuple[dict[tuple[str, int], PairedDifference], str]:
    """The difference of each pair on each slice, by the pair's position; and why there are none, where there are none.

    Positive where the first of the pair is less harmful.
    """
    version, measure, entries = draft.version, draft.measure, draft.entries_in_order
    if not version.measured:
        return {}, (
            f"These are figures of a paper ({version.source}): what it measured text by text is not published, so "
            "values can be set side by side and no difference can be tested"
        )
    file = version.metric.formula.uncertainty_file
    kept_places = [place for place, entry in enumerate(entries) if entry.scoring and getattr(entry.scoring, file)]
    names_without = [entry.model.name for place, entry in enumerate(entries) if place not in kept_places]
    problem = (
        f"Values text by text of {', '.join(names_without)} are not there, or of too few texts: no difference can be "
        "tested with them"
        if names_without
        else ""
    )
    if len(kept_places) < LEAST:
        return {}, problem
    scorings = [entry for place in kept_places if (entry := entries[place].scoring)]
    try:
        moves = influences(scorings[0].metric_version, scorings, [measure.key])
    except (ArtefactError, FileNotFoundError):
        return {}, (
            "A stored file that the differences need is damaged or gone: the operator's manage.py verify says which"
        )
    place_of = {pair: place for place, pair in enumerate(combinations(range(len(entries)), 2))}
    sign = 1 if measure.direction == "higher" else -1
    differences = {}
    for name in slices:
        slice_moves = moves.get((measure.key, name))
        if slice_moves is None:
            continue
        known_places = [
            number
            for number, place in enumerate(kept_places)
            if name in entries[place].results and np.isfinite(slice_moves[number]).all()
        ]
        values = sign * np.array([entries[kept_places[number]].results[name].value for number in known_places])
        covariance = slice_moves[known_places] @ slice_moves[known_places].T
        for difference in paired_differences(values, covariance):
            pair = kept_places[known_places[difference.first]], kept_places[known_places[difference.second]]
            differences[name, place_of[pair]] = difference
    return differences, problem


def place_of(standing: Standing, version: MetricVersion, sizes: dict[str, int]) -> Place:
    """A standing under `version` with its population. sizes: as of `population_sizes`."""
    standing.metric_version = version
    return Place(standing, sizes[standing.population])


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that can be added; leads: whether it is of its population's leading group."""

    model: LanguageModel
    place: Place
    leads: bool


def list_offers(
    version: MetricVersion,
    measure: Measure,
    name: str,
    kind: str,
    search: str,
    excluded_models: Sequence[LanguageModel],
    sizes: dict[str, int],
) -> tuple[list[Offer], int]:
    """Models to add: those whose name, family or slug holds `search`, else the first of the ranking; and how many fit.

    Each with its rank among those of its kind, where kinds are ranked apart; without a search those of one kind: `kind`
    or, where that is "", the one of which the most models are ranked. At most so many as a reader can take in, by rank,
    in one query. sizes: as of `population_sizes`.
    """
    by_kind = version.metric.formula.by_kind
    standings = Standing.objects.filter(
        in_own_population(version), is_listed("model__"), metric_version=version, measure=measure.key, slice=name
    )
    first = standings.filter(rank_low=1).values("population").annotate(models=Count("pk"))
    standings = standings.exclude(model__in=excluded_models)
    if search:
        standings = standings.filter(
            Q(model__name__icontains=search) | Q(model__family__icontains=search) | Q(model__slug__icontains=search)
        )
    elif by_kind:
        kinds = [(size, population) for population, size in sizes.items() if population != Standing.Population.ALL]
        standings = standings.filter(
            population=kind or min(kinds, key=lambda pair: (-pair[0], pair[1]), default=(0, ""))[1]
        )
    candidates = standings.select_related("model").annotate(
        fits=Window(Count("pk")),
        first=Subquery(first.filter(population=OuterRef("population")).order_by().values("models")),
    )
    candidates_shown = list(candidates.order_by("rank", "model__name")[:MOST_OFFERED])
    offers = [
        Offer(
            standing.model,
            place_of(standing, version, sizes),
            standing.rank_low == 1 and leading_count(standing.first, sizes[standing.population]) > 0,
        )
        for standing in candidates_shown
    ]
    return offers, int(candidates_shown[0].fits) if candidates_shown else 0
