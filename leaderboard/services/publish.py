"""Publishing: the standings of a metric version, written whole or not at all."""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from django.db import transaction
from django.db.models import F

from leaderboard.models import (
    Artefact,
    LanguageModel,
    MetricVersion,
    OutdatedEntry,
    Result,
    Scoring,
    Standing,
    Work,
    not_held,
    ranked_now,
)
from leaderboard.models.clock import database_now
from leaderboard.services import artefacts
from leaderboard.services.alone import each_alone
from leaderboard.services.failures import failure_of, redact
from leaderboard.services.locks import lock_version
from leaderboard.services.queue import ask_for_ranges
from scoring.metrics.influences import Influences
from scoring.statistics.ranks import Direction, Rank, competition_ranks, ranks

Ranges = dict[int, tuple[int | None, int | None]]  # best and worst rank that could not be excluded, by model

BATCH = 1000  # rows that are written at once

log = logging.getLogger(__name__)


class RankedValue(NamedTuple):
    """A result by these columns alone: a board of 10,000 models has hundreds of thousands."""

    pk: int
    scoring_id: int
    measure: str
    slice: str
    value: float
    published_rank: int | None


@dataclass(frozen=True)
class Unread:
    """Entries whose stored files were not read. why: by their number, for which reason; "" where nobody tried to.

    before: the published ranges, by measure, slice and population. They stay where new ones cannot be made.
    """

    why: dict[int, str] = field(default_factory=dict)
    before: dict[tuple[str, str, str], Ranges] = field(default_factory=dict)

    def left_out(self, scorings: list[Scoring]) -> list[int]:
        """The numbers of the entries that are not ranked: their file is lost, and they have no published rank."""
        ranked_models = {model for ranges in self.before.values() for model in ranges}
        return [
            number for number, reason in self.why.items() if reason and scorings[number].model_id not in ranked_models
        ]


def publish_standings(version: MetricVersion, *, read_files: bool = True, needs_all: bool = False) -> None:
    """Rank all entries of `version` on every ranked measure and slice, among all models and among those like them.

    One transaction: readers see the old ranking until the new one is whole. Ranks of measured entries come with the
    range by paired tests; published figures have no texts to test, so theirs do not. An entry that
    lacks more scores than the metric allows, or is held back, is not ranked.

    An entry whose stored file is lost keeps the place of its value, and the range that it had; where it had none, it is
    not ranked, and the version says why. Without `read_files` all ranges are kept until `renew_ranges`: nobody has to
    wait for the storage to take a model off a ranking. With `needs_all` a lost file raises what it does, and nothing is
    published: a version begins with all of its entries. Raises ValueError where the version is superseded or retired:
    its standings stay as they were; what the storage raises where it is away.
    """
    with transaction.atomic():
        version = lock_version(version.pk)
        if version.status in MetricVersion.CLOSED:
            raise ValueError(f"{version} is {version.status}: it cannot be published again; rescore the metric")
        version.most_missing = version.metric.most_missing if version.measured else None
        kept_for_later = version.measured and not read_files
        scorings = list(
            version.scorings.filter(state=Work.State.DONE)
            .filter(ranked_now("model__"), not_held())
            .select_related("model", "artefact", "replicates")
            .order_by("model__name", "pk")
        )
        measures = ranked_measures(version)
        reasons = dict.fromkeys(range(len(scorings)), "") if kept_for_later else {}
        errors = None if needs_all else reasons
        moves = influences(version, scorings, measures, errors) if version.measured and read_files else {}
        # Now, as a file that has been found whole while it was read makes ranges due.
        MetricVersion.objects.filter(pk=version.pk).update(
            most_missing=version.most_missing, publications=F("publications") + 1, ranges_due=kept_for_later
        )
        unread_entries = Unread(reasons, ranges_of(version) if reasons else {})
        note_left_out(version, scorings, unread_entries)
        results = Result.objects.filter(scoring__metric_version=version, measure__in=measures)
        version.standings.all().delete()
        values = map(RankedValue._make, results.values_list(*RankedValue._fields).iterator(chunk_size=BATCH))
        rows = standings(version, scorings, values, moves, unread_entries)
        published_measures: set[str] = set()
        while batch := list(islice(rows, BATCH)):  # all at once would take a gigabyte on a board of 10,000 models
            Standing.objects.bulk_create(batch)
            published_measures |= {row.measure for row in batch}
        version.fall_back(published_measures)
        supersede(version)


def publish_from_database(version: MetricVersion) -> None:
    """As `publish_standings`, without reading the storage; a worker renews the ranges later."""
    publish_standings(version, read_files=False)
    transaction.on_commit(partial(ask_for_ranges, version))


def renew_ranges(version: MetricVersion) -> None:
    """Compute the ranges of a version again that were kept while a model left its ranking or returned."""
    with transaction.atomic():
        version = lock_version(version.pk)  # or another version might take its place meanwhile
        if version.ranges_due and version.status == MetricVersion.Status.CURRENT:
            publish_standings(version)


def renew_all_ranges() -> None:
    """As `renew_ranges`, for all versions: the message may have been lost, or the storage away."""
    each_alone(renew_ranges, MetricVersion.objects.filter(ranges_due=True).select_related("metric"))


def ranges_of(version: MetricVersion) -> dict[tuple[str, str, str], Ranges]:
    """The ranges that readers see, by measure, slice and population."""
    ranges: dict[tuple[str, str, str], Ranges] = {}
    rows = version.standings.order_by().values_list(
        "measure", "slice", "population", "model_id", "rank_low", "rank_high"
    )
    for measure, name, population, model, low, high in rows:
        ranges.setdefault((measure, name, population), {})[model] = low, high
    return ranges


def note_left_out(version: MetricVersion, scorings: list[Scoring], unread_entries: Unread) -> None:
    """Record which entries are not ranked because their stored files are lost, and which are ranked again."""
    left_out = unread_entries.left_out(scorings)
    for number in left_out:
        reason = redact(f"its stored scores cannot be read: {unread_entries.why[number]}")
        log.error("%s is not ranked: %s", scorings[number], unread_entries.why[number])
        values = {"last_scoring": scorings[number], "reason": reason}
        OutdatedEntry.objects.update_or_create(metric_version=version, model=scorings[number].model, defaults=values)
    back = [scoring.model_id for number, scoring in enumerate(scorings) if number not in left_out]
    version.outdated.filter(model__in=back, last_scoring__metric_version=version).delete()


def ranked_measures(version: MetricVersion) -> list[str]:
    """The keys of the measures that `version` ranks; under an older formula those that it was published with.

    Figures from a paper have no formula of ours: all entered measures are ranked.
    """
    keys = [measure.key for measure in version.metric.formula.ranked]
    if version.formula_version == version.metric.formula.version or not version.measured:
        return keys
    published_keys = set(version.standings.order_by().values_list("measure", flat=True).distinct())
    return [key for key in keys if key in published_keys]


def supersede(version: MetricVersion) -> None:
    """Make `version` the current one of its metric and provenance, in place of its predecessor."""
    others = MetricVersion.objects.filter(
        metric=version.metric, provenance=version.provenance, status=MetricVersion.Status.CURRENT
    ).exclude(pk=version.pk)
    others.update(status=MetricVersion.Status.SUPERSEDED)
    MetricVersion.objects.filter(pk=version.pk).update(
        status=MetricVersion.Status.CURRENT, published_at=version.published_at or database_now()
    )


def influences(
    version: MetricVersion,
    scorings: list[Scoring],
    measures: Collection[str] = (),
    errors: dict[int, str] | None = None,
) -> Influences:
    """How much each text or draw moves the entries' values; of measures where that is known.

    measures: those that are ranked, or some of them. errors: takes the numbers of the entries whose file is lost, with
    the reason; their influences are not known then. Without it a lost file raises what it does.
    """
    formula = version.metric.formula
    ranked_keys = measures or [measure.key for measure in formula.ranked]
    texts = None
    if formula.uncertainty_needs_texts:
        set_errors: dict[int, str] | None = None if errors is None else {}
        texts = next((table for _, table in read_each([version.protocol.evaluation_set.artefact], set_errors)), None)
        if errors is not None and set_errors:
            errors.update(dict.fromkeys(range(len(scorings)), set_errors[0]))
            return {}
    files = [getattr(scoring, formula.uncertainty_file) for scoring in scorings]
    return formula.influences(texts, read_each(files, errors), len(scorings), ranked_keys)


def read_each(artefacts_of: Iterable[Artefact | None], errors: dict[int, str] | None) -> Iterator[tuple[int, pa.Table]]:
    """The stored tables, each with its number. What is lost is noted in `errors`, where that is given."""
    for number, artefact in enumerate(artefacts_of):
        if artefact is None:
            continue
        try:
            yield number, artefacts.load(artefact)
        except Exception as error:
            if errors is None or not failure_of(error).of_one_file:
                raise
            errors[number] = str(error)


def standings(
    version: MetricVersion,
    scorings: list[Scoring],
    results: Iterable[Result | RankedValue],
    moves: Influences,
    unread_entries: Unread | None = None,
) -> Iterator[Standing]:
    """Yield the rows to publish, for each measure, slice and population, of the `scorings` that are ranked.

    They name their models and results by key alone.
    """
    unread_entries = unread_entries or Unread()
    left_out = unread_entries.left_out(scorings)
    place = {
        scoring.pk: number
        for number, scoring in enumerate(scorings)
        if not scoring.lacks_too_many(version.most_missing) and number not in left_out
    }
    populations = {name: [is_of(scoring.model, name) for scoring in scorings] for name in version.populations}
    measures = version.metric.formula.measures
    by_slice: dict[tuple[str, str], list[Result | RankedValue]] = {}
    for result in results:
        if result.scoring_id in place:
            by_slice.setdefault((result.measure, result.slice), []).append(result)
    directions = {measure.key: measure.direction for measure in version.metric.formula.ranked if measure.direction}
    for (measure, name), slice_results in sorted(by_slice.items(), key=itemgetter(0)):  # as influences are computed
        if not version.ranks(measures[measure], name):
            continue
        slice_results.sort(key=lambda result: place[result.scoring_id])
        for population, is_member in populations.items():
            rivals = [result for result in slice_results if is_member[place[result.scoring_id]]]
            if not rivals:
                continue
            values = np.array([result.value for result in rivals])
            numbers = [place[result.scoring_id] for result in rivals]
            source_ranks = [result.published_rank for result in rivals]
            rank_intervals = (
                [Rank(rank, None, None) for rank in source_ranks if rank]
                if all(source_ranks)
                else ranked_among(values, moves.get((measure, name)), numbers, directions[measure], unread_entries.why)
            )
            models = [scorings[number].model_id for number in numbers]
            if unread_entries.why:
                read_flags = [number not in unread_entries.why for number in numbers]
                rank_intervals = keep_ranges(
                    rank_intervals, models, read_flags, unread_entries.before.get((measure, name, population), {})
                )
            for result, model, rank in zip(rivals, models, rank_intervals, strict=True):
                yield Standing(
                    metric_version=version,
                    measure=measure,
                    slice=name,
                    population=population,
                    model_id=model,
                    result_id=result.pk,
                    rank=rank.rank,
                    rank_low=rank.low,
                    rank_high=rank.high,
                    value=result.value,
                )


def is_of(model: LanguageModel, population: str) -> bool:
    """Whether the model belongs to a population."""
    return population in (Standing.Population.ALL, model.kind, model.interface)


def ranked_among(
    values: np.ndarray,
    moves: np.ndarray | None,
    numbers: list[int],
    direction: Direction,
    unread_numbers: Collection[int] = (),
) -> list[Rank]:
    """Ranks of the values of the entries with these numbers, and the ranges of those whose influences are known.

    moves: the influences [entries, n] of all entries, NaN where they are not known, as of an entry with too few texts:
    no rank is excluded by a comparison with one of these. unread_numbers: entries with a range all the same.
    """
    if moves is None:
        return [Rank(int(rank), None, None) for rank in competition_ranks(values, direction)]
    has_range = [number in unread_numbers or bool(np.isfinite(moves[number]).all()) for number in numbers]
    return [
        rank if is_known else Rank(rank.rank, None, None)
        for rank, is_known in zip(ranks(values, moves[numbers], direction), has_range, strict=True)
    ]


def keep_ranges(
    rank_intervals: list[Rank], models: list[int], read_flags: list[bool], old_ranges: Ranges
) -> list[Rank]:
    """The ranks of `models`, where those whose range cannot be made keep their old one.

    Such a range grows by as many ranks as models left it or came, and so still holds the ranks that cannot be excluded.
    """
    departures, arrivals = len(old_ranges.keys() - set(models)), len(set(models) - old_ranges.keys())
    new_ranks = []
    for rank, model, is_read in zip(rank_intervals, models, read_flags, strict=True):
        low, high = old_ranges.get(model, (None, None))
        if is_read:
            new_ranks.append(rank)
        elif low is None or high is None:
            new_ranks.append(Rank(rank.rank, None, None))
        else:
            low, high = max(1, min(rank.rank, low - departures)), min(len(models), max(rank.rank, high + arrivals))
            new_ranks.append(Rank(rank.rank, low, high))
    return new_ranks
