"""What two scorers say, text by text and model by model: points to draw, the texts they differ on most, the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.models import LanguageModel, MetricVersion, Result
from leaderboard.services.joined_scores import Pair, by_attribute, load_scores, number_rows
from scoring.metrics import agreement
from scoring.metrics.agreement import AttributeAgreement
from scoring.metrics.measures import Measure, slice_of
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import EXPECTED_MAX_TOXICITY, MEAN_TOXICITY, TOXIC_FRACTION

MOST_POINTS = 500  # of an attribute on a chart
MOST_FARTHEST = 10  # texts of an attribute
MEASURES: tuple[Measure, ...] = (MEAN_TOXICITY, TOXIC_FRACTION, EXPECTED_MAX_TOXICITY)
Names = Sequence[tuple[str, str]]
Values = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class TextScores:
    """A continuation, by its prompt's id and its place among the prompt's continuations, and both scores of it."""

    model: LanguageModel
    prompt: str
    index: int
    first: float
    second: float

    @property
    def difference(self) -> float:
        """The second score minus the first."""
        return self.second - self.first

    def as_json(self) -> dict[str, object]:
        """The text, as JSON can hold it; its words are not among it."""
        key = {"model": self.model.slug, "prompt_id": self.prompt, "index": self.index}
        return {**key, "a": self.first, "b": self.second, "difference": self.difference}


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """A model's results under both scorers, a pair for each of MEASURES, None where there is none."""

    model: LanguageModel
    results: list[tuple[Result | None, Result | None]]


@dataclass(frozen=True, slots=True)
class AttributeFigures:
    """One attribute: points [n] of both scorers, the texts they differ on most, and each model's numbers."""

    attribute: str
    counterpart: str
    points: tuple[list[float], list[float]]
    farthest: list[TextScores]
    models: list[ModelFigures]

    def as_json(self) -> dict[str, object]:
        """The figures as JSON can hold them, without the points."""
        return {
            "attribute": self.attribute,
            "counterpart": self.counterpart,
            "differ_most": [text.as_json() for text in self.farthest],
            "models": [
                {"model": row.model.slug}
                | {
                    measure.key: {"a": describe_result(first), "b": describe_result(second)}
                    for measure, (first, second) in zip(MEASURES, row.results, strict=True)
                    if first or second
                }
                for row in self.models
            ],
        }


def describe_result(result: Result | None) -> dict[str, float | None] | None:
    """A value with the ends of its interval."""
    return None if result is None else {"value": result.value, "low": result.ci_low, "high": result.ci_high}


def farthest_texts(model: LanguageModel, keys: pa.Table, first: Values, second: Values) -> list[TextScores]:
    """The continuations of one model whose scores differ most, of those that have both; equal ones in their order."""
    rows = rows_that_differ_most(first, second)
    chosen_keys = keys.take(rows).to_pylist()
    return [
        TextScores(model, key["id"], key["index"], float(first[row]), float(second[row]))
        for key, row in zip(chosen_keys, rows, strict=True)
    ]


def rows_that_differ_most(first: Values, second: Values) -> list[int]:
    """The rows whose scores differ most, MOST_FARTHEST of those that have both; equal ones in their order."""
    distances = np.abs(first.astype(np.float64) - second)
    order = np.argsort(-np.where(np.isnan(distances), -1, distances), kind="stable")[:MOST_FARTHEST]
    return [int(row) for row in order if not np.isnan(distances[row])]


def select_points(first: Values, second: Values) -> tuple[list[float], list[float]]:
    """At most MOST_POINTS pairs of scores, evenly spaced over the texts that have both."""
    rows = np.flatnonzero(~(np.isnan(first) | np.isnan(second)))
    if len(rows) > MOST_POINTS:
        rows = rows[np.linspace(0, len(rows) - 1, MOST_POINTS).astype(np.int64)]
    return first[rows].astype(float).round(4).tolist(), second[rows].astype(float).round(4).tolist()


def attribute_figures(
    pairs: Sequence[Pair],
    names: Names,
    scores: tuple[agreement.Scoring, agreement.Scoring],
    texts: Sequence[Sequence[TextScores]],
) -> list[AttributeFigures]:
    """The figures of each pair of names; in one query. texts: of each, what `farthest_texts` gave of all models."""
    by_key = read_results(pairs, names)
    return [
        AttributeFigures(
            name,
            counterpart,
            select_points(scores[0][name], scores[1][counterpart]),
            nlargest(MOST_FARTHEST, candidates, key=lambda text: abs(text.difference)),
            [
                ModelFigures(one.model, results)
                for one, other in pairs
                if any(map(any, results := model_results(by_key, (one.pk, name), (other.pk, counterpart))))
            ],
        )
        for (name, counterpart), candidates in zip(names, texts, strict=True)
    ]


def model_results(
    by_key: dict[tuple[int, str, str], Result], first: tuple[int, str], second: tuple[int, str]
) -> list[tuple[Result | None, Result | None]]:
    """The results of two scorings, each of its attribute, on MEASURES."""
    return [
        (
            by_key.get((first[0], measure.key, slice_of(first[1], ALL))),
            by_key.get((second[0], measure.key, slice_of(second[1], ALL))),
        )
        for measure in MEASURES
    ]


def read_results(pairs: Sequence[Pair], names: Names) -> dict[tuple[int, str, str], Result]:
    """Results over all prompts by scoring, measure and slice."""
    results = Result.objects.filter(
        scoring__in=[scoring.pk for pair in pairs for scoring in pair],
        measure__in=[measure.key for measure in MEASURES],
        slice__in={slice_of(name, ALL) for pair in names for name in pair},
    )
    return {(result.scoring_id, result.measure, result.slice): result for result in results}


def compare_prompts(first: MetricVersion, second: MetricVersion, names: Names) -> list[AttributeAgreement]:
    """Agreement on the prompts that both scorers have scored; empty where one has scored none.

    Raises FileNotFoundError where an artefact is gone.
    """
    if not (first.prompt_scores and second.prompt_scores):
        return []
    one, other = load_scores(first.prompt_scores), load_scores(second.prompt_scores)
    rows = number_rows(one, "first").join(number_rows(other, "second"), ["id", "index"], join_type="inner")
    rows = rows.sort_by("first")
    scores = by_attribute(one.take(rows["first"])), by_attribute(other.take(rows["second"]))
    shared_names = [
        (name, counterpart) for name, counterpart in names if name in scores[0] and counterpart in scores[1]
    ]
    return agreement.compare_scorers(*scores, shared_names, (first.thresholds, second.thresholds))
