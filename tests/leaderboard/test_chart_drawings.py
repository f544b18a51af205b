"""Charts as drawings: SVG, PDF, PNG and Plotly carry the same data, escaped, in their place, in the right colours."""

import json
import re
from io import BytesIO
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfgen.canvas import Canvas

from leaderboard.charts import (
    BoxColumn,
    BoxPoint,
    BumpColumn,
    BumpLine,
    DistributionSample,
    ForestLine,
    RankPoint,
    ScatterPanel,
    Series,
    ShadedCell,
    box_plots,
    bump_chart,
    bump_charts,
    distributions,
    forest_chart,
    heat_map,
    pdf,
    rank_history_chart,
    scatter_chart,
    svg,
)
from leaderboard.charts.figure import NARROW, Axis, Chart, Dots, Ink, Key, Label, Panel, Spot, Tick
from leaderboard.charts.layout import arrange_chart
from leaderboard.charts.pdf import REGULAR, draw_pdf, draw_png, register_fonts
from leaderboard.charts.plotly import describe_plotly
from leaderboard.charts.shapes import Disc, Polygon, Sketch, Specks, Stroke, Writing
from leaderboard.charts.svg import LIGHT, draw_file, draw_inline
from leaderboard.charts.symbols import POLYGONS
from leaderboard.charts.text import SIZE, measure_text, shorten
from scoring.statistics.boxes import box
from scoring.statistics.regression import line
from tests.approved_text import compare_with_approved, drop_transient
from tests.charts import points, traces
from tests.leaderboard.test_charts import COLUMNS, LINES, boxes, bump, control, forest, scatter

pytestmark = pytest.mark.either_database

SVG = "{http://www.w3.org/2000/svg}"
SHARES = st.integers(0, 1000).map(lambda number: number / 1000)
NASTY = '<b>&"\x00</script>'


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 (what we have drawn)


def large(models: int = 50, versions: int = 8) -> Chart:
    generator = np.random.default_rng(7)
    scores = generator.random(models)
    ranks = []
    for _ in range(versions):
        scores = scores + generator.normal(0, 0.05, models)
        ranks.append((np.argsort(np.argsort(-scores)) + 1).tolist())
    lines = [
        BumpLine(
            f"m{n}",
            f"organisation_a-model-{n:02d}",
            own := [column[n] for column in ranks],
            [old - new for old, new in pairwise(own)],
            [(max(1, rank - 2), rank + 2) for rank in own],
            f"/models/m{n}/",
        )
        for n in range(models)
    ]
    columns = [
        BumpColumn(n + 1, (f"{n + 1} Mar", "2026", "scorer", "drifted"), f"{models} models") for n in range(versions)
    ]
    return bump_chart("large", columns, lines, "words")


def named() -> Chart:
    series = [Series("f", [1e6, 2e8, 3e9], [0.1, 0.4, 0.9], ["a", "b", "c"], names=["alpha", "beta", "gamma"])]
    return scatter_chart("named", [ScatterPanel("Parameters", series, logarithmic=True)], "Score", "words", (0, 1))


def heat() -> Chart:
    cells = [[ShadedCell(f"{row}.{n}", (row + n) % 9 - 4, f"cell {row} {n}") for n in range(13)] for row in range(5)]
    return heat_map(
        "heat", [(f"model {n}", "") for n in range(5)], [f"Demographic {n}" for n in range(13)], cells, "words"
    )


CHARTS = {
    "bump": bump(),
    "large": large(),
    "forest": forest(),
    "boxes": boxes(),
    "scatter": scatter(),
    "named": named(),
    "control": control(),
    "heat": heat(),
}
every_chart = pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)


def crowd() -> Chart:
    """Too many lines over too many versions for all to be in colour, the last one in front."""
    lines = [
        BumpLine(f"m{n}", f"Model {n:02}", [n + 1] * 4, [n % 4, -(n % 3), 0], [(n or 1, n + 2)] * 4, f"/models/m{n}/")
        for n in range(13)
    ]
    columns = [BumpColumn(n + 1, (f"{n + 1} May", "drifted"), "13 models", renewed=n == 3) for n in range(4)]
    return bump_chart("crowd", columns, lines, "words", "m12")


def forest_with_links() -> Chart:
    lines = [
        ForestLine("Alpha\nthan Beta", 0.031, 0.01, 0.05, "Alpha, Beta", link="/models/alpha/"),
        ForestLine(
            "a-model-whose-name-is-so-long-that-its-middle-is-left-out-350m", 0.2, None, None, "long", False, 0.15
        ),
    ]
    return forest_chart("forest", lines, "less harmful by", "words", 0, (-1, 1))


def boxes_of_kinds() -> Chart:
    kinds = ["causal", "masked", "permutation", "other"]
    values = [0.1, 0.2, 0.3, 0.4, 0.95]
    drawn = {n: BoxPoint(f"Model {n}", value, kinds[n % 4], f"/models/{n}/") for n, value in enumerate(values)}
    columns = [BoxColumn("Women", box(values), 5, drawn, 0.45), BoxColumn("Latinos", box(values[:3]), 3, {})]
    return box_plots("boxes", columns, "Safety score", 3, None, "words", (0, 1))


def scatter_of_all() -> Chart:
    """Each look of a series: joined, as dots, with names and links, and a regression; marked where it may be."""
    x, y = [1.0, 2.0, 3.0, 4.0], [0.1, 0.35, 0.2, 0.9]
    series = [
        Series("Named", x, y, ["a", "b", "c", "d"], names=["alpha", "beta", "", "delta"], links=["/a", "/b", "", "/d"]),
        Series("Joined", x, [value / 2 for value in y], ["e", "f", "g", "h"], joined=True),
        Series("Dots", x, [1 - value for value in y], ["i", "j", "k", "l"], small=True),
    ]
    panels = [
        ScatterPanel("Layers", series, line=line(np.array(x), np.array(y))),
        ScatterPanel("Parameters", [Series("Named", [1e6, 2e9], y[:2], ["a", "b"])], True, [1e6, 1e9]),
        ScatterPanel("Year", [Series("Joined", [2019.0, 2023.0], y[:2], ["a", "b"])], ticks=[2019, 2023]),
    ]
    return scatter_chart("all", panels, "Score", "words", (0, 1))


def heat_with_gaps() -> Chart:
    cells = [
        [ShadedCell("-4", -4, "worst"), None, ShadedCell("0", 0, "same")],
        [ShadedCell("2", 2, "good"), ShadedCell("1", 1, "more"), ShadedCell("0.1234567890", 4, "best")],
    ]
    columns = ["Women", "Asian Americans", "People with a mental disability"]
    return heat_map("heat", [("Alpha", "/models/alpha/"), ("Beta", "")], columns, cells, "words")


def long_names() -> Chart:
    """Names on both sides that want more room than a phone has."""
    names = ["organisation_a-a-rather-long-model-name-350m", "organisation_b-another-long-model-name-1.3b"]
    lines = [BumpLine(name, name, [place + 1] * 2, [0]) for place, name in enumerate(names)]
    return bump_chart("long", [BumpColumn(n + 1, ("May",)) for n in range(2)], lines, "words")


def crowded_axis() -> Chart:
    """Texts of several widths under an axis that has no room for all of them, the last one the widest."""
    texts = ["1", "fifteen", "2", "a hundred", "3", "4", "five hundred", "6", "7", "a thousand and one"]
    ticks = tuple(Tick(place, (text, "of all")) for place, text in enumerate(texts))
    x, y = Axis(0, len(texts) - 1, ticks, "Count"), Axis(0, 1, (Tick(0, ("0",)), Tick(1, ("1",))), "Share")
    spots = Spot(0.5, 0.5, name="a"), Spot(8.5, 0.25, "square", name="beta")
    dots = Dots([1, 2], [0.5, 0.75], ["c", "d"], Ink.FIRST, 3.5, 0.8)
    keys = tuple(Key(f"what the symbol {n} stands for", Ink.FIRST, "circle" if n % 2 else "") for n in range(5))
    return Chart("crowded", "words", (Panel(x, y, (*spots, dots), 100),), keys)


PICTURES = {
    "bump": bump(front="a"),
    "crowd": crowd(),
    "crowded": crowded_axis(),
    "long": long_names(),
    "multiples": bump_charts("multiples", COLUMNS, {"Mean": LINES, "Maximum": LINES[:2]}, "words"),
    "forest": forest_with_links(),
    "boxes": boxes_of_kinds(),
    "scatter": scatter_of_all(),
    "control": control(),
    "heat": heat_with_gaps(),
    "distributions": distributions(
        "distributions",
        [0, 0.25, 0.5, 1],
        (DistributionSample("Harmful", [0.25, 0.75, 0], 1.204), DistributionSample("Benign", [0.5, 0.25, 0.25], 1.0)),
        "x",
        "words",
    ),
    "ranks": rank_history_chart(
        "ranks",
        [RankPoint(1, 4, 2, 6, "6 models"), RankPoint(2, 5, 5, None, "6"), RankPoint(5, None, None, None, "")],
        "words",
    ),
}
LARGE_PICTURES = {"crowd", "multiples"}  # their places are found as those of the others


@pytest.mark.parametrize("name", [name for name in PICTURES if name not in LARGE_PICTURES])
def test_a_chart_on_a_page_is_drawn_as_was_approved(name):
    drawing = draw_inline(PICTURES[name]).replace("><", ">\n<")
    compare_with_approved(f"charts/{name}.svg.txt", f"{drawing}\n")


@pytest.mark.parametrize("name", PICTURES)
def test_what_plotly_draws_is_what_was_approved(name):
    figure = describe_plotly(PICTURES[name])
    layout = figure.pop("layout")
    parts = {**figure, **layout, "data": [part for trace in figure["data"] for part in trace.items()]}
    lines = []
    for key, value in parts.items():
        lines += [f"{key}: {json.dumps(part)}" for part in (value if isinstance(value, list) else [value])]
    compare_with_approved(f"charts/{name}.plotly.txt", drop_transient("\n".join([*lines, ""])))


@pytest.mark.parametrize("name", ["bump", "scatter"])
def test_what_a_pdf_draws_is_what_was_approved(name):
    register_fonts()
    canvas = Canvas(BytesIO(), pageCompression=0)
    sketch = arrange_chart(PICTURES[name], PICTURES[name].width)
    pdf.draw_shapes(canvas, sketch.shapes, sketch.height, "https://board.example")
    content = draw_pdf(PICTURES[name], "https://board.example").decode("latin-1")
    links = re.findall(r"/Rect \[[^]]*\]|/URI \([^)]*\)|/MediaBox \[[^]]*\]", content)
    compare_with_approved(f"charts/{name}.pdf.txt", drop_transient("\n".join([*canvas._code, *links, ""])))


def test_the_shapes_of_points_are_balanced_and_about_as_large_as_a_circle():
    for name, corners in POLYGONS.items():
        assert len({*corners}) == len(corners), name
        assert {(-x, y) for x, y in corners} == {*corners}, f"{name} leans to one side"
        assert all(0.9 <= max(abs(corner[axis]) for corner in corners) <= 1.3 for axis in (0, 1)), name
    highest = {name: [x for x, y in corners if y == min(y for _, y in corners)] for name, corners in POLYGONS.items()}
    assert highest["triangle-up"] == highest["diamond"] == highest["star"] == highest["pentagon"] == [0]
    assert len(highest["triangle-down"]) == 2


@every_chart
def test_both_renderings_carry_every_point(chart):
    spots = [mark for panel in chart.panels for mark in panel.marks if isinstance(mark, Spot)]
    figure = describe_plotly(chart)
    axes = ["x", *(f"x{n + 1}" for n in range(1, len(chart.panels)))]
    assert sorted(place for axis in axes for place in points(figure, axis)) == sorted(
        (spot.x, spot.y) for spot in spots
    )
    titles = [element.text for element in parse(draw_file(chart)).iter(f"{SVG}title")]
    assert {spot.title for spot in spots if spot.title} <= set(titles)
    go.Figure({"data": figure["data"], "layout": figure["layout"]})  # which raises where it does not know a property


def test_a_name_stands_on_the_side_of_its_point_where_there_is_room():
    series = [Series("f", [0.0, 10.0], [0.1, 0.9], ["a", "b"], names=["leftmost", "rightmost"])]
    figure = describe_plotly(scatter_chart("sides", [ScatterPanel("Layers", series)], "Score", "words", (0, 1)))
    [trace] = traces(figure, "points")
    assert dict(zip(trace["text"], trace["textposition"], strict=True)) == {
        "leftmost": "middle right",
        "rightmost": "middle left",
    }


def test_what_is_written_into_a_panel_stands_in_the_drawing():
    chart = CHARTS["control"]
    labels = [mark.text for panel in chart.panels for mark in panel.marks if isinstance(mark, Label)]
    assert labels
    assert set(labels) <= {element.text for element in parse(draw_file(chart)).iter(f"{SVG}text")}


@pytest.mark.slow
@given(st.lists(st.tuples(SHARES, SHARES), min_size=2, max_size=12))
def test_places_in_a_drawing_are_linear_in_the_values(values):
    x, y = zip(*values, strict=True)
    chart = scatter_chart(
        "s", [ScatterPanel("x", [Series("f", x, y, [str(n) for n in range(len(x))])])], "y", "w", (0, 1)
    )
    root = parse(draw_file(chart))
    drawn = {
        int(circle.find(f"{SVG}title").text): (float(circle.get("cx")), float(circle.get("cy")))
        for circle in root.iter(f"{SVG}circle")
    }
    assert len(drawn) == len(values)
    across = np.argsort(x, kind="stable")
    assert all(drawn[a][0] <= drawn[b][0] + 0.1 for a, b in pairwise(across))
    upwards = np.argsort(y, kind="stable")
    assert all(drawn[a][1] >= drawn[b][1] - 0.1 for a, b in pairwise(upwards))


@every_chart
def test_a_drawing_is_well_formed_says_what_it_shows_and_has_both_widths(chart):
    whole, narrow = parse(f"<figure>{draw_inline(chart)}</figure>")
    assert (whole.get("class"), narrow.get("class")) == ("chart-whole", "chart-narrow")
    assert whole.get("aria-label") == narrow.get("aria-label") == chart.alternative
    assert whole.get("role") == ("group" if chart.linked else "img")
    assert narrow.get("viewBox").split()[2] == str(NARROW)
    assert all(link.get("tabindex") == "-1" for link in whole.iter(f"{SVG}a")), "the table has them for keyboards"


def test_names_of_others_are_escaped_everywhere():
    chart = bump([BumpLine(NASTY, NASTY, [1, 1, 1], [0, 0], link='/"x')])
    for text in (draw_inline(chart), draw_file(chart)):
        assert "<b>" not in text
        assert "</script>" not in text
        assert "\x00" not in text
    assert '"<b>' not in str(describe_plotly(chart)["data"][-1]["text"])
    parse(draw_file(chart))
    assert draw_pdf(chart).startswith(b"%PDF")


def boxes_of(sketch: Sketch) -> list[tuple[float, float, float, float]]:
    """Where each text stands: left, top, right, bottom."""
    found = []
    for words in sketch.shapes:
        if isinstance(words, Writing) and words.text:
            x, y = words.place
            width = measure_text(words.text, words.strong)
            if words.turned:
                found.append((x - SIZE * 0.8, y - width, x + 2, y))
                continue
            start = x - {"start": 0, "middle": width / 2, "end": width}[words.anchor]
            found.append((start, y - SIZE * 0.8, start + width, y + 2))
    return found


@every_chart
@pytest.mark.parametrize("is_narrow", [False, True])
def test_no_text_covers_another_or_leaves_the_drawing(chart, is_narrow):
    sketch = arrange_chart(chart, NARROW if is_narrow else chart.width)
    texts = boxes_of(sketch)
    for one, other in combinations(texts, 2):
        assert one[2] <= other[0] + 1 or other[2] <= one[0] + 1 or one[3] <= other[1] + 1 or other[3] <= one[1] + 1
    assert all(left >= -1 and right <= sketch.width + 1 and bottom <= sketch.height for left, _, right, bottom in texts)


def test_on_a_phone_both_ends_of_50_models_over_8_versions_have_their_names():
    sketch = arrange_chart(large(), NARROW)
    names = [words for words in sketch.shapes if isinstance(words, Writing) and words.key]
    assert len(names) == 100
    assert {words.anchor for words in names} == {"start", "end"}
    assert all(len(words.text) >= 8 for words in names)
    assert SIZE * 328 / NARROW >= 10.99, "pixels of the letters where a window of 360 leaves 328"


def test_colours_are_tokens_of_the_stylesheet_and_files_have_its_light_ones():
    css = (settings.BASE_DIR / "static" / "plumbline.css").read_text(encoding="utf-8")
    light = dict(
        re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css.split("@media", 1)[0] + css.split("/* Heat maps", 1)[1])
    )
    dark = css.split("@media screen and (prefers-color-scheme: dark)", 1)[1].split("@media", 1)[0]
    for ink in Ink:
        assert LIGHT[ink] == ("#ffffff" if ink == Ink.PAPER else light[ink])
        assert f"--{ink}: #" in dark or ink.startswith("heat-"), "heat is the same in both themes"


@every_chart
def test_colours_for_plotly_are_tokens(chart):
    text = str(describe_plotly(chart))
    assert not re.search(r"'(#[0-9a-f]{3,8}|rgba?\()", text)
    assert set(re.findall(r"var\(--([a-z-]+)\)", text)) <= set(Ink)


def test_dots_are_round_and_let_others_show_through():
    series = [Series("models", [1.0, 2.0], [0.1, 0.4], ["a", "b"], small=True)]
    chart = scatter_chart("dots", [ScatterPanel("Layers", series)], "Score", "words", (0, 1))
    [dots] = [path.attrib for path in parse(draw_file(chart)).iter(f"{SVG}path") if path.attrib["d"].count("h0") == 2]
    assert dots["stroke-linecap"] == "round"
    assert 0 < float(dots["opacity"]) < 1


@pytest.mark.parametrize(("count", "width"), [(100, "7"), (101, "4")])
def test_few_dots_are_larger_than_many(count, width):
    series = [Series("texts", [0.5] * count, [0.5] * count, ["one"] * count, small=True)]
    chart = scatter_chart("dots", [ScatterPanel("Scores", series)], "Score", "words", (0, 1))
    widths = [path.get("stroke-width") for path in parse(draw_file(chart)).iter(f"{SVG}path") if path.get("opacity")]
    assert widths == [width]


def test_files_stand_alone_in_the_light_theme_and_their_links_are_whole():
    text = draw_file(large(), "https://board.example")
    assert "var(" not in text
    assert 'href="https://board.example/models/m1/"' in text
    assert re.search(r'<svg [^>]*width="960" height="\d+"', text)


@pytest.mark.parametrize(("dash", "lengths"), [("", None), ("dash", "6 4"), ("dot", "2 3")])
def test_a_line_in_svg_has_its_dashes(dash, lengths):
    line = svg._draw_shape(Stroke(((0, 0), (10, 10)), Ink.INK, 2.5, dash), LIGHT)
    assert parse(line).get("stroke-dasharray") == lengths


@pytest.mark.parametrize(("dash", "operators"), [("", "[] 0 d"), ("dash", "[6 4] 0 d"), ("dot", "[2 3] 0 d")])
def test_a_line_in_pdf_has_its_colour_width_and_dashes(dash, operators):
    canvas = Canvas(BytesIO(), pageCompression=0)
    canvas.setDash([9, 9])
    pdf.draw_shapes(canvas, (Stroke(((0, 0), (10, 10)), Ink.INK, 2.5, dash),), 100)
    content = canvas._code[canvas._code.index("[9 9] 0 d") + 1 :]
    red, green, blue = (int(LIGHT[Ink.INK][place : place + 2], 16) / 255 for place in (1, 3, 5))
    colours = [line.split() for line in content if line.endswith(" RG")]
    assert [[float(part) for part in line[:3]] for line in colours] == [pytest.approx([red, green, blue], abs=1e-4)]
    assert {"2.5 w", operators} <= set(content)


@pytest.mark.parametrize(
    ("fill", "outline", "operator"), [(Ink.INK, Ink.INK, "B"), (Ink.INK, None, "f"), (None, Ink.INK, "S")]
)
def test_a_surface_in_pdf_has_an_edge_only_where_it_has_an_outline(fill, outline, operator):
    canvas = Canvas(BytesIO(), pageCompression=0)
    pdf.draw_shapes(canvas, (Polygon(((0, 0), (10, 0), (10, 10)), fill, outline, 1),), 100)
    assert canvas._code[-1].rstrip("*") == operator


@pytest.mark.parametrize(
    "shape",
    [
        Polygon(((0, 0), (10, 0), (10, 10)), Ink.SECOND, None, 1),
        Disc((5, 5), 2, Ink.SECOND, Ink.INK),
        Specks(((5, 5),), Ink.SECOND, 2, 1),
    ],
    ids=["polygon", "disc", "specks"],
)
def test_a_surface_in_pdf_has_its_own_colour_whatever_was_drawn_before_it(shape):
    canvas = Canvas(BytesIO(), pageCompression=0)
    canvas.setFillColor("green")
    pdf.draw_shapes(canvas, (shape,), 100)
    colours = [line.split() for line in canvas._code if line.endswith(" rg")]
    expected = [int(LIGHT[Ink.SECOND][place : place + 2], 16) / 255 for place in (1, 3, 5)]
    assert [float(part) for part in colours[-1][:3]] == pytest.approx(expected, abs=1e-4)


def test_pdf_says_what_it_shows_in_a_font_of_its_own_and_png_is_twice_as_large():
    content = draw_pdf(forest(), "https://board.example")
    assert content.startswith(b"%PDF")
    assert b"OpenSans-Regular" in content
    assert f"/Subject ({forest().alternative}) /Title ({forest().name})".encode() in content
    png = draw_png(forest())
    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[start : start + 4]) for start in (16, 20))
    sketch = arrange_chart(forest(), forest().width)
    assert (width, height) == (2 * sketch.width, 2 * sketch.height)


@pytest.mark.parametrize(
    "text", ["openai_text-davinci-003", "gpt2-xl", "Mental disability", "12 Mar 2026", "XLM-R", "0.0001"]
)
def test_estimated_widths_are_those_of_a_wide_font_and_rarely_exceeded(text):
    register_fonts()
    measured = pdfmetrics.stringWidth(text, REGULAR, SIZE)
    assert measured <= measure_text(text) <= 1.3 * measured


@given(st.text(min_size=1, max_size=60), st.floats(60, 300))
def test_a_shortened_name_keeps_its_ends_and_fits(text, room):
    shorter = shorten(text, room)
    if measure_text(text) <= room:
        assert shorter == text
    elif len(text) > 8:
        assert shorter[0] == text[0] or text[0].isspace()
        assert "…" in shorter
