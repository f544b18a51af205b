"""Charts of demographics and models: figures that hold their numbers, in the colours of the stylesheet."""

import re

import numpy as np
import pytest
from django.conf import settings

from leaderboard.charts import (
    BoxColumn,
    BoxPoint,
    DistributionSample,
    RankPoint,
    box_plots,
    distributions,
    rank_history_chart,
)
from leaderboard.charts.box_plots import MANY
from scoring.statistics.boxes import box


def column(label: str, values: list[float], kind: str = "causal") -> BoxColumn:
    return BoxColumn(label, box(values), [BoxPoint(f"Model <{n}>", value, kind) for n, value in enumerate(values)])


BOXES = [column("Native American", [0.1, 0.2, 0.3, 0.4, 0.95]), column("Women", [0.2, 0.25, 0.5], "masked")]
FIGURES = {
    "boxes": box_plots("boxes", BOXES, "Safety score", 3, 0.5, "words"),
    "distributions": distributions(
        "likely",
        [0, 1, 2],
        (DistributionSample("Harmful", [0.25, 0.75], 1.2), DistributionSample("Benign", [0.5, 0.5], 1.0)),
        "x",
        "words",
    ),
    "ranks": rank_history_chart(
        "ranks",
        [
            RankPoint(1, 4, 2, 6, "6 models"),
            RankPoint(2, None, None, None, ""),
            RankPoint(5, 3, None, None, "7 models"),
        ],
        "words",
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_colours_are_tokens_that_the_stylesheet_has_in_both_themes(name):
    css = (settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    dark = css.split("@media (prefers-color-scheme: dark)", 1)[1].split("@media", 1)[0]
    tokens = set(re.findall(r"(--[a-z-]+): #", css.split("@media", 1)[0])) & set(re.findall(r"(--[a-z-]+): #", dark))

    def colours(value: object, key: str = "") -> set[str]:
        if isinstance(value, dict):
            return set().union(*(colours(of, of_key) for of_key, of in value.items()), set())
        if isinstance(value, list | tuple | np.ndarray):
            return set().union(*(colours(of, key) for of in value), set())
        return {str(value)} if key.endswith("color") else set()

    found = colours(FIGURES[name].figure)
    assert len(found) > 2
    assert found <= {f"var({token})" for token in tokens}


def test_a_box_plot_draws_the_numbers_of_every_box_and_names_every_model():
    drawn, points = FIGURES["boxes"].figure["data"]
    for key, expected in {
        "lowerfence": [0.1, 0.2],
        "q1": [0.2, 0.225],
        "median": [0.3, 0.25],
        "q3": [0.4, 0.375],
        "upperfence": [0.4, 0.5],
    }.items():
        assert list(drawn[key]) == pytest.approx(expected), key
    assert list(points["y"]) == [0.1, 0.2, 0.3, 0.4, 0.95, 0.2, 0.25, 0.5]
    assert points["text"][4] == "Model &lt;4&gt;<br>Native American"
    symbols = points["marker"]["symbol"]
    assert symbols[4] == "circle", "a model beyond the whiskers differs by shape and size, and not by colour alone"
    assert set(symbols[:4]) == {"circle-open"}
    assert set(symbols[5:]) == {"square-open"}
    assert points["marker"]["size"][4] > points["marker"]["size"][3]


def test_of_many_models_only_those_beyond_the_whiskers_are_drawn_one_by_one():
    values = [*np.linspace(0.4, 0.6, MANY), 0.99]
    points = box_plots("many", [column("Women", values)], "Safety score", 3, None, "words").figure["data"][1]
    assert list(points["y"]) == [0.99]


def test_a_neutral_value_is_a_line_and_its_absence_is_none():
    assert FIGURES["boxes"].figure["layout"]["shapes"][0]["y0"] == 0.5
    assert not box_plots("boxes", BOXES, "Safety score", 3, None, "words").figure["layout"].get("shapes")


def test_distributions_differ_by_dash_as_well_and_their_medians_are_named_apart():
    figure = FIGURES["distributions"].figure
    first, second = figure["data"]
    assert list(zip(first["x"], first["y"], strict=True)) == [(0, 0), (0, 0.25), (1, 0.75), (2, 0.75), (2, 0)]
    assert first["line"]["dash"] != second["line"]["dash"]
    texts = {note["text"]: note["xanchor"] for note in figure["layout"]["annotations"]}
    assert texts == {"<b>Benign</b><br>median 1.00": "right", "<b>Harmful</b><br>median 1.20": "left"}


def test_a_history_of_ranks_has_the_best_on_top_and_a_gap_where_there_is_none():
    figure = FIGURES["ranks"].figure
    (line,) = figure["data"]
    assert list(line["y"]) == [4, None, 3]
    assert line["connectgaps"] is False
    assert list(line["error_y"]["array"]) == [2, 0, 0]
    assert list(line["error_y"]["arrayminus"]) == [2, 0, 0]
    bottom, top = figure["layout"]["yaxis"]["range"]
    assert top < 2 < 6 < bottom
    assert figure["layout"]["yaxis"]["tickvals"] == [2, 3, 4, 5, 6]


def test_one_rank_only_is_marked_once():
    figure = rank_history_chart(
        "ranks", [RankPoint(1, 1, 1, 1, "1 model"), RankPoint(2, 1, 1, 1, "1 model")], "words"
    ).figure
    assert figure["layout"]["yaxis"]["tickvals"] == [1]
