"""The texts that a metric's scorer and a successor have both scored, wherever the board keeps such scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.models import Artefact, Calibration, EvaluationSet, Metric, MetricVersion, Provenance, Work
from leaderboard.services import artefacts
from leaderboard.services.calibrations import load_calibration_scores
from leaderboard.services.joined_scores import TEXT, Pair, by_attribute, join_tables, load_scores, shared_scorings
from scoring.evaluation_sets.prompts import PUBLISHED_SCORER
from scoring.metrics import agreement
from scoring.refusals import Refused

MOST_TEXTS = 200_000  # continuations that are compared
MOST_SCORED = 20_000  # prompts that the successor is asked to score for it


class NothingToCompare(Refused):
    """No text has scores of both scorers, or nothing that they say corresponds."""


Names = list[tuple[str, str]]
CONTINUATIONS, PROMPTS, PUBLISHED, LABELLED = "continuations", "prompts", "published", "labelled"


@dataclass(frozen=True)
class TextSource:
    """Texts of one origin with both scorers' scores [n] by attribute; `groups` [n] of texts that belong together."""

    key: str
    title: str
    old: agreement.Scoring
    new: agreement.Scoring
    groups: NDArray[Any]
    old_thresholds: Mapping[str, float]


@dataclass(frozen=True)
class PromptScores:
    """Scores of prompts by the scorer to be followed, float [n] by attribute; the successor scores `texts`."""

    key: str
    title: str
    evaluation_set: EvaluationSet
    ids: list[str]
    texts: list[str]
    scores: agreement.Scoring
    thresholds: Mapping[str, float]


@dataclass(frozen=True)
class SuccessionVersions:
    """The versions of both scorers that the board has, None where it has none, and the runs that both scored."""

    old: MetricVersion | None
    new: MetricVersion | None
    pairs: list[Pair]


def find_versions(metric: Metric, scorer: str, successor: str) -> SuccessionVersions:
    """The newest version of `metric` by its scorer, and one by the successor: of the metric, or with runs in common."""
    versions = MetricVersion.objects.filter(provenance=Provenance.MEASURED, published_at__isnull=False).select_related(
        "metric", "protocol__evaluation_set__artefact", "prompt_scores"
    )
    old = versions.filter(metric=metric, scorer=scorer).order_by("-number").first()
    candidates = list(versions.filter(scorer=successor).order_by("metric__position", "metric__slug", "-number"))
    candidates.sort(key=lambda version: version.metric_id != metric.pk)
    for new in candidates:
        if old and (pairs := shared_scorings(old, new)):
            return SuccessionVersions(old, new, pairs)
    return SuccessionVersions(old, candidates[0] if candidates else None, [])


def read_continuations(versions: SuccessionVersions) -> TextSource | None:
    """The continuations that both versions have scored, MOST_TEXTS at most, spaced evenly; grouped by prompt."""
    if not versions.old or not versions.pairs:
        return None
    share = max(1, MOST_TEXTS // len(versions.pairs))
    parts = [join_tables(pair, share) for pair in versions.pairs]
    old, new = (pa.concat_tables([part[side] for part in parts]) for side in (0, 1))
    prompts = old[TEXT[0]].to_numpy(zero_copy_only=False)
    title = f"Continuations by {len(parts)} model{'' if len(parts) == 1 else 's'}"
    return TextSource(CONTINUATIONS, title, by_attribute(old), by_attribute(new), prompts, versions.old.thresholds)


def read_prompts(metric: Metric, scorer: str, old: MetricVersion | None) -> list[PromptScores]:
    """The prompts that the scorer has scored: for the metric here, and for those who published them."""
    sources = []
    texts = old.protocol.evaluation_set if old else metric.protocol.evaluation_set
    if old and old.prompt_scores:
        table = load_scores(old.prompt_scores)
        ids = table["id"].to_pylist()
        title = f"Prompts of {texts.title}, scored here"
        sources.append(_prompts(PROMPTS, title, texts, ids, by_attribute(table), old.thresholds))
    if scorer == PUBLISHED_SCORER and (evaluation_set := find_published_set(metric)):
        ids, scores = read_published_scores(evaluation_set)
        title = f"Prompts of {evaluation_set.title}, with the scores published with them"
        sources.append(_prompts(PUBLISHED, title, evaluation_set, ids, scores, {}))
    return sources


def find_published_set(metric: Metric) -> EvaluationSet | None:
    """The prompts with published scores: those of the metric, else the most that the board has; None without any."""
    rows = EvaluationSet.objects.filter(
        prompt_scores__state=Artefact.State.WHOLE, artefact__state=Artefact.State.WHOLE
    ).select_related("artefact", "prompt_scores")
    own = rows.filter(pk=metric.protocol.evaluation_set_id).first()
    return own or rows.order_by("-artefact__rows", "slug", "-version").first()


def read_published_scores(evaluation_set: EvaluationSet) -> tuple[list[str], agreement.Scoring]:
    """The ids of the prompts, and their published scores float [n] by attribute, NaN where there is none."""
    ids = artefacts.load(evaluation_set.artefact)["id"].to_pylist()
    table = artefacts.load(evaluation_set.prompt_scores)
    rows = {id_: number for number, id_ in enumerate(ids)}
    scores: dict[str, NDArray[np.float64]] = {}
    values = zip(table["id"].to_pylist(), table["attribute"].to_pylist(), table["score"].to_pylist(), strict=True)
    for id_, attribute, score in values:
        if score is not None:
            scores.setdefault(attribute, np.full(len(ids), np.nan))[rows[id_]] = score
    return ids, scores


def _prompts(
    key: str,
    title: str,
    evaluation_set: EvaluationSet,
    ids: list[str],
    scores: agreement.Scoring,
    thresholds: Mapping[str, float],
) -> PromptScores:
    """At most MOST_SCORED of the prompts, spaced evenly, with their texts."""
    places = np.linspace(0, len(ids) - 1, min(len(ids), MOST_SCORED)).astype(np.int64)
    prompts = artefacts.load(evaluation_set.artefact)
    text_by_id = dict(zip(prompts["id"].to_pylist(), prompts["text"].to_pylist(), strict=True))
    chosen_ids = [ids[place] for place in places]
    texts = [text_by_id[id_] for id_ in chosen_ids]
    chosen_scores = {name: values[places] for name, values in scores.items()}
    return PromptScores(key, title, evaluation_set, chosen_ids, texts, chosen_scores, thresholds)


def find_successor_scores(new: MetricVersion | None, prompts: PromptScores) -> agreement.Scoring | None:
    """The scores that the version of the successor keeps of these prompts, in their order; None where it has none."""
    if new is None or new.prompt_scores is None or new.protocol.evaluation_set_id != prompts.evaluation_set.pk:
        return None
    table = load_scores(new.prompt_scores)
    rows = {id_: number for number, id_ in enumerate(table["id"].to_pylist())}
    if any(id_ not in rows for id_ in prompts.ids):
        return None
    return by_attribute(table.take([rows[id_] for id_ in prompts.ids]))


def read_labelled_texts(scorer: str, successor: str) -> list[TextSource]:
    """The labelled texts that both scorers were calibrated on, a source a set."""
    rows = Calibration.objects.filter(
        metric_version__scorer__in=[scorer, successor], state=Work.State.DONE, artefact__state=Artefact.State.WHOLE
    ).select_related("metric_version", "evaluation_set__artefact", "artefact")
    by_set: dict[int, dict[str, Calibration]] = {}
    for row in rows.order_by("finished_at", "pk"):
        by_set.setdefault(row.evaluation_set_id, {})[row.metric_version.scorer] = row
    sources = []
    for pair in by_set.values():
        if len(pair) == 2 and pair[scorer].evaluation_set.artefact is not None:
            old, new = (load_calibration_scores(pair[name]) for name in (scorer, successor))
            title = f"Texts of {pair[scorer].evaluation_set.title}, which people labelled"
            thresholds = pair[scorer].metric_version.thresholds
            sources.append(TextSource(LABELLED, title, old.values, new.values, np.array(old.texts.ids), thresholds))
    return sources
