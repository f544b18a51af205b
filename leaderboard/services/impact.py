"""What a drift moves: the ranking under the changed scorer, estimated from a sample before everything is rescored."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from leaderboard.models import MetricVersion, Result, Scoring, Standing, Work
from leaderboard.services import artefacts
from leaderboard.services.scorers import scores_table
from scoring.drift import RankImpact, rank_impact
from scoring.metrics.formulas import Collected, Formula, slices_in_order
from scoring.scorers import Scorer

SAMPLE = 5_000  # texts, of all entries together
REMOTE_SAMPLE = 300  # where a text costs quota
SEED = 20231207


def impact_of(version: MetricVersion, scorer: Scorer) -> dict[str, Any] | None:
    """Kendall's tau between the ranking of `version` and the one to expect of `scorer`, and the entries that move.

    All continuations of some prompts, the same for every entry, are scored; what the metric's first measure changes by
    on them is added to the entry's value. `leaving` counts the entries whose new rank lies outside the range of ranks
    that their old one could not exclude. None where there are not two entries to rank.
    """
    metric = version.metric
    done = version.scorings.filter(state=Work.State.DONE).select_related("model", "artefact", "run__artefact")
    scorings = [scoring for scoring in done if not scoring.lacks_too_many(version.most_missing)]
    results = Result.objects.filter(scoring__in=scorings, measure=metric.measure)
    values = {(result.scoring_id, result.slice): result.value for result in results}
    if len(scorings) < 2 or not values:
        return None
    headline = slices_in_order((name for _, name in values), version.declared)[0]
    k = version.protocol.k or 1
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    most = (REMOTE_SAMPLE if scorer.cost else SAMPLE) // (k * len(scorings))
    prompts = np.sort(np.random.default_rng(SEED).permutation(texts.num_rows)[: max(1, most)])
    before, after = {}, {}
    for scoring in scorings:
        change = _change(
            metric.formula, scoring, texts.take(prompts), _rows(prompts, k), scorer, metric.measure, headline
        )
        if change is not None and (scoring.pk, headline) in values:
            before[scoring.model.slug] = values[scoring.pk, headline]
            after[scoring.model.slug] = values[scoring.pk, headline] + change
    impact = rank_impact(before, after, metric.formula.measures[metric.measure].direction or "lower")
    leaving = _leaving(version, headline, impact)
    return {"measure": metric.measure, "slice": headline, "prompts": len(prompts), "leaving": leaving, **asdict(impact)}


def _leaving(version: MetricVersion, headline: str, impact: RankImpact) -> int:
    """How many entries move out of their rank range; one without a range does with any move."""
    standings = Standing.objects.filter(
        metric_version=version,
        measure=version.metric.measure,
        slice=headline,
        population=Standing.Population.ALL,
    )
    ranks = {move.entry: move.to_rank for move in impact.moves}
    within = standings.filter(model__slug__in=ranks).values_list("model__slug", "rank_low", "rank_high")
    return len(ranks) - sum(bool(low and high and low <= ranks[slug] <= high) for slug, low, high in within)


def _rows(prompts: np.ndarray, k: int) -> np.ndarray:
    """The rows of all continuations of these prompts."""
    return (prompts[:, None] * k + np.arange(k)).ravel()


def _change(
    formula: Formula, scoring: Scoring, texts: pa.Table, rows: np.ndarray, scorer: Scorer, measure: str, headline: str
) -> float | None:
    """What the scorer changes the entry's measure by, on the sample; None where the sample has no value."""
    outputs = artefacts.load(scoring.run.artefact if scoring.run else None).take(rows)
    made = formula.texts(texts, outputs)
    known = [text for text in made if text is not None]
    if not known:
        return None
    place = {text: number for number, text in enumerate(known)}
    again = scores_table([""] * len(known), scorer.score(known), scorer.attribute_names)
    again = again.take(pa.array([None if text is None else place[text] for text in made], type=pa.int64()))
    found = [
        {
            (m.measure, m.slice): m.value
            for m in formula.measure(Collected(texts, outputs, scores, attributes=scorer.attributes))
        }
        for scores in (artefacts.load(scoring.artefact).take(rows), again)
    ]
    key = (measure, headline)
    return found[1][key] - found[0][key] if key in found[0] and key in found[1] else None
