"""Charts as SVG: within a page, in the colours of its theme; and as files of their own, in the light ones."""

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from leaderboard.charts.figure import NARROW, Chart, Ink
from leaderboard.charts.layout import arrange_chart
from leaderboard.charts.shapes import DASHES, Disc, Place, Polygon, Shape, Sketch, Specks, Stroke, Writing
from leaderboard.charts.text import SIZE
from leaderboard.xml import sayable

FAMILY = "Open Sans, system-ui, Segoe UI, Liberation Sans, Arial, sans-serif"
# The light colours of the stylesheet, for what leaves the page.
LIGHT = {
    Ink.INK: "#1d1f23",
    Ink.SOFT: "#565a63",
    Ink.QUIET: "#8a857b",
    Ink.RULE: "#dcd8cf",
    Ink.FAINT: "#a29c8f",
    Ink.PAPER: "#ffffff",
    Ink.RAISED: "#f5f3ee",
    Ink.FIRST: "#1c5fa8",
    Ink.SECOND: "#b85c00",
    Ink.HEAT_INK: "#1d1f23",
    Ink.HEAT_WORST: "#e58a3c",
    Ink.HEAT_WORSE: "#f0ab6b",
    Ink.HEAT_BAD: "#f6c99c",
    Ink.HEAT_LESS: "#fae4cc",
    Ink.HEAT_SAME: "#f4f2ee",
    Ink.HEAT_MORE: "#d5e4f4",
    Ink.HEAT_GOOD: "#aecbea",
    Ink.HEAT_BETTER: "#82afdd",
    Ink.HEAT_BEST: "#6a9fd6",
}
TOKENS = {ink: f"var(--{ink})" for ink in Ink}


def draw_inline(chart: Chart) -> str:
    """The chart for a page: as it is where there is room for it, and narrow for phones; its stylesheet shows one."""
    return "".join(
        _write(chart, arrange_chart(chart, width), TOKENS, f'class="{look}"')
        for look, width in (("chart-whole", chart.width), ("chart-narrow", NARROW))
    )


def draw_file(chart: Chart, site: str = "") -> str:
    """The chart as a document of its own on white. site: the address of the board, which links in it begin with."""
    sketch = arrange_chart(chart, chart.width)
    size = f'width="{sketch.width:g}" height="{sketch.height:g}" font-family="{FAMILY}"'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_write(chart, sketch, LIGHT, size, site)}\n'


def _write(chart: Chart, sketch: Sketch, colours: dict[Ink, str], attributes: str, site: str | None = None) -> str:
    role = "group" if chart.linked and site is None else "img"
    words = _quote(chart.alternative)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {sketch.width:g} {sketch.height:g}" '
        f'font-size="{SIZE}" role="{role}" aria-label={words} {attributes}>'
    ]
    if site is not None:
        parts.append(f"<title>{_text(chart.name)}</title><desc>{_text(chart.alternative)}</desc>")
        parts.append(f'<rect width="100%" height="100%" fill="{colours[Ink.PAPER]}"/>')
    for key, group in groupby(sketch.shapes, key=lambda shape: getattr(shape, "key", "")):
        parts += _draw_group(key, list(group), colours, site or "")
    return "".join([*parts, "</svg>"])


def _draw_group(key: str, shapes: list[Shape], colours: dict[Ink, str], site: str) -> Iterator[str]:
    """The shapes of one series, which lead to one place; each of those of none leads where it does itself."""
    if not key:
        yield from (_link(_draw_shape(shape, colours), getattr(shape, "link", ""), site) for shape in shapes)
        return
    content = "".join(_draw_shape(shape, colours) for shape in shapes)
    link = next((address for shape in shapes if (address := getattr(shape, "link", ""))), "")
    yield f"<g data-key={_quote(key)}>{_link(content, link, site)}</g>"


def _draw_shape(shape: Shape, colours: dict[Ink, str]) -> str:
    match shape:
        case Stroke():
            lengths = " ".join(map(str, DASHES[shape.dash]))
            dash = f' stroke-dasharray="{lengths}"' if lengths else ""
            tag, rest = "path", f'd="{_trace(shape.places)}" fill="none" stroke="{colours[shape.ink]}"'
            rest += f' stroke-width="{shape.width:g}"{dash}'
        case Polygon():
            tag, rest = "path", f'd="{_trace(shape.places)}Z" {_paint(shape, colours)}'
            rest += f' opacity="{shape.opacity:g}"' if shape.opacity < 1 else ""
        case Disc():
            tag, rest = "circle", f'cx="{shape.middle[0]:.1f}" cy="{shape.middle[1]:.1f}" r="{shape.radius:g}"'
            rest += f" {_paint(shape, colours)}"
        case Specks():
            dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in shape.places)
            tag, rest = "path", f'd="{dots}" stroke="{colours[shape.ink]}" stroke-width="{2 * shape.radius:g}"'
            rest += f' stroke-linecap="round" opacity="{shape.opacity:g}"'
        case Writing():
            return _draw_words(shape, colours)
    title = getattr(shape, "title", "")
    return f"<{tag} {rest}><title>{_text(title)}</title></{tag}>" if title else f"<{tag} {rest}/>"


def _draw_words(words: Writing, colours: dict[Ink, str]) -> str:
    x, y = words.place
    weight = ' font-weight="650"' if words.strong else ""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if words.turned else ""
    anchor = "" if words.anchor == "start" else f' text-anchor="{words.anchor}"'
    title = f"<title>{_text(words.title)}</title>" if words.title else ""
    place = f'x="{x:.1f}" y="{y:.1f}" fill="{colours[words.ink]}"'
    return f"<text {place}{anchor}{weight}{turn}>{title}{_text(words.text)}</text>"


def _paint(shape: Polygon | Disc, colours: dict[Ink, str]) -> str:
    fill = colours[shape.fill] if shape.fill else "none"
    return f'fill="{fill}"' + (f' stroke="{colours[shape.outline]}"' if shape.outline else "")


def _link(content: str, address: str, site: str) -> str:
    """`content` as a link; for pointers alone in a page, whose table has the same links for keyboards."""
    return f'<a href={_quote(site + address)} tabindex="-1">{content}</a>' if address else content


def _trace(places: tuple[Place, ...]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _quote(text: str) -> str:
    return quoteattr(sayable(text))


def _text(text: str) -> str:
    return escape(sayable(text))
