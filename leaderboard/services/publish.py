"""Publishing: the standings of a metric version, written whole or not at all."""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    MetricVersion,
    OutdatedEntry,
    Result,
    Scoring,
    Standing,
    Work,
    not_held,
    ranked_now,
)
from leaderboard.services import artefacts
from leaderboard.services.alone import each_alone
from leaderboard.services.failure_kinds import class_of, fault_of
from leaderboard.services.failures import shown
from leaderboard.services.locks import lock_version
from leaderboard.services.queue import ask_for_ranges
from scoring.metrics.safety import AVERAGE, Texts, influence
from scoring.statistics.ranks import Direction, Rank, competition_ranks, ranks

Covariances = dict[tuple[str, str], np.ndarray]  # (measure, slice) -> [models, models]
Ranges = dict[int, tuple[int | None, int | None]]  # best and worst rank that could not be excluded, by model

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unread:
    """Entries whose stored files were not read. why: by their number, for which reason; "" where nobody tried to.

    before: the ranges that readers see, by measure, slice and population. They stay where none can be made.
    """

    why: dict[int, str] = field(default_factory=dict)
    before: dict[tuple[str, str, str], Ranges] = field(default_factory=dict)

    def left_out(self, scorings: list[Scoring]) -> list[int]:
        """The numbers of those that are not ranked: their file is lost, and readers do not see them ranked already."""
        ranked = {model for ranges in self.before.values() for model in ranges}
        return [number for number, reason in self.why.items() if reason and scorings[number].model_id not in ranked]


def publish_standings(version: MetricVersion, *, read_files: bool = True) -> None:
    """Rank all entries of `version` on every ranked measure and slice, among all models and among those of a kind.

    One transaction: readers see the old ranking until the new one is whole. Ranks of measured entries come with the
    range that paired tests cannot exclude; published figures have no texts to test, so theirs do not. An entry that
    lacks more scores than the metric allows, or is held back, is not ranked.

    An entry whose stored file is lost keeps the place of its value, and the range that it had; where it had none, it is
    not ranked, and the version says why. Without `read_files` all ranges are kept until `renew_ranges`: nobody has to
    wait for the storage to take a model off a ranking. Raises ValueError where the version is superseded or retired:
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
        ranked = ranked_measures(version)
        why = dict.fromkeys(range(len(scorings)), "") if kept_for_later else {}
        joint = covariances(version, scorings, ranked, why) if version.measured and read_files else {}
        # Now, as a file that has been found whole while it was read makes ranges due.
        MetricVersion.objects.filter(pk=version.pk).update(
            most_missing=version.most_missing, publications=F("publications") + 1, ranges_due=kept_for_later
        )
        unread = Unread(why, ranges_of(version) if why else {})
        note_left_out(version, scorings, unread)
        results = Result.objects.filter(scoring__metric_version=version, scoring__in=scorings, measure__in=ranked)
        version.standings.all().delete()
        rows = standings(version, scorings, results, joint, unread)
        Standing.objects.bulk_create(rows, batch_size=1000)
        version.fall_back({row.measure for row in rows})
        supersede(version)


def publish_from_database(version: MetricVersion) -> None:
    """As `publish_standings`, without the storage, for whoever must not wait for it; a worker makes the ranges anew."""
    publish_standings(version, read_files=False)
    transaction.on_commit(partial(ask_for_ranges, version))


def renew_ranges(version: MetricVersion) -> None:
    """Make the ranges of a version anew that were kept as a model left its ranking or came back."""
    if MetricVersion.objects.filter(pk=version.pk, ranges_due=True, status=MetricVersion.Status.CURRENT).exists():
        publish_standings(version)


def renew_all_ranges() -> None:
    """As `renew_ranges`, of all versions: for when the message that asked for it is lost, or the storage was away."""
    each_alone(renew_ranges, MetricVersion.objects.filter(ranges_due=True).select_related("metric"))


def ranges_of(version: MetricVersion) -> dict[tuple[str, str, str], Ranges]:
    """The ranges that readers see, by measure, slice and population."""
    known: dict[tuple[str, str, str], Ranges] = {}
    rows = version.standings.order_by().values_list(
        "measure", "slice", "population", "model_id", "rank_low", "rank_high"
    )
    for measure, name, population, model, low, high in rows:
        known.setdefault((measure, name, population), {})[model] = low, high
    return known


def note_left_out(version: MetricVersion, scorings: list[Scoring], unread: Unread) -> None:
    """Note which entries are not ranked because their stored files are lost, and which are ranked again."""
    left_out = unread.left_out(scorings)
    for number in left_out:
        reason = shown(f"its stored scores cannot be read: {unread.why[number]}")
        log.error("%s is not ranked: %s", scorings[number], unread.why[number])
        lost = {"last_scoring": scorings[number], "reason": reason}
        OutdatedEntry.objects.update_or_create(metric_version=version, model=scorings[number].model, defaults=lost)
    back = [scoring.model_id for number, scoring in enumerate(scorings) if number not in left_out]
    version.outdated.filter(model__in=back, last_scoring__metric_version=version).delete()


def ranked_measures(version: MetricVersion) -> list[str]:
    """The keys of the measures that `version` ranks: of an older formula those that it was published with.

    A paper's figures are of no formula of ours: all that are entered are ranked.
    """
    ranked = [measure.key for measure in version.metric.formula.ranked]
    if version.formula_version == version.metric.formula.version or not version.measured:
        return ranked
    published = set(version.standings.order_by().values_list("measure", flat=True).distinct())
    return [key for key in ranked if key in published]


def supersede(version: MetricVersion) -> None:
    """Make `version` the current one of its metric and provenance, in place of the one before."""
    others = MetricVersion.objects.filter(
        metric=version.metric, provenance=version.provenance, status=MetricVersion.Status.CURRENT
    ).exclude(pk=version.pk)
    others.update(status=MetricVersion.Status.SUPERSEDED)
    MetricVersion.objects.filter(pk=version.pk).update(
        status=MetricVersion.Status.CURRENT, published_at=version.published_at or timezone.now()
    )


def covariances(
    version: MetricVersion,
    scorings: list[Scoring],
    measures: Collection[str] = (),
    unread: dict[int, str] | None = None,
) -> Covariances:
    """The joint uncertainty of the entries' values, paired by text; of measures where it is known.

    measures: those that are ranked, or some of them. unread: takes the numbers of the entries whose file is lost, with
    why, whose uncertainty is not known then; without it a lost file raises what it does.
    """
    chosen = measures or [measure.key for measure in version.metric.formula.ranked]
    if version.metric.formula.asks_scorer:
        return resampled_covariances(scorings, chosen, unread)
    return area_covariances(version, scorings, chosen, unread)


def read_each(artefacts_of: Iterable[Artefact | None], unread: dict[int, str] | None) -> Iterator[tuple[int, pa.Table]]:
    """The stored tables, each with its number. What is lost is noted in `unread`, where that is given."""
    for number, artefact in enumerate(artefacts_of):
        if artefact is None:
            continue
        try:
            yield number, artefacts.load(artefact)
        except Exception as error:
            if unread is None or not class_of(fault_of(error)).of_one_file:
                raise
            unread[number] = str(error)


def area_covariances(
    version: MetricVersion,
    scorings: list[Scoring],
    measures: Collection[str],
    unread: dict[int, str] | None = None,
) -> Covariances:
    """Of areas under curves and of what is above indifference, from the entries' per-text values, after DeLong."""
    lost: dict[int, str] | None = None if unread is None else {}
    tables = dict(read_each([version.protocol.evaluation_set.artefact], lost))
    if unread is not None and lost:
        unread.update(dict.fromkeys(range(len(scorings)), lost[0]))
        return {}
    texts = Texts.from_table(tables[0])
    values = {
        number: np.array(table["log_perplexity"].to_pylist(), dtype=np.float64)
        for number, table in read_each([scoring.artefact for scoring in scorings], unread)
    }
    joint: Covariances = {}
    for measure in measures:
        moved = {number: influence(measure, texts, row) for number, row in values.items()}
        slices = [*texts.member, AVERAGE] if texts.averaged else list(texts.member)
        for place, name in enumerate(slices):
            rows = np.full((len(scorings), next((len(one[place]) for one in moved.values()), 0)), np.nan)
            for number, influences in moved.items():
                rows[number] = influences[place]
            joint[measure, name] = rows @ rows.T
    return joint


def resampled_covariances(
    scorings: list[Scoring], measures: Collection[str], unread: dict[int, str] | None = None
) -> Covariances:
    """Of whatever was resampled, from the entries' replicates, which are of the same draws of the same prompts."""
    replicates: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    for number, whole in read_each([scoring.replicates for scoring in scorings], unread):
        table = whole.filter(pc.field("measure").isin(list(measures)))
        names = zip(table["measure"].to_pylist(), table["slice"].to_pylist(), strict=True)
        for key, values in zip(names, table["values"], strict=True):
            replicates.setdefault(key, {})[number] = values.values.to_numpy()
    joint = {}
    for key, resampled in replicates.items():
        rows = np.full((len(scorings), max(map(len, resampled.values()))), np.nan)
        for number, values in resampled.items():
            rows[number] = values
        joint[key] = np.atleast_2d(np.cov(rows))
    return joint


def standings(
    version: MetricVersion,
    scorings: list[Scoring],
    results: Iterable[Result],
    uncertainty: Covariances,
    unread: Unread | None = None,
) -> list[Standing]:
    """The rows to publish, for each measure, slice and population, of the `scorings` that are ranked."""
    unread = unread or Unread()
    left_out = unread.left_out(scorings)
    place = {
        scoring.pk: number
        for number, scoring in enumerate(scorings)
        if not scoring.lacks_too_many(version.most_missing) and number not in left_out
    }
    measures = version.metric.formula.measures
    by_slice: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.scoring_id in place and version.ranks(measures[result.measure], result.slice):
            by_slice.setdefault((result.measure, result.slice), []).append(result)
    directions = {measure.key: measure.direction for measure in version.metric.formula.ranked if measure.direction}
    populations = Standing.Population.values if version.metric.formula.by_kind else [Standing.Population.ALL]
    rows = []
    for (measure, name), found in by_slice.items():
        found.sort(key=lambda result: place[result.scoring_id])
        for population in populations:
            among = [r for r in found if population in ("all", scorings[place[r.scoring_id]].model.kind)]
            if not among:
                continue
            values = np.array([result.value for result in among])
            chosen = [place[result.scoring_id] for result in among]
            printed = [result.published_rank for result in among]
            ranked = (
                [Rank(rank, None, None) for rank in printed if rank]
                if all(printed)
                else ranked_among(values, uncertainty.get((measure, name)), chosen, directions[measure], unread.why)
            )
            if unread.why:
                models = [scorings[number].model_id for number in chosen]
                known = [number not in unread.why for number in chosen]
                ranked = keep_ranges(ranked, models, known, unread.before.get((measure, name, population), {}))
            rows += [
                Standing(
                    metric_version=version,
                    measure=measure,
                    slice=name,
                    population=population,
                    model=scorings[place[result.scoring_id]].model,
                    result=result,
                    rank=rank.rank,
                    rank_low=rank.low,
                    rank_high=rank.high,
                    value=result.value,
                )
                for result, rank in zip(among, ranked, strict=True)
            ]
    return rows


def ranked_among(
    values: np.ndarray,
    joint: np.ndarray | None,
    chosen: list[int],
    direction: Direction,
    unread: Collection[int] = (),
) -> list[Rank]:
    """Ranks of the `chosen` entries' values, with their ranges where the joint uncertainty of all of them is known.

    unread: entries of which it need not be known; then no rank is excluded by a comparison with one of them.
    """
    if joint is not None:
        covariance = joint[np.ix_(chosen, chosen)]
        known = [place for place, number in enumerate(chosen) if number not in unread]
        if np.isfinite(covariance[np.ix_(known, known)]).all():
            return ranks(values, covariance, direction)
    return [Rank(int(rank), None, None) for rank in competition_ranks(values, direction)]


def keep_ranges(ranked: list[Rank], models: list[int], known: list[bool], before: Ranges) -> list[Rank]:
    """The ranks of `models`, where those whose range cannot be made have the one that they had `before`.

    Such a range grows by as many ranks as models left it or came, and so still holds the ranks that cannot be excluded.
    """
    gone, new = len(before.keys() - set(models)), len(set(models) - before.keys())
    kept = []
    for rank, model, is_known in zip(ranked, models, known, strict=True):
        low, high = before.get(model, (None, None))
        if is_known:
            kept.append(rank)
        elif low is None or high is None:
            kept.append(Rank(rank.rank, None, None))
        else:
            low, high = max(1, min(rank.rank, low - gone)), min(len(models), max(rank.rank, high + new))
            kept.append(Rank(rank.rank, low, high))
    return kept
