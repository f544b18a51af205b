"""What changed between two versions of a metric, in ranks, values and scores.

One rule for the record, the history page, the feed, the API and the comparison of scorers. Equal values share a rank.
Values count as changed as far as the sources of both print them. A model is called by its name, or by its slug where
two models of the boards share a name. Models that are hidden are left out.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from leaderboard.models import Metric, MetricVersion, Standing, is_listed
from leaderboard.rankings.digits import shared_decimals
from leaderboard.rankings.populations import first_population, population_in_words
from leaderboard.rankings.slices import pair_slices, rankings_of
from leaderboard.rankings.versions import NoRanking, choose_history, published_versions
from leaderboard.services.shifts import Shifts, shifts
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.metrics.measures import Measure
from scoring.statistics.rank_changes import Entry, RankChanges, TieRule, rank_changes


class BoardKey(NamedTuple):
    """What tells one board from another: the key of its version, its measure, its slice and its population."""

    version: int
    measure: str
    slice: str
    population: str


class BoardEntry(NamedTuple):
    """A model on a board; printed_rank: the one that its source gives, None where it gives none.

    source_name: what its source calls it, where that is another name.
    """

    slug: str
    name: str
    value: float
    rank: int
    printed_rank: int | None
    source_name: str = ""


@dataclass(frozen=True)
class Side:
    """One of two boards: a version on a measure and a slice, among the models of a population."""

    version: MetricVersion
    measure: Measure
    slice: str
    population: str
    entries: list[BoardEntry]

    @property
    def population_words(self) -> str:
        """The models that it ranks, in words, as in "5 causal models"."""
        return population_in_words(len(self.entries), self.population, self.version.metric.formula.by_kind)


@dataclass(frozen=True)
class Record:
    """What changed from one board to another. `distribution_shift` is None where no scores are kept of both."""

    before: Side
    after: Side
    changes: RankChanges
    distribution_shift: Shifts | None = None

    def as_json(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        old_side, new_side = self.before, self.after
        return {
            "metric": new_side.version.metric.slug,
            "measure": new_side.measure.key,
            "slice": new_side.slice,
            "population": new_side.population,
            "from": describe_side(old_side),
            "to": describe_side(new_side),
            **self.changes.as_json(),
            "distribution_shift": self.distribution_shift and self.distribution_shift.as_json(),
        }


def describe_side(side: Side) -> dict[str, Any]:
    """The description of a board, as JSON can hold it."""
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
        "population_size": len(side.entries),
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
    """What changed between two published versions of `metric`, with how scores moved where both keep scores.

    metric: one of `metrics_with_versions`. The rest as of `choose_sides`. Raises NoRanking.
    """
    old_side, new_side = choose_sides(metric, measure, name, from_number, to_number, population)
    return Record(
        old_side, new_side, compare_sides(old_side, new_side, tie_rule), shifts(old_side.version, new_side.version)
    )


def choose_sides(
    metric: Metric,
    measure: str | None = None,
    name: str | None = None,
    from_number: int | None = None,
    to_number: int | None = None,
    population: str | None = None,
) -> tuple[Side, Side]:
    """The boards of two published versions; by default the last two, on what is shown first.

    metric: one of `metrics_with_versions`. name: a slice, whole or as the part alone: "toxic" finds "TOXICITY:toxic".
    Where the scorers of the two versions spell an attribute differently, its counterpart is found. population: where
    None, the first kind that both rank, or all models. Raises NoRanking.
    """
    old_version, new_version = both = choose_two_versions(metric, from_number, to_number)
    ranked_measure = measure or (new_version.measure_on(name) if name else new_version.first_measure)
    rankings = rankings_of({old_version: ranked_measure, new_version: ranked_measure})
    for version in both:
        if not rankings[version.pk]:
            measures = version.standings.order_by().values_list("measure", flat=True).distinct()
            others = ", ".join(sorted(measures)) or "none: it has no entries"
            message = f"measure = {ranked_measure!r}: {version} does not rank it; there is {others}"
            raise NoRanking(message, field="measure", value=ranked_measure)
    shared_populations = {kind for _, kind in rankings[old_version.pk]} & {kind for _, kind in rankings[new_version.pk]}
    ranked_population = population or first_population(metric, shared_populations)
    earlier, later = (slices_in_order(place for place, _ in rankings[version.pk]) for version in both)
    pair = pair_slices(earlier, later, name)
    for version, place, slices in zip(both, pair, (earlier, later), strict=True):
        if place is None:
            message = f"slice = {name!r}: {version} has no such slice of {ranked_measure}; there is {', '.join(slices)}"
            raise NoRanking(message, field="slice", value=name)
    first, second = (
        BoardKey(version.pk, ranked_measure, str(place), ranked_population)
        for version, place in zip(both, pair, strict=True)
    )
    sides = read_sides((first, second), both)
    for version, key in ((old_version, first), (new_version, second)):
        if key not in sides:
            message = f"population = {ranked_population!r}: {version} ranks no such models; use all"
            raise NoRanking(message, field="population", value=ranked_population)
    return sides[first], sides[second]


def choose_two_versions(
    metric: Metric, from_number: int | None, to_number: int | None
) -> tuple[MetricVersion, MetricVersion]:
    """Two published versions by number; by default the last two of those that make one history. Raises NoRanking."""
    versions = published_versions(metric)
    by_number = {version.number: version for version in versions}
    available = (
        ", ".join(f"{version.number} ({version.provenance}, {version.status})" for version in versions) or "none yet"
    )
    for field, number in (("from", from_number), ("to", to_number)):
        if number is not None and number not in by_number:
            message = f"{metric.slug} has no published version {number}; there is {available}"
            raise NoRanking(message, field=field, value=number)
    history = choose_history(versions)[-2:]
    if None in (from_number, to_number) and len(history) < 2:
        message = f"{metric.slug} has no two versions of one provenance to compare; there is {available}"
        raise NoRanking(message, field="slug", value=metric.slug)
    return (
        history[0] if from_number is None else by_number[from_number],
        history[1] if to_number is None else by_number[to_number],
    )


def read_sides(keys: Iterable[BoardKey], versions: Iterable[MetricVersion]) -> dict[BoardKey, Side]:
    """The published boards of `keys`, in one query, without empty ones. versions: those that the keys name."""
    rows = listed_standings(keys).order_by("metric_version", "rank", "model__name")
    by_pk = {version.pk: version for version in versions}
    sides: dict[BoardKey, Side] = {}
    for pk, measure, name, population, *entry in rows.values_list(
        *("metric_version_id", "measure", "slice", "population"),
        *("model__slug", "model__name", "value", "rank", "result__published_rank"),
        "model__source_name",
    ):
        key = BoardKey(pk, measure, name, population)
        if key not in sides:
            sides[key] = Side(by_pk[pk], MEASURES[measure], name, population, [])
        sides[key].entries.append(BoardEntry(*entry))
    return sides


def listed_standings(keys: Iterable[BoardKey]) -> QuerySet[Standing]:
    """The standings of the boards of `keys`, without those of hidden models."""
    versions: dict[tuple[str, str, str], set[int]] = {}
    for key in keys:
        versions.setdefault((key.measure, key.slice, key.population), set()).add(key.version)
    condition = Q(pk__in=[])
    for (measure, name, population), pks in versions.items():
        condition |= Q(metric_version__in=pks, measure=measure, slice=name, population=population)
    return Standing.objects.filter(condition, is_listed("model__")).order_by()


def read_ranks(keys: Iterable[BoardKey]) -> dict[BoardKey, dict[str, int]]:
    """The rank of each model of the published boards of `keys`, by its slug, in one query; without empty boards."""
    rows = listed_standings(keys).values_list(
        "metric_version_id", "measure", "slice", "population", "model__slug", "rank"
    )
    ranks: dict[BoardKey, dict[str, int]] = {}
    for version, measure, name, population, slug, rank in rows:
        ranks.setdefault(BoardKey(version, measure, name, population), {})[slug] = rank
    return ranks


def count_gains(old_ranks: Mapping[str, int], new_ranks: Mapping[str, int]) -> dict[str, int]:
    """Ranks that each model of both boards gained, counted among these: others move nobody."""
    shared_slugs = old_ranks.keys() & new_ranks.keys()
    old_order, new_order = (sorted(ranks[slug] for slug in shared_slugs) for ranks in (old_ranks, new_ranks))
    return {
        slug: bisect_left(old_order, old_ranks[slug]) - bisect_left(new_order, new_ranks[slug]) for slug in shared_slugs
    }


def label_models(old_side: Side, new_side: Side) -> dict[str, str]:
    """The labels of the models of two boards, by slug: their names, or their slugs where several share a name."""
    names = {entry.slug: entry.name for side in (old_side, new_side) for entry in side.entries}
    counts = Counter(names.values())
    return {slug: name if counts[name] == 1 else slug for slug, name in names.items()}


def compare_sides(old_side: Side, new_side: Side, tie_rule: TieRule = "equal") -> RankChanges:
    """Rank changes between two boards. Raises NoRanking where they are not better in the same direction."""
    direction = new_side.measure.direction
    if direction is None or old_side.measure.direction != direction:
        message = f"{old_side.measure.key} and {new_side.measure.key} are not better in the same direction"
        raise NoRanking(message, field="measure", value=new_side.measure.key)
    labels = label_models(old_side, new_side)
    first, second = (list_entries(side, labels) for side in (old_side, new_side))
    return rank_changes(first, second, direction, tie_rule, shared_decimals(old_side.version, new_side.version))


def list_entries(side: Side, labels: Mapping[str, str]) -> dict[str, Entry]:
    """The entries of a board by label, with the ranks that its source prints where the board is ranked by them.

    It is where the source prints all of them; else values decide. labels: by slug.
    """
    carries_ranks = all(entry.rank == entry.printed_rank for entry in side.entries)
    return {
        labels[entry.slug]: Entry(entry.value, entry.printed_rank if carries_ranks else None, entry.source_name)
        for entry in side.entries
    }
