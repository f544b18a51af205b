"""Charts as files for print: PDF with vectors and text, and PNG. Both bring their font along."""

from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import resvg_py
from reportlab.lib.colors import HexColor
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from leaderboard.charts.figure import Chart, Dash, Ink
from leaderboard.charts.layout import arrange_chart
from leaderboard.charts.shapes import DASHES, Disc, Polygon, Shape, Specks, Stroke, Writing
from leaderboard.charts.svg import LIGHT, draw_file
from leaderboard.charts.text import SIZE

REGULAR, BOLD = "Open Sans", "Open Sans Bold"
POINTS = 0.75  # points a pixel
ZOOM = 2  # pixels of a PNG for each of the drawing: sharp in print and on fine screens


@cache
def find_fonts() -> dict[str, Path]:
    """The files of the fonts by name."""
    spec = find_spec("ttf_opensans")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("ttf_opensans is not installed: install what requirements.lock pins")
    folder = Path(spec.origin).parent / "ttf"
    return {REGULAR: folder / "OpenSans-Regular.ttf", BOLD: folder / "OpenSans-SemiBold.ttf"}


@cache
def register_fonts() -> None:
    """Make both fonts known to reportlab, for charts and for pages of text."""
    for name, path in find_fonts().items():
        pdfmetrics.registerFont(TTFont(name, str(path)))


def draw_png(chart: Chart) -> bytes:
    """The chart as PNG on white."""
    content: bytes = resvg_py.svg_to_bytes(
        svg_string=draw_file(chart), zoom=ZOOM, font_files=[str(path) for path in find_fonts().values()]
    )
    return bytes(content)


def draw_pdf(chart: Chart, site: str = "") -> bytes:
    """The chart as a PDF of one page of its size. site: the address of the board, which links in it begin with."""
    register_fonts()
    sketch = arrange_chart(chart, chart.width)
    content = BytesIO()
    canvas = Canvas(content, (POINTS * sketch.width, POINTS * sketch.height), invariant=1)
    canvas.setTitle(chart.name)
    canvas.setSubject(chart.alternative)
    canvas.scale(POINTS, POINTS)
    draw_shapes(canvas, sketch.shapes, sketch.height, site)
    canvas.showPage()
    canvas.save()
    return content.getvalue()


def draw_shapes(canvas: Canvas, shapes: tuple[Shape, ...], height: float, site: str = "") -> None:
    """Draw on a canvas, whose y grows upwards, from `height` down."""
    for shape in shapes:
        match shape:
            case Stroke():
                _set_line(canvas, shape.ink, shape.width, shape.dash)
                _follow(canvas, shape.places, height, is_closed=False, fill=False, stroke=True)
            case Polygon():
                _fill(canvas, shape.fill, shape.opacity)
                _set_line(canvas, shape.outline or Ink.INK, 1, "")
                is_drawn = shape.outline is not None
                _follow(canvas, shape.places, height, is_closed=True, fill=shape.fill is not None, stroke=is_drawn)
                canvas.setFillAlpha(1)
            case Disc():
                _fill(canvas, shape.fill, 1)
                _set_line(canvas, shape.outline, 1, "")
                x, y = shape.middle
                canvas.circle(x, height - y, shape.radius, fill=int(shape.fill is not None))
            case Specks():
                _fill(canvas, shape.ink, shape.opacity)
                for x, y in shape.places:
                    canvas.circle(x, height - y, shape.radius, stroke=0, fill=1)
                canvas.setFillAlpha(1)
            case Writing():
                _write(canvas, shape, height, site)


def _set_line(canvas: Canvas, ink: Ink, width: float, dash: Dash) -> None:
    canvas.setStrokeColor(HexColor(LIGHT[ink]))
    canvas.setLineWidth(width)
    canvas.setDash(list(DASHES[dash]))


def _fill(canvas: Canvas, ink: Ink | None, opacity: float) -> None:
    canvas.setFillColor(HexColor(LIGHT[ink or Ink.PAPER]))
    canvas.setFillAlpha(opacity)


def _follow(
    canvas: Canvas, places: tuple[tuple[float, float], ...], height: float, is_closed: bool, fill: bool, stroke: bool
) -> None:
    if not places:
        return
    path = canvas.beginPath()
    (x, y), *rest = places
    path.moveTo(x, height - y)
    for x, y in rest:
        path.lineTo(x, height - y)
    if is_closed:
        path.close()
    canvas.drawPath(path, stroke=int(stroke), fill=int(fill))


def _write(canvas: Canvas, words: Writing, height: float, site: str) -> None:
    font = BOLD if words.strong else REGULAR
    canvas.setFont(font, SIZE)
    canvas.setFillColor(HexColor(LIGHT[words.ink]))
    x, y = words.place[0], height - words.place[1]
    canvas.saveState()
    canvas.translate(x, y)
    if words.turned:
        canvas.rotate(90)
    draw = {"start": canvas.drawString, "middle": canvas.drawCentredString, "end": canvas.drawRightString}
    draw[words.anchor](0, 0, words.text)
    if words.link and site:
        width = pdfmetrics.stringWidth(words.text, font, SIZE)
        start = {"start": 0.0, "middle": -width / 2, "end": -width}[words.anchor]
        canvas.linkURL(site + words.link, (start, -3, start + width, SIZE), relative=1)
    canvas.restoreState()
