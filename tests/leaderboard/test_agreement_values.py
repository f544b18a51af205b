"""Values of measures side by side: which models count, and how properties of models are drawn."""

import math

import numpy as np
import pytest

from leaderboard.models import Metric, MetricVersion
from leaderboard.queries.agreement import (
    FirstSlices,
    MeasureColumn,
    Origin,
    Subject,
    Values,
    choose_columns,
    shared_parts,
)
from scoring.metrics.formulas import MEASURES
from scoring.refusals import Missing, Refused

pytestmark = pytest.mark.either_database


def column_of(slug: str, formula: str, key: str, name: str, *, derived: bool = False) -> MeasureColumn:
    metric = Metric(slug=slug, title=slug.title(), formula_name=formula)
    versions = tuple(
        MetricVersion(metric=metric, number=number, provenance=provenance)
        for number, provenance in ((2, "measured"), (1, "published"))
    )
    return MeasureColumn(versions, MEASURES[key], name, derived)


SAFETY = column_of("safety", "safety", "safety_score", "average")
TOXICITY = column_of("toxicity", "toxicity", "toxic_fraction", "insult:all", derived=True)
SUBJECTS = [
    Subject("a", "A", "", "causal", 12, None, 768, 1000),
    Subject("b", "B", "", "masked", None, 8, None, None),
    Subject("c", "C", "", "masked", 6, 4, 64, 10),
]


def values_with(cells: list[list[float]]) -> Values:
    return Values([SAFETY, TOXICITY], SUBJECTS, np.array(cells), np.full((2, 3), None, dtype=object))


def test_a_column_is_called_by_its_metric_measure_and_slice():
    assert (SAFETY.key, SAFETY.label) == ("safety/safety_score/average", "Safety score, Average")
    assert TOXICITY.title == "Toxicity: ≈ Toxic fraction, Insult, all prompts"
    assert SAFETY.origin == "version 2, measured here and version 1, published figures"
    version = MetricVersion(provenance="published", decimals=2)
    assert Origin(version, derived=False).print_value(0.456, SAFETY) == "0.46"
    assert [Origin(version, derived=derived).in_words for derived in (False, True)] == ["published", "derived"]


def test_sizes_of_models_are_drawn_as_they_are_and_parameters_on_a_logarithmic_scale():
    values = values_with([[0.1, 0.2, 0.3]] * 2)
    assert values.read_property("layers").tolist()[::2] == [12, 6]
    assert math.isnan(values.read_property("layers")[1])
    assert values.read_property("heads").tolist()[1:] == [8, 4]
    assert values.read_property("hidden_size").tolist()[::2] == [768, 64]
    assert values.read_property("parameters").tolist()[::2] == [3, 1]


def test_values_are_narrowed_to_models_and_columns_that_have_any():
    values = values_with([[0.1, math.nan, 0.3], [math.nan, 0.2, 0.4]])
    assert [values.count_models(column) for column in (SAFETY, TOXICITY)] == [2, 2]
    assert values.read_column(TOXICITY).tolist()[1:] == [0.2, 0.4]
    assert [model.slug for model in values.select_kind("masked").models] == ["b", "c"]
    assert values.apart.tolist() == [True, False]
    assert list(values.kinds.items()) == [("masked", 1), ("causal", 1)], "of two with as many, the one with more values"
    separate = values.separate_kind("causal")
    assert [model.slug for model in separate.models] == ["a", "b", "c"]
    assert np.isfinite(separate.values).tolist() == [[True, False, False], [False, True, True]]
    masked = values.separate_kind("masked")
    assert [model.slug for model in masked.models] == ["b", "c"]
    assert masked.values.shape == masked.origins.shape == (2, 2)
    empty = values_with([[math.nan] * 3, [0.1, 0.2, 0.3]]).drop_empty()
    assert (empty.columns, empty.values.tolist(), empty.origins.shape) == ([TOXICITY], [[0.1, 0.2, 0.3]], (1, 3))


def test_parts_of_slices_are_shared_by_two_metrics_and_begin_after_the_overall_one():
    firsts = [
        FirstSlices(SAFETY.versions, SAFETY.measure, ["average", "women", "asian"]),
        FirstSlices(TOXICITY.versions, TOXICITY.measure, ["insult:all", "women"]),
        FirstSlices(TOXICITY.versions, TOXICITY.measure, ["average"]),
    ]
    assert shared_parts(firsts) == ["women"]
    assert [column.slice for column in choose_columns([], {}, firsts)] == ["average", "insult:all", "average"]
    assert [column.slice for column in choose_columns([], {}, firsts, "women")] == ["women", "women"]
    with pytest.raises(Missing) as caught:
        choose_columns([], {}, firsts, "nobody")
    assert str(caught.value) == "slice = 'nobody' does not exist here. Slices of several metrics: women"
    assert (caught.value.field, caught.value.value) == ("slice", "nobody")
    with pytest.raises(Missing, match="Slices of several metrics: none yet"):
        choose_columns([], {}, [], "nobody")


def test_columns_are_chosen_by_name_each_once_and_at_most_twelve():
    metrics = {"safety": SAFETY.versions, "toxicity": TOXICITY.versions}
    names = ["toxicity/toxic_fraction/insult:all", "safety/safety_score/women", "toxicity/toxic_fraction/insult:all"]
    assert [column.key for column in choose_columns(names, metrics, [])] == names[:2]
    many = [f"safety/safety_score/group{number}" for number in range(13)]
    assert len(choose_columns(many[:12], metrics, [])) == 12
    with pytest.raises(Refused) as caught:
        choose_columns(many, metrics, [])
    assert str(caught.value) == "c: 13 measures are asked for, and 12 fit side by side: take some out"
    assert (caught.value.field, caught.value.value) == ("c", 13)
    for name in ("nothing/safety_score/women", "safety/toxic_fraction/women", "safety/safety_score/", "safety"):
        with pytest.raises(Missing) as missing:
            choose_columns([name], metrics, [])
        assert str(missing.value) == (
            f"c = {name!r} does not exist here. Write METRIC/MEASURE/SLICE; metrics with such numbers: safety, toxicity"
        )
        assert (missing.value.field, missing.value.value) == ("c", name)
