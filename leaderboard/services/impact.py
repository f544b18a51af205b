"""The impact of a drift: the ranking under the changed scorer, estimated from a sample before the rescoring."""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from leaderboard.models import MetricVersion, Result, Scoring, Standing, Work, not_held, ranked_now
from leaderboard.services import artefacts
from leaderboard.services.scorers import NothingToScore, score_at_once
from scoring.drift import RankImpact, rank_impact
from scoring.metrics.formulas import slices_in_order
from scoring.metrics.kinds import Collected, Formula
from scoring.scorers import Scorer

SAMPLE = 5_000  # texts, of all entries together
REMOTE_SAMPLE = 300  # where a text costs quota
SEED = 20231207


def impact_of(version: MetricVersion, scorer: Scorer) -> dict[str, Any] | None:
    """Kendall's tau between the ranking of `version` and the one to expect of `scorer`, and the entries that move.

    All continuations of some prompts, the same for every entry, are scored; what the version's first measure changes by
    on them is added to the entry's value. `leaving` counts the entries whose new rank lies outside the range of ranks
    that their old one could not exclude. None where there are not two entries to rank.
    """
    metric, measure = version.metric, version.first_measure
    ranked_entries = version.scorings.filter(ranked_now("model__"), not_held(), state=Work.State.DONE)
    entries = ranked_entries.select_related("model", "artefact", "run__artefact")
    scorings = [scoring for scoring in entries if not scoring.lacks_too_many(version.most_missing)]
    results = Result.objects.filter(scoring__in=scorings, measure=measure)
    values = {(result.scoring_id, result.slice): result.value for result in results}
    if len(scorings) < 2 or not values:
        return None
    headline = slices_in_order((name for _, name in values), version.declared)[0]
    k = version.protocol.k or 1
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    most = (REMOTE_SAMPLE if scorer.cost else SAMPLE) // (k * len(scorings))
    prompts = np.sort(np.random.default_rng(SEED).permutation(texts.num_rows)[: max(1, most)])
    old_values, new_values = {}, {}
    for scoring in scorings:
        change = _estimate_change(
            metric.formula, scoring, texts.take(prompts), _rows(prompts, k), scorer, measure, headline
        )
        if change is not None and (scoring.pk, headline) in values:
            old_values[scoring.model.slug] = values[scoring.pk, headline]
            new_values[scoring.model.slug] = values[scoring.pk, headline] + change
    impact = rank_impact(old_values, new_values, metric.formula.measures[measure].direction or "lower")
    leavers = _count_leavers(version, headline, impact)
    return {"measure": measure, "slice": headline, "prompts": len(prompts), "leaving": leavers, **asdict(impact)}


def _count_leavers(version: MetricVersion, headline: str, impact: RankImpact) -> int:
    """How many entries move out of their rank range, or to any other rank where too few texts give them no range."""
    standings = Standing.objects.filter(
        metric_version=version,
        measure=version.first_measure,
        slice=headline,
        population=Standing.Population.ALL,
    )
    ranks = {move.entry: move.to_rank for move in impact.moves}
    ranges = standings.filter(model__slug__in=ranks).values_list("model__slug", "rank", "rank_low", "rank_high")
    return len(ranks) - sum((low or rank) <= ranks[slug] <= (high or rank) for slug, rank, low, high in ranges)


def _rows(prompts: np.ndarray, k: int) -> np.ndarray:
    """The rows of all continuations of these prompts."""
    return (prompts[:, None] * k + np.arange(k)).ravel()


def _estimate_change(
    formula: Formula, scoring: Scoring, texts: pa.Table, rows: np.ndarray, scorer: Scorer, measure: str, headline: str
) -> float | None:
    """The change of the entry's measure on the sample; None where the sample has no value."""
    outputs = artefacts.load(scoring.run.artefact if scoring.run else None).take(rows)
    try:
        new_scores = formula.values(texts, outputs, scoring.model.kind, partial(score_at_once, scorer))
    except NothingToScore:
        return None
    old_measures, new_measures = (
        {
            (m.measure, m.slice): m.value
            for m in formula.measure(Collected(texts, outputs, values, attributes=scorer.attributes))
        }
        for values in (artefacts.load(scoring.artefact).take(rows), new_scores)
    )
    key = (measure, headline)
    return new_measures[key] - old_measures[key] if key in old_measures and key in new_measures else None
