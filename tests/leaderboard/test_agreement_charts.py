"""Forests and scatters: every number is drawn, groups differ by shape, colours are the stylesheet's."""

import re

import numpy as np
import pytest
from django.conf import settings

from leaderboard.charts import MOST_GROUPS, ForestLine, Panel, Series, forest_chart, scatter_chart
from scoring.statistics.regression import line

LINES = [
    ForestLine("Alpha\nthan Beta", 0.03, 0.01, 0.05, "Alpha <b> Beta"),
    ForestLine("Beta\nthan Gamma", 0.01, -0.01, 0.03, "Beta, Gamma", firm=False),
    ForestLine("Gamma", 0.2, None, None, "Gamma"),
]


def forest():
    return forest_chart("forest", LINES, "less harmful by", "words", reference=0)


def scatter(groups: int = 3):
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 5])
    series = [
        Series(f"Family {n}", x.tolist(), (y + n).tolist(), [f"model {n}-{i}" for i in range(4)]) for n in range(groups)
    ]
    return scatter_chart(
        "scatter", [Panel("Layers", series, line=line(x, y)), Panel("Heads", series)], "Score", "words"
    )


def test_a_forest_holds_every_value_with_its_interval():
    found = {}
    for trace in forest().figure["data"]:
        ends = trace["error_x"]
        for x, y, high, low in zip(trace["x"], trace["y"], ends["array"], ends["arrayminus"], strict=True):
            found[y] = (x, round(x - low, 6), round(x + high, 6))
    assert found == {0: (0.03, 0.01, 0.05), 1: (0.01, -0.01, 0.03), 2: (0.2, 0.2, 0.2)}


def test_what_may_be_nothing_is_hollow_and_what_is_firm_is_filled():
    symbols = {y: trace["marker"]["symbol"] for trace in forest().figure["data"] for y in trace["y"]}
    assert symbols == {0: "square", 1: "square-open", 2: "square"}


def test_names_cannot_be_read_as_tags():
    assert "Alpha &lt;b&gt; Beta" in forest().figure["data"][0]["text"]


def test_a_forest_is_as_high_as_its_lines_need():
    short = forest_chart("forest", LINES[:1], "by", "words")
    assert forest().height - short.height == 60
    assert "shapes" not in short.figure["layout"] or not short.figure["layout"]["shapes"]


def test_a_group_has_one_symbol_in_all_panels_and_no_other_group_has_it():
    figure = scatter(MOST_GROUPS).figure
    symbols: dict[str, set[str]] = {}
    for trace in figure["data"]:
        if "marker" in trace:
            symbols.setdefault(trace["name"], set()).add(trace["marker"]["symbol"])
    assert all(len(of) == 1 for of in symbols.values())
    assert len({next(iter(of)) for of in symbols.values()}) == MOST_GROUPS
    in_legend = [trace["name"] for trace in figure["data"] if trace.get("showlegend")]
    assert sorted(in_legend) == sorted(symbols)


def test_the_line_runs_within_its_band():
    band, drawn = (trace for trace in scatter().figure["data"] if trace["mode"] == "lines")
    n = len(drawn["x"])
    high, low = band["y"][:n], band["y"][n:][::-1]
    assert all(a <= b <= c for a, b, c in zip(low, drawn["y"], high, strict=True))
    assert min(drawn["x"]) == 1
    assert max(drawn["x"]) == 4


def test_panels_stand_side_by_side_without_overlap():
    layout = scatter().figure["layout"]
    (first, second) = layout["xaxis"]["domain"], layout["xaxis2"]["domain"]
    assert first[0] == 0
    assert first[1] < second[0]
    assert second[1] == 1


def colours(value: object, key: str = "") -> set[str]:
    if isinstance(value, dict):
        return set().union(*(colours(of, name) for name, of in value.items()), set())
    if isinstance(value, list | tuple):
        return set().union(*(colours(of, key) for of in value), set())
    return {value} if isinstance(value, str) and "color" in key.lower() else set()


@pytest.mark.parametrize("chart", [forest, scatter])
def test_colours_are_tokens_that_the_stylesheet_has_in_both_themes(chart):
    css = (settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    light, dark = (set(re.findall(r"(--[a-z-]+): #", part)) for part in css.split("@media (prefers-color-scheme", 1))
    used = colours(chart().figure)
    assert used
    assert {re.fullmatch(r"var\((--[a-z-]+)\)", colour)[1] for colour in used} <= light & dark
