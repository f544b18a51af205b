"""The record: what changed between two versions of a metric, in ranks, values and scores."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Standing, listed
from leaderboard.services.places import population_in_words
from leaderboard.services.shifts import Shifts, shifts
from scoring.metrics.agreement import matching_attributes
from scoring.metrics.formulas import MEASURES, slice_parts, slices_in_order
from scoring.metrics.measures import Measure, slice_of
from scoring.statistics.rank_changes import Entry, RankChanges, TieRule, rank_changes

Board = list[Standing]


class NoRecord(ValueError):
    """There is nothing to compare; the message says what there is."""


@dataclass(frozen=True)
class Side:
    """One of the two boards: the standings of a version on a measure and a slice, among the models of a population."""

    version: MetricVersion
    measure: Measure
    slice: str
    population: str
    standings: Board

    @property
    def among(self) -> str:
        """Of whom its ranks are, as in "5 causal models"."""
        return population_in_words(len(self.standings), self.population, self.version.metric.formula.by_kind)


@dataclass(frozen=True)
class Record:
    """What changed from one board to another. `distribution_shift` is None where no scores are kept of both."""

    before: Side
    after: Side
    changes: RankChanges
    distribution_shift: Shifts | None = None

    def as_json(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        before, after = self.before, self.after
        return {
            "metric": after.version.metric.slug,
            "measure": after.measure.key,
            "slice": after.slice,
            "population": after.population,
            "from": described(before),
            "to": described(after),
            **self.changes.as_json(),
            "distribution_shift": self.distribution_shift and self.distribution_shift.as_json(),
        }


def described(side: Side) -> dict[str, Any]:
    """What a board is of."""
    version = side.version
    return {
        "metric": version.metric.slug,
        "version": version.number,
        "status": version.status,
        "provenance": version.provenance,
        "source": version.source,
        "scorer": version.scorer,
        "scorer_fingerprint": version.scorer_fingerprint,
        "published_at": version.published_at and version.published_at.isoformat(),
        "measure": side.measure.key,
        "slice": side.slice,
        "population_size": len(side.standings),
        "k": version.protocol.k,
        "decimals": version.decimals,
    }


def record_of(
    metric: Metric,
    measure: str | None = None,
    name: str | None = None,
    from_number: int | None = None,
    to_number: int | None = None,
    tie_rule: TieRule = "equal",
    population: str | None = None,
) -> Record:
    """What changed between two published versions of `metric`; by default the last two, on what is shown first.

    name: a slice, whole or as the part alone: "toxic" finds "TOXICITY:toxic". Where the scorers of the two versions
    spell an attribute differently, its counterpart is found. population: among all models, or those of one kind; as of
    `default_population` where None. Raises NoRecord.
    """
    before, after = versions(metric, from_number, to_number)
    chosen = measure or (after.measure_on(name) if name else after.first_measure)
    sides = boards(before, after, chosen, name, population)
    return Record(*sides, compared(*sides, tie_rule), shifts(before, after))


def versions(metric: Metric, from_number: int | None, to_number: int | None) -> tuple[MetricVersion, MetricVersion]:
    """Two published versions by number; by default the last two of one provenance, measured ones first."""
    known = list(
        metric.versions.filter(published_at__isnull=False)
        .select_related("metric", "protocol__evaluation_set")
        .order_by("number")
    )
    by_number = {version.number: version for version in known}
    there = ", ".join(f"{of.number} ({of.provenance}, {of.status})" for of in known) or "none yet"
    for number in (from_number, to_number):
        if number is not None and number not in by_number:
            raise NoRecord(f"{metric.slug} has no published version {number}; there is {there}")
    of_one = ([v for v in known if v.provenance == provenance] for provenance in Provenance.values)
    last = next((found[-2:] for found in of_one if len(found) > 1), None)
    if last is None and None in (from_number, to_number):
        raise NoRecord(f"{metric.slug} has no two versions of one provenance to compare; there is {there}")
    chosen = last or known
    return (
        chosen[0] if from_number is None else by_number[from_number],
        chosen[-1] if to_number is None else by_number[to_number],
    )


def default_population(before: MetricVersion, after: MetricVersion, measure: str) -> str:
    """Among whom ranks are compared where nobody chose: all models, or the first kind where kinds are ranked apart."""
    if not after.metric.formula.by_kind:
        return Standing.Population.ALL.value
    first, second = (
        set(of.standings.filter(measure=measure).order_by().values_list("population", flat=True).distinct())
        for of in (before, after)
    )
    kinds = (kind for kind in LanguageModel.Kind.values if kind in first & second)
    return next(kinds, Standing.Population.ALL.value)


def boards(
    before: MetricVersion, after: MetricVersion, measure: str, name: str | None, population: str | None
) -> tuple[Side, Side]:
    """The two boards on one measure and slice. Raises NoRecord, listing what there is."""
    among = population or default_population(before, after, measure)
    first, second = ranked_slices(before, measure), ranked_slices(after, measure)
    chosen, counterpart = paired_slices(first, second, name)
    for version, found, there in ((before, chosen, first), (after, counterpart, second)):
        if found is None:
            known = ", ".join(there) or "none"
            raise NoRecord(f"slice = {name!r}: {version} has no such slice of {measure}; there is {known}")
    return side(before, measure, str(chosen), among), side(after, measure, str(counterpart), among)


def ranked_slices(version: MetricVersion, measure: str) -> list[str]:
    """The slices that `version` ranks `measure` on, in order. Raises NoRecord where it ranks no such measure."""
    ranked = Standing.objects.filter(metric_version=version).order_by()
    found = slices_in_order(ranked.filter(measure=measure).values_list("slice", flat=True).distinct())
    if not found:
        known = ", ".join(sorted(ranked.values_list("measure", flat=True).distinct())) or "none: it has no entries"
        raise NoRecord(f"measure = {measure!r}: {version} does not rank it; there is {known}")
    return found


def paired_slices(first: list[str], second: list[str], name: str | None) -> tuple[str | None, str | None]:
    """The slice that `name` means in each of two lists in order; None where there is none."""
    wanted = first[0] if name is None else name
    chosen = find_slice(first, wanted)
    counterpart = counterpart_of(chosen or wanted, second) or find_slice(second, wanted)
    return chosen or counterpart_of(counterpart or wanted, first), counterpart


def find_slice(names: list[str], wanted: str) -> str | None:
    """The slice called `wanted`, or the first in order whose part it is."""
    parts = (name for name in names if slice_parts(name)[1] == wanted)
    return wanted if wanted in names else next(parts, None)


def counterpart_of(name: str, names: list[str]) -> str | None:
    """The slice of the same part and of the attribute by any of its spellings."""
    attribute, part = slice_parts(name)
    attributes = [other for other, of in map(slice_parts, names) if of == part]
    pairs = [(attribute, attribute)] if attribute in attributes else matching_attributes([attribute], attributes)
    return (slice_of(pairs[0][1], part) if attribute else part) if pairs else None


def side(version: MetricVersion, measure: str, name: str, population: str) -> Side:
    """The board of `version` on a measure and a slice, as published; without models that are hidden."""
    of = Standing.objects.filter(
        listed("model__"), metric_version=version, measure=measure, slice=name, population=population
    )
    standings = list(of.select_related("model", "result"))
    if not standings:
        raise NoRecord(f"kind = {population!r}: {version} ranks no such models; use all")
    return Side(version, MEASURES[measure], name, population, standings)


def compared(before: Side, after: Side, tie_rule: TieRule = "equal") -> RankChanges:
    """Rank changes between two boards. Values count as changed as far as both sources print them. Raises NoRecord."""
    direction = after.measure.direction
    if direction is None or before.measure.direction != direction:
        raise NoRecord(f"{before.measure.key} and {after.measure.key} are not better in the same direction")
    names = Counter(model.name for model in {of.model for board in (before, after) for of in board.standings})
    decimals = [d for d in (before.version.decimals, after.version.decimals) if d is not None]
    first, second = (
        {
            of.model.name if names[of.model.name] == 1 else of.model.slug: Entry(of.value, of.result.published_rank)
            for of in board.standings
        }
        for board in (before, after)
    )
    return rank_changes(first, second, direction, tie_rule, min(decimals, default=None))
