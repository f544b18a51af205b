"""The charts of checks: every check in its place, against its bound, with a shape for each verdict."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from django.conf import settings

from leaderboard.charts import ControlPanel, ControlPoint, control_chart

PANELS = [
    ControlPanel("Largest", "noise"),
    ControlPanel("Mean", "limit"),
    ControlPanel("Flips", "material from", counted=True),
]
POINTS = [
    ControlPoint("stable", "1 May", "first", 1, [0.0, 0.0, 0], [1e-4, 0.005, 3]),
    ControlPoint("changed", "2 May", "second", 1, [2e-4, 1e-5, 0], [1e-4, 0.005, 3]),
    ControlPoint("unavailable", "3 May", "third", 1, [None, None, None], [None, None, None]),
    ControlPoint("drifted", "4 May", "fourth", 1, [0.25, 0.06, 17], [1e-4, 0.005, 3]),
    ControlPoint("stable", "5 May", "fifth", 2, [1e-6, 1e-7, 0], [3e-4, 0.005, 3]),
]


def traces(figure: dict, meta: str) -> list[dict]:
    return [trace for trace in figure["data"] if trace["meta"] == meta]


def test_each_panel_holds_the_values_and_bounds_of_every_check():
    figure = control_chart("c", PANELS, POINTS, "words").figure
    for row, (checks, bounds) in enumerate(zip(traces(figure, "checks"), traces(figure, "bound"), strict=True)):
        drawn = dict(zip(checks["x"], checks["y"], strict=True))
        for place, point in enumerate(POINTS):
            value = point.values[row]
            if value is not None and value > 1e-5:
                assert drawn[place] == value
            if value is None and row:
                assert place not in drawn
        assert bounds["y"] == [point.bounds[row] for point in POINTS]


def test_what_is_too_small_for_the_scale_stands_on_its_floor_which_says_so():
    figure = control_chart("c", PANELS, POINTS, "words").figure
    axis = figure["layout"]["yaxis"]
    assert axis["type"] == "log"
    assert axis["tickvals"][0] == pytest.approx(1e-7)
    assert axis["ticktext"][0] == "≤1e-07"
    assert traces(figure, "checks")[0]["y"][0] == pytest.approx(1e-7)
    assert 10 ** axis["range"][0] < 1e-7
    assert 10 ** axis["range"][1] > 0.25


def test_flips_are_counted_from_0_with_the_bound_in_sight():
    axis = control_chart("c", PANELS, POINTS, "words").figure["layout"]["yaxis3"]
    assert axis.get("type") != "log"
    low, high = axis["range"]
    assert low < 0 < 17 < high


def test_verdicts_differ_by_shape_and_a_check_without_an_answer_is_a_cross_in_the_first_panel_only():
    checks = traces(control_chart("c", PANELS, POINTS, "words").figure, "checks")
    assert checks[0]["marker"]["symbol"] == ["circle", "triangle-up", "x", "diamond", "circle"]
    assert checks[1]["marker"]["symbol"] == ["circle", "triangle-up", "diamond", "circle"]


def test_a_dotted_line_stands_where_another_version_begins_and_each_is_named():
    layout = control_chart("c", PANELS, POINTS, "words").figure["layout"]
    assert [shape["x0"] for shape in layout["shapes"]] == [3.5]
    named = [(note["text"], note["x"]) for note in layout["annotations"] if note.get("xref") == "x"]
    assert named == [("v1", pytest.approx(-0.4)), ("v2", pytest.approx(3.6))]


def test_panels_stand_one_under_another_without_touching():
    layout = control_chart("c", PANELS, POINTS, "words").figure["layout"]
    domains = [layout[name]["domain"] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert domains[0][1] == 1
    assert domains[-1][0] == pytest.approx(0, abs=1e-9)
    assert all(below[1] < above[0] for above, below in pairwise(domains))
    assert layout["xaxis"]["anchor"] == "y3"


def test_the_dates_under_many_checks_are_few():
    many = [POINTS[0]] * 50
    chart = control_chart("c", PANELS[:1], many, "words")
    assert 3 <= len(chart.figure["layout"]["xaxis"]["tickvals"]) <= 6
    assert chart.least_width >= 50 * 8


def test_colours_are_tokens_of_the_stylesheet_and_figures_are_json():
    text = json.dumps(control_chart("c", PANELS, POINTS, "words").figure, allow_nan=False)
    stylesheet = Path(settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    tokens = set(re.findall(r"var\((--[a-z-]+)\)", text))
    assert tokens
    assert all(f"{token}:" in stylesheet for token in tokens)
    assert not re.search(r'"(#[0-9a-f]{3,8}|rgba?\()', text)
