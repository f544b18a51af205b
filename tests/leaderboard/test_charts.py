"""Charts as data: every number in its place, shapes beside colours, and no mark at a value that cannot be."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from leaderboard.charts import (
    MOST_GROUPS,
    BoxColumn,
    BoxPoint,
    BumpColumn,
    BumpLine,
    ControlPanel,
    ControlPoint,
    DistributionSample,
    ForestLine,
    RankPoint,
    ScatterPanel,
    Series,
    box_plots,
    bump_chart,
    bump_charts,
    control_chart,
    distributions,
    drawn_positions,
    forest_chart,
    rank_history_chart,
    scatter_chart,
)
from leaderboard.charts.box_plots import MANY
from leaderboard.charts.bump import focus_lines, spread
from leaderboard.charts.figure import Block, Chart, Ink, Line, Ribbon, Spot
from leaderboard.charts.names import POINT, Box, place_names, surround_name
from leaderboard.charts.plotly import describe_plotly
from leaderboard.charts.text import measure_text, shorten
from leaderboard.charts.ticks import fit_axis, fit_logarithmic, fit_ranks, mark_numbers, write_compact
from scoring.statistics.boxes import box
from scoring.statistics.regression import line
from tests.charts import traces

pytestmark = pytest.mark.either_database

COLUMNS = [
    BumpColumn(1, ("1 May", "2026", "first")),
    BumpColumn(2, ("2 June",), renewed=True),
    BumpColumn(5, ("July",)),
]
LINES = [
    BumpLine("a", "Alpha", [1, 2, 2], [-1, 0], [(1, 2), (1, 3), None], "/models/a/"),
    BumpLine("b", "Beta", [2, 1, 3], [1, -2]),
    BumpLine("c", "Gamma", [None, 3, 1], [None, 2]),
    BumpLine("d", "Delta", [3, None, None], [None, None]),
]


def marks(chart: Chart, kind: type, panel: int = 0) -> list:
    return [mark for mark in chart.panels[panel].marks if isinstance(mark, kind)]


def bump(lines=LINES, columns=COLUMNS, front: str = "") -> Chart:
    return bump_chart("ranks", columns, lines, "words", front)


def test_a_bump_chart_holds_every_rank_and_breaks_where_there_is_none():
    spots = {(spot.key, spot.x): spot.y for spot in marks(bump(), Spot)}
    assert spots == {
        (one.key, place): rank for one in LINES for place, rank in enumerate(one.ranks) if rank is not None
    }
    stretches = {(one.key, tuple(one.x)) for one in marks(bump(), Line) if one.width >= 2}
    assert ("c", (1, 2)) in stretches
    assert not any(key == "d" for key, _ in stretches)


def test_small_multiples_are_bump_charts_one_under_another_each_with_its_title():
    chart = bump_charts("ranks", COLUMNS, {"Mean": LINES, "Maximum": LINES[:2]}, "words")
    assert [panel.y.title for panel in chart.panels] == ["Mean", "Maximum"]
    assert chart.panels[0].marks == bump().panels[0].marks
    assert {spot.key for spot in marks(chart, Spot, 1)} == {"a", "b"}
    layout = describe_plotly(chart)["layout"]
    lower, upper = layout["yaxis2"]["domain"], layout["yaxis"]["domain"]
    assert lower[1] < upper[0]
    assert layout["annotations"][1]["yshift"] > 0  # over the heads of its columns


def test_each_stretch_of_a_line_is_coloured_by_the_movement_between_its_own_two_versions():
    colours = {(one.key, x): one.ink for one in marks(bump(), Line) if one.width >= 2 for x in list(one.x)[:-1]}
    assert colours["a", 0] == Ink.SECOND
    assert colours["a", 1] == Ink.QUIET
    assert colours["b", 0] == Ink.FIRST
    assert colours["b", 1] == Ink.SECOND
    assert colours["c", 1] == Ink.FIRST


def test_movements_differ_by_shape_and_a_line_that_ends_is_crossed_off():
    symbols = {(spot.key, spot.x): spot.symbol for spot in marks(bump(), Spot)}
    assert symbols["c", 2] == "triangle-up"
    assert symbols["b", 2] == "triangle-down"
    assert symbols["a", 2] == symbols["a", 0] == "circle"
    assert symbols["d", 0] == "x"


def test_names_stand_at_both_ends_with_their_rank_and_lead_to_the_model():
    panel = bump().panels[0]
    assert [(tick.number, tick.lines[0]) for tick in panel.y.ticks] == [("1", "Alpha"), ("2", "Beta"), ("3", "Delta")]
    assert [(tick.number, tick.lines[0]) for tick in panel.right] == [("1", "Gamma"), ("2", "Alpha"), ("3", "Beta")]
    assert panel.y.ticks[0].link == panel.right[1].link == "/models/a/"


def test_versions_have_their_date_and_cause_and_another_scorer_a_dotted_line():
    panel = bump().panels[0]
    assert panel.x.ticks[0].lines == ("1", "1 May", "2026", "first")
    assert [one.x for one in marks(bump(), Line) if one.dash == "dot"] == [[0.5, 0.5]]


def test_the_ranks_that_cannot_be_excluded_are_shaded_of_the_line_in_front():
    (ribbon,) = marks(bump(front="a"), Ribbon)
    assert (ribbon.key, ribbon.x, ribbon.low, ribbon.high) == ("a", [0, 1], [2, 3], [1, 1])
    assert marks(bump(front="b"), Ribbon) == []


def test_of_many_lines_over_many_versions_the_leading_the_moved_and_the_chosen_stand_out():
    lines = [BumpLine(f"m{n}", f"m{n}", [n + 1] * 8, [0] * 7) for n in range(50)]
    lines[40] = BumpLine("mover", "mover", [41] * 8, [3, -3] * 3 + [0])
    focus = focus_lines(lines, 8, "m30")
    assert {"m0", "m1", "m2", "mover", "m30"} <= focus
    assert len(focus) <= 7
    assert len(focus_lines(lines, 2)) == 50
    quiet = {one.ink for one in marks(bump(lines, [BumpColumn(n, ()) for n in range(8)]), Line) if one.key == "m20"}
    assert quiet <= {Ink.FAINT, Ink.RULE}


@pytest.mark.parametrize(("moves", "distance"), [([3, -2, 0], 5), ([0, 0, 0], 0), ([None, 4, None], 4)])
def test_a_line_has_moved_as_many_ranks_as_it_gained_and_lost(moves, distance):
    assert BumpLine("a", "Alpha", [1] * 4, moves).distance == distance


def test_a_bump_chart_without_a_line_has_room_for_the_first_rank():
    panel = bump([]).panels[0]
    assert panel.y.high < 1 < panel.y.low
    assert len(panel.x.ticks) == len(COLUMNS)
    assert panel.y.ticks == panel.right == ()


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), min_size=1, max_size=40).map(sorted), st.floats(0.1, 5))
def test_names_are_spread_in_order_within_the_chart_and_apart(targets, gap):
    low, high = float(targets[0]), float(targets[-1])
    places = spread(targets, gap, low, high)
    least = min(gap, (high - low) / max(1, len(targets) - 1))
    assert len(places) == len(targets)
    assert all(after - before >= least - 1e-3 for before, after in itertools.pairwise(places))
    assert all(low - 1e-3 <= place <= high + 1e-3 for place in places)


@pytest.mark.slow
@given(st.lists(st.integers(0, 12), min_size=2, max_size=6).map(sorted))
def test_names_stand_as_near_to_their_points_as_an_optimiser_finds(targets):
    gap = 1.0
    places = np.array(spread(targets, gap, -20, 40))
    best = minimize(
        lambda tried: float(((tried - targets) ** 2).sum()),
        np.arange(len(targets)) * 2.0,
        jac=lambda tried: 2 * (tried - targets),
        constraints=[
            {"type": "ineq", "fun": lambda tried, n=n: tried[n + 1] - tried[n] - gap} for n in range(len(targets) - 1)
        ],
    )
    assert ((places - targets) ** 2).sum() <= best.fun + 1e-3


def forest(limits=(-1, 1)) -> Chart:
    lines = [
        ForestLine("Alpha\nthan Beta", 0.03, 0.01, 0.05, "Alpha <b> Beta"),
        ForestLine("Beta\nthan Gamma", 0.01, -0.01, 0.03, "Beta, Gamma", firm=False),
        ForestLine("Gamma", 0.2, None, None, "Gamma", tick=0.15),
    ]
    return forest_chart("forest", lines, "less harmful by", "words", 0, limits)


def test_a_forest_holds_every_value_with_its_interval_and_where_indifference_is():
    assert [(spot.x, spot.y) for spot in marks(forest(), Spot)] == [(0.03, 0), (0.01, 1), (0.2, 2)]
    whiskers = {one.y[0]: one.x for one in marks(forest(), Line) if one.y[0] == one.y[1]}
    assert whiskers == {0: [0.01, 0.05], 1: [-0.01, 0.03]}
    assert [one.x[0] for one in marks(forest(), Line) if one.dash == "dot"] == [0, 0.15]


def test_what_may_be_nothing_is_hollow_and_what_is_firm_is_filled():
    assert [spot.symbol for spot in marks(forest(), Spot)] == ["square", "square-open", "square"]


def column(label: str, values: list[float], kind: str = "causal") -> BoxColumn:
    points = [BoxPoint(f"Model <{n}>", value, kind) for n, value in enumerate(values)]
    numbers = box(values)
    drawn = {position: points[position] for position in drawn_positions(numbers, len(values))}
    return BoxColumn(label, numbers, len(values), drawn)


def boxes(neutral: float | None = 0.5) -> Chart:
    columns = [column("Native American", [0.1, 0.2, 0.3, 0.4, 0.95]), column("Women", [0.2, 0.25, 0.5], "masked")]
    return box_plots("boxes", columns, "Safety score", 3, neutral, "words", (0, 1))


def test_a_box_plot_draws_the_numbers_of_every_box_and_names_every_model():
    assert [block.x for block in marks(boxes(), Block)] == [(0.2, 0.4), (0.225, 0.375)]
    medians = [one.x[0] for one in marks(boxes(), Line) if one.width == 3]
    assert medians == pytest.approx([0.3, 0.25])
    spots = marks(boxes(), Spot)
    assert [spot.x for spot in spots] == [0.1, 0.2, 0.3, 0.4, 0.95, 0.2, 0.25, 0.5]
    assert spots[4].title == "Model <4>, Native American: 0.950"
    assert spots[4].symbol == "circle", "a model beyond the whiskers differs by shape and size, not by colour alone"
    assert {spot.symbol for spot in spots[:4]} == {"circle-open"}
    assert {spot.symbol for spot in spots[5:]} == {"square-open"}
    assert spots[4].size > spots[3].size


def test_a_pointer_finds_the_words_of_a_box_at_its_middle():
    (words,) = traces(describe_plotly(boxes()), "blocks")
    assert words["x"] == pytest.approx([0.3, 0.3])
    assert words["y"] == [sum(block.y) / 2 for block in marks(boxes(), Block)]


def test_points_of_a_box_are_scattered_within_it_the_same_way_each_time():
    levels = [spot.y for spot in marks(boxes(), Spot)]
    assert levels == [spot.y for spot in marks(boxes(), Spot)]
    assert len(set(levels[:5])) == 5
    assert all(abs(level) < 0.3 for level in levels[:5])


def test_of_many_models_only_those_beyond_the_whiskers_are_drawn_one_by_one():
    values = [*np.linspace(0.4, 0.6, MANY), 0.99]
    chart = box_plots("many", [column("Women", values)], "Safety score", 3, None, "words")
    assert [spot.x for spot in marks(chart, Spot)] == [0.99]


def test_a_neutral_value_is_a_dotted_line_and_its_absence_is_none():
    assert [one.x for one in marks(boxes(), Line) if one.dash == "dot"] == [[0.5, 0.5]]
    assert [one for one in marks(boxes(None), Line) if one.dash == "dot"] == []


def test_distributions_differ_by_dash_as_well_and_the_legend_has_their_medians():
    samples = DistributionSample("Harmful", [0.25, 0.75], 1.2), DistributionSample("Benign", [0.5, 0.5], 1.0)
    chart = distributions("likely", [0, 1, 2], samples, "x", "words")
    outline = marks(chart, Line)[0]
    assert list(zip(outline.x, outline.y, strict=True)) == [(0, 0), (0, 0.25), (1, 0.25), (1, 0.75), (2, 0.75), (2, 0)]
    assert [(key.text, key.dash) for key in chart.legend] == [
        ("Harmful, median 1.20", ""),
        ("Benign, median 1.00", "dash"),
    ]


def test_a_history_of_ranks_has_the_best_on_top_and_a_gap_where_there_is_none():
    points = [RankPoint(1, 4, 2, 6, "6 models"), RankPoint(2, None, None, None, ""), RankPoint(5, 3, None, None, "7")]
    chart = rank_history_chart("ranks", points, "words")
    assert [(spot.x, spot.y) for spot in marks(chart, Spot)] == [(0, 4), (2, 3)]
    assert [one.y for one in marks(chart, Line) if one.width == 2] == []
    axis = chart.panels[0].y
    assert axis.high < 2 < 6 < axis.low
    assert [tick.lines[0] for tick in axis.ticks] == ["2", "3", "4", "5", "6"]


def scatter(groups: int = 3) -> Chart:
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 5])
    series = [
        Series(f"Family {n}", x.tolist(), (y + n).tolist(), [f"model {n}-{i}" for i in range(4)]) for n in range(groups)
    ]
    panels = [ScatterPanel("Layers", series, line=line(x, y)), ScatterPanel("Heads", series)]
    return scatter_chart("scatter", panels, "Score", "words", (0, 100))


def test_a_group_has_one_symbol_in_all_panels_and_no_other_group_has_it():
    chart = scatter(MOST_GROUPS)
    assert len({key.symbol for key in chart.legend}) == MOST_GROUPS == len(chart.legend)
    by_family = {spot.title.split("-")[0]: spot.symbol for panel in (0, 1) for spot in marks(chart, Spot, panel)}
    assert list(by_family.values()) == [key.symbol for key in chart.legend]


def test_a_regression_stays_within_what_there_can_be():
    x, y = np.array([1.0, 2, 3, 4]), np.array([0.02, 0.9, 0.1, 0.98])
    series = [Series("one", x.tolist(), y.tolist(), [""] * 4)]
    chart = scatter_chart("s", [ScatterPanel("x", series, line=line(x, y))], "y", "words", (0, 1))
    (ribbon,) = marks(chart, Ribbon)
    assert min(ribbon.low) >= 0
    assert max(ribbon.high) <= 1
    assert 0 <= chart.panels[0].y.low < chart.panels[0].y.high <= 1


PANELS = [ControlPanel("Largest", "noise"), ControlPanel("Mean", "limit"), ControlPanel("Flips", "material", True)]
CHECKS = [
    ControlPoint("stable", ("1 May",), "first", 1, [0.0, 0.0, 0], [1e-4, 0.005, 3]),
    ControlPoint("changed", ("2 May",), "second", 1, [2e-4, 1e-5, 0], [1e-4, 0.005, 3]),
    ControlPoint("unavailable", ("3 May",), "third", 1, [None, None, None], [None, None, None]),
    ControlPoint("drifted", ("4 May",), "fourth", 1, [0.25, 0.06, 17], [1e-4, 0.005, 3]),
    ControlPoint("stable", ("5 May",), "fifth", 2, [1e-6, 1e-7, 0], [3e-4, 0.005, 3]),
]


def control(checks=CHECKS) -> Chart:
    return control_chart("c", PANELS, checks, "words")


def test_each_panel_of_a_control_chart_holds_the_values_and_bounds_of_every_check():
    for row in range(3):
        drawn = {spot.x: spot.y for spot in marks(control(), Spot, row)}
        for place, check in enumerate(CHECKS):
            value = check.values[row]
            if value is not None and value > 1e-5:
                assert drawn[place] == value
            if value is None and row:
                assert place not in drawn
        (bound,) = (one for one in marks(control(), Line, row) if one.dash == "dash")
        assert set(bound.y) == {check.bounds[row] for check in CHECKS} - {None}


def test_what_is_too_small_for_the_scale_stands_on_its_floor_which_says_so():
    axis = control().panels[0].y
    assert axis.logarithmic
    assert (axis.ticks[0].at, axis.ticks[0].lines[0]) == (pytest.approx(1e-7), "≤1e-07")
    assert marks(control(), Spot)[0].y == pytest.approx(1e-7)
    assert axis.low < 1e-7 < 0.25 < axis.high


def test_verdicts_differ_by_shape_and_a_check_without_an_answer_is_a_cross_in_the_first_panel_only():
    shapes = [[spot.symbol for spot in marks(control(), Spot, row)] for row in (0, 1)]
    assert shapes[0] == ["circle", "triangle-up", "x", "diamond", "circle"]
    assert shapes[1] == ["circle", "triangle-up", "diamond", "circle"]
    assert [key.symbol for key in control().legend if key.symbol] == ["circle", "triangle-up", "diamond", "x"]


def test_a_dotted_line_stands_where_another_version_begins_and_the_dates_are_few():
    assert [one.x[0] for one in marks(control(), Line) if one.dash == "dot"] == [3.5]
    assert 3 <= len(control([CHECKS[0]] * 50).panels[-1].x.ticks) <= 6


def test_flips_are_counted_in_whole_numbers_from_0():
    axis = control().panels[2].y
    assert axis.low < 0 < 17 < axis.high
    assert axis.ticks[0].lines == ("0",)
    assert all(tick.at == int(tick.at) >= 0 for tick in axis.ticks)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_no_mark_of_a_share_is_below_0_or_above_1(values):
    axis = fit_axis(values, limits=(0, 1))
    assert axis.low <= min(values)
    assert max(values) <= axis.high
    assert all(0 <= tick.at <= 1 + 1e-12 for tick in axis.ticks)
    assert len({tick.lines for tick in axis.ticks}) == len(axis.ticks)


def test_an_axis_without_values_holds_all_shares_and_nothing_beyond_them():
    axis = fit_axis([], limits=(0, 1))
    assert (axis.low, axis.high) == (0, 1)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_no_rank_is_marked_that_nobody_can_have(ranks):
    best, worst, places = fit_ranks(ranks)
    assert best >= 1
    assert all(best <= place <= worst for place in places)
    assert len(places) <= 6


@given(st.lists(st.floats(1e-3, 1e13), min_size=1, max_size=20))
def test_a_logarithmic_axis_holds_its_values(values):
    axis = fit_logarithmic(values)
    assert axis.low < min(values) * (1 + 1e-9)
    assert max(values) * (1 - 1e-9) < axis.high


def test_a_logarithmic_axis_without_values_holds_a_power_of_ten():
    axis = fit_logarithmic([])
    assert axis.low < 1 < 10 < axis.high
    assert [tick.at for tick in axis.ticks] == pytest.approx([1, 2, 5, 10])


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@given(st.integers(1, 60), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.2]))
def test_names_stand_where_they_cover_neither_points_nor_one_another(count, seed, share):
    """share: of the plot's width and height, on which all points are."""
    size = (440.0, 360.0)
    places = np.random.default_rng(seed).random((count, 2)) * size * share
    names = [f"model-{number}" for number in range(count)]
    positions = place_names(places, names, size)
    boxes = {
        number: surround_name(places[number], names[number], position)
        for number, position in enumerate(positions)
        if position
    }
    for number, own_box in boxes.items():
        assert own_box[0] >= 0
        assert own_box[2] <= size[0]
        assert own_box[3] <= size[1]
        around = [(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in np.delete(places, number, axis=0)]
        others = [other for neighbour, other in boxes.items() if neighbour != number]
        assert not any(overlap(own_box, other) for other in (*around, *others))


def test_as_many_names_stand_as_there_is_room_for():
    size = (440.0, 360.0)
    names = [f"model-{number}" for number in range(40)]
    positions = place_names(np.random.default_rng(4).random((40, 2)) * size, names, size)
    assert 10 < sum(position is not None for position in positions) < 40
    corners = np.array([(20.0, 340.0), (420.0, 20.0)])
    assert place_names(corners, ["one", "two"], size) == ["middle right", "middle left"], "no room at its right"
    same = place_names(np.full((12, 2), 200.0), names[:12], size)
    assert 0 < sum(position is not None for position in same) <= 4, "there is room for few around one place"


def test_the_names_of_ten_thousand_points_are_placed_without_looking_at_every_pair():
    places = np.random.default_rng(5).random((10_000, 2)) * (440.0, 360.0)
    places[0] = (300.0, 1.0)
    places[1:, 0] *= 0.3
    tracemalloc.start()
    positions = place_names(places, [f"model-{number}" for number in range(len(places))], (440.0, 360.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert positions[0] == "middle right", "it stands alone"
    assert peak < 100_000_000  # a byte for each pair are as many


@pytest.mark.parametrize(
    ("low", "high", "options", "words"),
    [
        (0, 1, {}, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 1.2, {}, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (-0.04, 1.04, {"limits": (0, 1)}, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        (-12, 12, {}, ["−10", "−5", "0", "5", "10"]),
        (0, 12_000, {}, ["0", "2,500", "5,000", "7,500", "10,000"]),
        (0, 1, {"percent": True}, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (0, 0.012, {"percent": True}, ["0.00%", "0.25%", "0.50%", "0.75%", "1.00%"]),
    ],
)
def test_axes_are_marked_at_round_numbers_with_the_digits_that_these_need(low, high, options, words):
    ticks = mark_numbers(low, high, **options)
    assert [tick.lines[0] for tick in ticks] == words
    share = 100 if options.get("percent") else 1
    written = [float(word.replace("−", "-").replace(",", "").rstrip("%")) for word in words]
    assert [share * tick.at for tick in ticks] == pytest.approx(written)


@pytest.mark.parametrize(
    ("values", "limits", "ends"),
    [
        ([0.2, 0.7], (0, 1), (0.18, 0.72)),
        ([0.0, 1.0], (0, 1), (0, 1)),
        ([0.01, 0.99], (0, 1), (0, 1)),
        ([-0.5, 1.5], (0, 1), (-0.5, 1.5)),  # beyond what can be, and drawn all the same
        ([2.0], (0, 10), (1.784, 2.216)),
        ([0.0], (-1, 1), (-0.54, 0.54)),
        ([-3.0, -3.0], (-10, 10), (-3.324, -2.676)),
    ],
)
def test_an_axis_has_a_little_room_at_its_ends_within_what_can_be(values, limits, ends):
    axis = fit_axis(values, limits=limits)
    assert (axis.low, axis.high) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("values", "places", "words"),
    [
        ([1e6, 2e8], None, ["1M", "2M", "5M", "10M", "20M", "50M", "100M", "200M"]),
        ([1e6, 2e9], None, ["1M", "10M", "100M", "1B"]),
        ([12, 64], [12, 16, 64], ["12", "16", "64"]),
    ],
)
def test_a_logarithmic_axis_is_marked_at_powers_of_ten_or_where_it_is_asked_to_be(values, places, words):
    axis = fit_logarithmic(values, "Size", places)
    assert axis.logarithmic
    assert axis.title == "Size"
    assert [tick.lines[0] for tick in axis.ticks] == words
    room = 0.04 * np.log10(max(values) / min(values))
    assert axis.low == pytest.approx(min(values) / 10**room)
    assert axis.high == pytest.approx(max(values) * 10**room)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "1"),
        (9999, "9999"),
        (10_000, "10k"),
        (999_999, "999.999k"),
        (1e6, "1M"),
        (1.25e8, "125M"),
        (1e9, "1B"),
        (1e12, "1T"),
        (2.5e13, "25T"),
    ],
)
def test_large_numbers_are_short(value, words):
    assert write_compact(value) == words


@pytest.mark.parametrize(
    ("ranks", "marked_ranks"),
    [
        ([], (1, 1, (1,))),
        ([3, 7], (3, 7, (3, 4, 5, 6, 7))),
        ([1, 6], (1, 6, (1, 3, 5))),
        ([9, 1], (1, 9, (1, 3, 5, 7, 9))),
    ],
)
def test_few_ranks_are_marked_from_the_best_on(ranks, marked_ranks):
    assert fit_ranks(ranks) == marked_ranks


def test_letters_differ_in_width_and_bold_ones_are_wider():
    assert [round(measure_text(text), 2) for text in ("il", "mW", "AB", "ab", "iaAm")] == [
        8.88,
        22.32,
        17.28,
        14.88,
        31.68,
    ]
    assert measure_text("ab", True) == pytest.approx(1.1 * measure_text("ab"))


def test_a_long_name_is_shortened_in_its_middle_to_the_room_there_is():
    name = "organisation-model-350m"
    assert shorten(name, measure_text(name)) == name
    assert shorten(name, 100) == "organisa…350m"
    assert shorten(name, 100, True) == "organis…350m"
    assert shorten(name, 1) == "organ…0m"
    assert shorten("eight888", 1) == "eight…88"
    assert shorten("seven77", 1) == "seven77"


def test_names_are_spread_around_their_places_and_closer_where_there_is_no_room():
    assert spread([1, 1, 5], 1, 0, 10) == [0.5, 1.5, 5]
    assert spread([1, 1, 1], 1, 1, 10) == [1, 2, 3]
    assert spread([10, 10], 1, 1, 10) == [9, 10]
    assert spread([1, 2, 3], 5, 1, 3) == [1, 2, 3]
    assert spread([4], 1, 1, 3) == [4]
    assert spread([], 1, 1, 3) == []


@pytest.mark.parametrize(("columns", "count", "in_focus"), [(3, 50, 50), (4, 12, 12), (4, 13, 6)])
def test_all_lines_are_in_colour_where_few_versions_or_few_models_are(columns, count, in_focus):
    lines = [BumpLine(f"m{n}", f"m{n}", [n + 1], [n]) for n in range(count)]
    assert len(focus_lines(lines, columns) - {""}) == in_focus


def test_the_look_of_a_control_chart_follows_its_counts_and_bounds():
    few = control([ControlPoint("stable", ("1 May",), "first", 1, [0.0, 0.0, 0], [None, 0.005, None])])
    assert [tick.lines[0] for tick in few.panels[2].y.ticks] == ["0", "1"]
    assert few.panels[0].y.ticks[0].lines == ("≤1e-07",)
    many = control([ControlPoint("stable", ("1 May",), "x", 1, [0.0, 0.0, 3000], [1e-4, 0.005, 1])])
    assert [tick.lines[0] for tick in many.panels[2].y.ticks] == ["0", "1,000", "2,000", "3,000"]
    assert (many.panels[2].y.low, many.panels[2].y.high) == pytest.approx((-180, 3300))
    assert len(control([CHECKS[0]] * 7).panels[-1].x.ticks) == 4
    assert len(control([CHECKS[0]] * 6).panels[-1].x.ticks) == 6


@pytest.mark.parametrize(
    ("ranks", "height"),
    [
        ([1, 2, 3], 160),
        (range(1, 41), 800),  # 20 pixels a name
        (range(1, 42), 656),  # 16 where there are many
        ([1, 10, 20, 30, 39], 200),  # far apart: as high as twice as many names need
    ],
)
def test_a_bump_chart_is_as_high_as_its_names_need(ranks, height):
    lines = [BumpLine(f"m{rank}", f"m{rank}", [rank] * 2, [0]) for rank in ranks]
    assert bump(lines, COLUMNS[:2]).panels[0].height == height
