"""Charts: figures that hold their numbers, in the colours of the stylesheet, with room for every name."""

import itertools
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from leaderboard.charts import BumpColumn, BumpLine, Panel, Series, bump_chart, scatter_chart
from leaderboard.charts.bump import spread
from leaderboard.charts.names import place_names

COLUMNS = [BumpColumn(1, "May"), BumpColumn(2, "June", "scorer: other"), BumpColumn(5, "July")]
LINES = [
    BumpLine("a", "Alpha", [1, 2, 2], 0),
    BumpLine("b", "Beta", [2, 1, 3], -2),
    BumpLine("c", "Gamma", [None, 3, 1], 2),
    BumpLine("d", "Delta", [3, None, None], None),
]


def test_a_figure_holds_every_rank_and_breaks_where_there_is_none():
    figure = bump_chart("ranks", COLUMNS, LINES, "words").figure
    points = {
        (key, x): y
        for trace in figure["data"]
        if trace.get("meta") == "lines"
        for key, x, y in zip(trace["customdata"], trace["x"], trace["y"], strict=True)
        if key
    }
    assert points == {(line.key, place): rank for line in LINES for place, rank in enumerate(line.ranks)}
    assert not any(trace.get("connectgaps") for trace in figure["data"])


def test_a_figure_is_what_plotly_takes():
    figure = bump_chart("ranks", COLUMNS, LINES, "words").figure
    assert go.Figure(figure).to_plotly_json()["data"] == figure["data"]  # which raises where it knows a property not


def test_rises_and_falls_differ_by_shape_and_a_line_that_ends_is_crossed_off():
    figure = bump_chart("ranks", COLUMNS, LINES, "words").figure
    symbols = {
        (key, x): symbol
        for trace in figure["data"]
        if trace.get("meta") == "lines"
        for key, x, symbol in zip(trace["customdata"], trace["x"], trace["marker"]["symbol"], strict=True)
    }
    assert symbols["c", 1] == "triangle-up"
    assert symbols["b", 1] == "triangle-down"
    assert symbols["a", 1] == "circle"
    assert symbols["d", 0] == "x"


def test_colours_are_tokens_that_the_stylesheet_has_in_both_themes():
    css = (settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    light, dark = (set(re.findall(r"(--[a-z-]+): #", part)) for part in css.split("@media (prefers-color-scheme", 1))

    def colours(value: object, key: str = "") -> set[str]:
        if isinstance(value, dict):
            return set().union(*(colours(of, name) for name, of in value.items()), set())
        if isinstance(value, list | tuple):
            return set().union(*(colours(of, key) for of in value), set())
        return {str(value)} if key.endswith("color") else set()

    found = colours(bump_chart("ranks", COLUMNS, LINES, "words").figure)
    assert len(found) > 5
    assert found <= {f"var({token})" for token in light & dark}


def test_a_chart_keeps_room_for_a_name_a_row_whatever_is_shown():
    for count in (1, 37, 200):
        lines = [BumpLine(str(n), f"Model {n}", [n + 1, count - n], 0) for n in range(count)]
        chart = bump_chart("ranks", COLUMNS[:2], lines, "words")
        names = next(trace for trace in chart.figure["data"] if trace.get("meta") == "names")
        bottom, top = chart.figure["layout"]["yaxis"]["range"]
        margin = chart.figure["layout"]["margin"]
        pixels = (chart.height - margin["t"] - margin["b"]) / (bottom - top)
        gaps = np.diff(names["y"]) * pixels
        assert (gaps >= 12).all(), "11 pixels high, and a little between"
        assert chart.height < 3_200


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40).map(sorted),
    st.floats(0.1, 5),
)
def test_names_are_spread_in_order_within_the_chart_and_apart(wanted, gap):
    low, high = float(wanted[0]), float(wanted[-1])
    placed = spread(wanted, gap, low, high)
    least = min(gap, (high - low) / max(1, len(wanted) - 1))
    assert len(placed) == len(wanted)
    assert all(after - before >= least - 1e-3 for before, after in itertools.pairwise(placed))
    assert all(low - 1e-3 <= place <= high + 1e-3 for place in placed)


@given(st.lists(st.integers(0, 12), min_size=2, max_size=6).map(sorted))
def test_names_stand_as_near_to_their_points_as_an_optimiser_finds(wanted):
    gap = 1.0
    placed = np.array(spread(wanted, gap, -20, 40))
    best = minimize(
        lambda places: float(((places - wanted) ** 2).sum()),
        np.arange(len(wanted)) * 2.0,
        jac=lambda places: 2 * (places - wanted),
        constraints=[
            {"type": "ineq", "fun": lambda places, n=n: places[n + 1] - places[n] - gap} for n in range(len(wanted) - 1)
        ],
    )
    assert ((placed - wanted) ** 2).sum() <= best.fun + 1e-3


def test_names_that_have_room_stand_at_their_points():
    assert spread([1, 2, 3, 7], 1, 1, 7) == [1, 2, 3, 7]


def test_of_plotly_the_script_alone_is_served_compressed_under_a_name_for_ever():
    name = staticfiles_storage.stored_name("plotly/plotly.min.js")
    assert re.fullmatch(r"plotly/plotly\.min\.[0-9a-f]{12}\.js", name)
    folder = Path(settings.STATIC_ROOT) / "plotly"
    assert (folder / f"{Path(name).name}.gz").stat().st_size < 1_600_000
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {"plotly"}
    assert finders.find("plotly/plotly.min.js")


def test_names_stand_where_they_cover_neither_points_nor_one_another():
    generator = np.random.default_rng(4)
    x, y = generator.random(40), generator.random(40)
    names = [f"model-{number}" for number in range(40)]
    positions = place_names(x, y, names, (440, 360), (0.0, 1.0))
    assert 10 < sum(position is not None for position in positions) < 40
    alone = place_names(np.array([0.0, 1.0]), np.array([0.0, 1.0]), ["one", "two"], (440, 360), (0.0, 1.0))
    assert alone == ["middle right", "middle left"], "the second has no room at its right"
    same = place_names(np.zeros(12), np.zeros(12), names[:12], (440, 360), (0.0, 1.0))
    assert 0 < sum(position is not None for position in same) <= 4, "there is room for few around one place"
    assert len({position for position in same if position}) == sum(position is not None for position in same)
    assert place_names(np.array([]), np.array([]), [], (440, 360), (0.0, 1.0)) == []


def test_a_scatter_with_names_is_what_plotly_takes():
    series = Series("family", [1.0, 2.0], [3.0, 4.0], ["a: 1, 3", "b: 2, 4"], names=["a", "b"])
    figure = scatter_chart("pair", [Panel("x", [series])], "y", "words").figure
    assert go.Figure(figure).to_plotly_json()["data"] == figure["data"]
    assert figure["data"][0]["text"] == ["a", "b"]
    assert figure["data"][0]["hovertext"] == ["a: 1, 3", "b: 2, 4"]
