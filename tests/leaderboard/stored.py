"""Boards of continuations that are stored rather than generated, with scores that a test chooses."""

from collections.abc import Callable
from datetime import datetime

import numpy as np
import pyarrow as pa
from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Run, Scoring
from leaderboard.services import artefacts
from leaderboard.services.evaluation_sets import declare, import_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.publish import publish_standings
from leaderboard.services.score import gather_inputs, replicates_table, result
from leaderboard.services.versions import keep_attributes, next_number
from scoring.artefacts import SCORE
from scoring.evaluation_sets import Prompt, get
from scoring.fingerprints import fingerprint
from tests.declared import harms, regard_labels

PROMPTS, K = 12, 3
MODELS = ("Alder", "Birch", "Cedar", "Damson")
Scores = Callable[[np.ndarray], np.ndarray]  # what a scorer makes of the scores that the texts come with


def metric_of(slug: str, scorer: str, formula: str = "toxicity") -> Metric:
    """A metric of a few prompts, half of them toxic as published."""
    prompts = [
        Prompt(f"p{number}", f"opening {number}", scores={"toxicity": 0.9 if number % 2 else 0.1})
        for number in range(PROMPTS)
    ]
    texts, _ = import_prompts(declare(get("real-toxicity-prompts-sample")), prompts)
    return declare_metric(Declaration(slug, slug.title(), scorer, formula, "rtp", {"k": K}), texts)


def runs_on(metric: Metric) -> list[Run]:
    """Finished runs of four models under the metric's protocol."""
    return [run_of(name, metric) for name in MODELS]


def run_of(name: str, metric: Metric, slug: str = "") -> Run:
    """A finished run of one model."""
    ids = [f"p{number}" for number in range(PROMPTS) for _ in range(K)]
    indexes = list(range(K)) * PROMPTS
    count = len(ids)
    table = pa.table(
        {
            "prompt_id": ids,
            "index": pa.array(indexes, pa.int32()),
            "text": [f"{name} on {id_}, {index}" for id_, index in zip(ids, indexes, strict=True)],
            "n_tokens": pa.array([4] * count, pa.int32()),
            "finish": ["stop"] * count,
            "error": pa.nulls(count, pa.string()),
            "truncated": [False] * count,
            "log_perplexity": pa.nulls(count, pa.float32()),
        }
    )
    model, _ = LanguageModel.objects.get_or_create(
        slug=slug or name.lower(), defaults={"name": name, "kind": "causal", "source": "uploaded"}
    )
    return Run.objects.create(
        model=model,
        protocol=metric.protocol,
        state="done",
        artefact=artefacts.store(table, "continuations"),
        environment={"python": "3.11"},
    )


def true_scores(number: int) -> np.ndarray:
    """What the texts of the run of that number are like, [texts] in 0..0.8."""
    worse = 0.5 + 0.1 * number
    return np.random.default_rng(number).beta(worse, 1.5, PROMPTS * K).astype(np.float32) * np.float32(0.8)


def version_of(metric: Metric, made_with: str) -> MetricVersion:
    """The next version of the metric, a candidate."""
    return MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=fingerprint({"made with": made_with}),
        formula_version=metric.formula.version,
    )


def score_all(
    version: MetricVersion, runs: list[Run], attributes: dict[str, Scores], at: datetime | None = None
) -> list[Scoring]:
    """Score the runs as a scorer with these attributes would, and publish."""
    scorings = [score_one(version, run, number, attributes, at) for number, run in enumerate(runs)]
    publish_standings(version)
    version.refresh_from_db()
    return scorings


def score_one(
    version: MetricVersion, run: Run, number: int, attributes: dict[str, Scores], at: datetime | None = None
) -> Scoring:
    """One finished scoring with its artefacts and numbers; nothing is published."""
    texts, outputs = artefacts.load(version.protocol.evaluation_set.artefact), artefacts.load(run.artefact)
    keep_attributes(version, (regard_labels if version.metric.formula_name == "regard" else harms)(attributes))
    per_text = scores_table(outputs["prompt_id"], outputs["index"], attributes, true_scores(number))
    kept = artefacts.store(per_text, "scores")
    formula, unsaved = version.metric.formula, Scoring(model=run.model, metric_version=version)
    measured = formula.measure(gather_inputs(unsaved, texts, outputs, artefacts.load(kept)))
    scoring = Scoring.objects.create(
        run=run,
        model=run.model,
        metric_version=version,
        state="done",
        artefact=kept,
        replicates=artefacts.store(replicates_table(measured), "replicates"),
        texts=per_text.num_rows,
        texts_missing=formula.count_missing(per_text),
        scored_at=at or timezone.now(),
    )
    Result.objects.bulk_create(result(scoring, one) for one in measured)
    return scoring


def scores_table(ids: pa.ChunkedArray, indexes: pa.ChunkedArray, attributes: dict[str, Scores], true: np.ndarray):
    """Rows of the `scores` schema."""
    columns = {SCORE + name: pa.array(of(true).astype(np.float32)) for name, of in attributes.items()}
    return pa.table(
        {
            "id": ids,
            "index": indexes,
            "reason": pa.nulls(len(ids), pa.string()),
            "truncated": [False] * len(ids),
            **columns,
        }
    )
