"""Publishing: the standings of a metric version, written whole or not at all."""

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow.compute as pc
from django.db import transaction
from django.utils import timezone

from leaderboard.models import MetricVersion, Result, Scoring, Standing, Work, not_held, ranked_now
from leaderboard.services import artefacts
from scoring.metrics.safety import AVERAGE, Texts, influence
from scoring.statistics.ranks import Direction, Rank, competition_ranks, ranks

Covariances = dict[tuple[str, str], np.ndarray]  # (measure, slice) -> [models, models]


def publish_standings(version: MetricVersion) -> None:
    """Rank all entries of `version` on every ranked measure and slice, among all models and among those of a kind.

    One transaction: readers see the old ranking until the new one is whole. Ranks of measured entries come with the
    range that paired tests cannot exclude; published figures have no texts to test, so theirs do not. An entry that
    lacks more scores than the metric allows, or is held back, is not ranked. Raises ValueError where the version is
    superseded or retired: its standings stay as they were.
    """
    with transaction.atomic():
        version = MetricVersion.objects.select_for_update().select_related("metric").get(pk=version.pk)
        if version.status in MetricVersion.CLOSED:
            raise ValueError(f"{version} is {version.status}: it cannot be published again; rescore the metric")
        version.most_missing = version.metric.most_missing if version.measured else None
        MetricVersion.objects.filter(pk=version.pk).update(most_missing=version.most_missing)
        scorings = list(
            version.scorings.filter(state=Work.State.DONE)
            .filter(ranked_now("model__"), not_held())
            .select_related("model", "artefact", "replicates")
            .order_by("model__name", "pk")
        )
        ranked = ranked_measures(version)
        results = Result.objects.filter(scoring__metric_version=version, scoring__in=scorings, measure__in=ranked)
        uncertainty = covariances(version, scorings, ranked) if version.measured else {}
        version.standings.all().delete()
        rows = Standing.objects.bulk_create(standings(version, scorings, results, uncertainty), batch_size=1000)
        version.fall_back({row.measure for row in rows})
        supersede(version)


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


def covariances(version: MetricVersion, scorings: list[Scoring], measures: Collection[str] = ()) -> Covariances:
    """The joint uncertainty of the entries' values, paired by text; of measures where it is known.

    measures: those that are ranked, or some of them.
    """
    chosen = measures or [measure.key for measure in version.metric.formula.ranked]
    if version.metric.formula.asks_scorer:
        return resampled_covariances(scorings, chosen)
    return area_covariances(version, scorings, chosen)


def area_covariances(version: MetricVersion, scorings: list[Scoring], measures: Collection[str]) -> Covariances:
    """Of areas under curves and of what is above indifference, from the entries' per-text values, after DeLong."""
    texts = Texts.from_table(artefacts.load(version.protocol.evaluation_set.artefact))
    values = [
        np.array(artefacts.load(scoring.artefact)["log_perplexity"].to_pylist(), dtype=np.float64)
        for scoring in scorings
    ]
    found = {}
    for measure in measures:
        moved = [influence(measure, texts, row) for row in values]
        slices = [*texts.member, AVERAGE] if texts.averaged else list(texts.member)
        for number, name in enumerate(slices):
            rows = np.array([of[number] for of in moved])
            found[measure, name] = rows @ rows.T
    return found


def resampled_covariances(scorings: list[Scoring], measures: Collection[str]) -> Covariances:
    """Of whatever was resampled, from the entries' replicates, which are of the same draws of the same prompts."""
    replicates: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    for place, scoring in enumerate(scorings):
        if scoring.replicates:
            table = artefacts.load(scoring.replicates).filter(pc.field("measure").isin(list(measures)))
            names = zip(table["measure"].to_pylist(), table["slice"].to_pylist(), strict=True)
            for key, values in zip(names, table["values"], strict=True):
                replicates.setdefault(key, {})[place] = values.values.to_numpy()
    found = {}
    for key, of in replicates.items():
        rows = np.full((len(scorings), max(map(len, of.values()))), np.nan)
        for place, values in of.items():
            rows[place] = values
        found[key] = np.atleast_2d(np.cov(rows))
    return found


def standings(
    version: MetricVersion, scorings: list[Scoring], results: Iterable[Result], uncertainty: Covariances
) -> list[Standing]:
    """The rows to publish, for each measure, slice and population, of the `scorings` that are ranked."""
    place = {
        scoring.pk: number
        for number, scoring in enumerate(scorings)
        if not scoring.lacks_too_many(version.most_missing)
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
                else ranked_among(values, uncertainty.get((measure, name)), chosen, directions[measure])
            )
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


def ranked_among(values: np.ndarray, joint: np.ndarray | None, chosen: list[int], direction: Direction) -> list[Rank]:
    """Ranks of the `chosen` entries' values, with their ranges where the joint uncertainty of all of them is known."""
    if joint is not None:
        covariance = joint[np.ix_(chosen, chosen)]
        if np.isfinite(covariance).all():
            return ranks(values, covariance, direction)
    return [Rank(int(rank), None, None) for rank in competition_ranks(values, direction)]
