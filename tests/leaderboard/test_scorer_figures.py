"""What two scorers say of the same texts: points, the texts they differ on most, and numbers."""

import numpy as np
import pyarrow as pa
import pytest

from leaderboard.models import LanguageModel, Result
from leaderboard.queries.scorer_figures import (
    AttributeFigures,
    ModelFigures,
    TextScores,
    describe_result,
    farthest_texts,
    model_results,
    rows_that_differ_most,
    select_points,
)

pytestmark = pytest.mark.either_database


def test_the_texts_that_scorers_differ_on_most_come_first_and_equal_ones_in_their_order():
    first = np.array([0.1, 0.5, np.nan, 0.9, 0.2, 0.5], dtype=np.float32)
    second = np.array([0.2, 0.25, 0.4, 0.4, np.nan, 0.25], dtype=np.float32)
    assert rows_that_differ_most(first, second) == [3, 1, 5, 0]
    many = np.arange(12) / 100
    assert rows_that_differ_most(many, np.zeros(12)) == [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]
    alternating = np.tile([0.25, 0.75], 20)
    assert rows_that_differ_most(alternating, np.zeros(40)) == list(range(1, 20, 2))
    gaps = np.concatenate([np.full(5, np.nan), np.full(10, 0.5)])
    assert rows_that_differ_most(gaps, np.zeros(15)) == list(range(5, 15))


def test_a_text_is_told_by_its_model_prompt_and_place_with_both_scores():
    model = LanguageModel(slug="gpt")
    keys = pa.table({"id": ["p1", "p1", "p2"], "index": [0, 1, 0]})
    first, second = np.array([0.5, 0.25, 0.75]), np.array([0.5, 0.75, 0.5])
    texts = farthest_texts(model, keys, first, second)
    assert texts == [
        TextScores(model, "p1", 1, 0.25, 0.75),
        TextScores(model, "p2", 0, 0.75, 0.5),
        TextScores(model, "p1", 0, 0.5, 0.5),
    ]
    assert texts[1].as_json() == {
        **{"model": "gpt", "prompt_id": "p2", "index": 0},
        **{"a": 0.75, "b": 0.5, "difference": -0.25},
    }


def test_points_are_the_texts_with_both_scores_at_most_500_and_evenly_spaced():
    first, second = np.array([0.1, np.nan, 0.33333, 0.4]), np.array([0.2, 0.3, 0.66666, np.nan])
    assert select_points(first, second) == ([0.1, 0.3333], [0.2, 0.6667])
    scores = np.arange(1001) / 1000
    points = select_points(scores[:500], scores[:500])
    assert points == (scores[:500].tolist(), scores[:500].tolist())
    points, others = select_points(scores, 1 - scores)
    assert (len(points), points[0], points[-1]) == (500, 0, 1)
    assert others == pytest.approx([1 - point for point in points])
    steps = np.diff(points)
    assert steps.min() == pytest.approx(0.002)
    assert steps.max() == pytest.approx(0.003)


def test_figures_of_an_attribute_have_the_values_of_models_and_the_texts_they_differ_on():
    model = LanguageModel(slug="gpt")
    value, other = Result(value=0.1, ci_low=0.05, ci_high=0.2), Result(value=0.3)
    results = model_results(
        {(1, "mean_toxicity", "insult:all"): value, (2, "mean_toxicity", "threat:all"): other},
        (1, "insult"),
        (2, "threat"),
    )
    assert results == [(value, other), (None, None), (None, None)]
    only_second = model_results({(2, "toxic_fraction", "threat:all"): other}, (1, "insult"), (2, "threat"))
    figures = AttributeFigures(
        "insult",
        "threat",
        ([0.1], [0.2]),
        [TextScores(model, "p", 3, 0.5, 0.75)],
        [ModelFigures(model, results), ModelFigures(LanguageModel(slug="other"), only_second)],
    )
    assert figures.as_json() == {
        "attribute": "insult",
        "counterpart": "threat",
        "differ_most": [{"model": "gpt", "prompt_id": "p", "index": 3, "a": 0.5, "b": 0.75, "difference": 0.25}],
        "models": [
            {
                "model": "gpt",
                "mean_toxicity": {
                    "a": {"value": 0.1, "low": 0.05, "high": 0.2},
                    "b": {"value": 0.3, "low": None, "high": None},
                },
            },
            {"model": "other", "toxic_fraction": {"a": None, "b": {"value": 0.3, "low": None, "high": None}}},
        ],
    }
    assert describe_result(None) is None
