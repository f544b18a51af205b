"""The one-page card of a model as PDF: A4, with its fonts and text that can be selected."""

from html import escape
from io import BytesIO
from typing import Any

from reportlab.graphics.shapes import Drawing, Line, Rect, String
from reportlab.lib.colors import HexColor
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, KeepInFrame, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from leaderboard.charts.pdf import BOLD, REGULAR, register_fonts
from leaderboard.queries.one_page_cards import CardChart, CardLine, ChartLine, OnePageCard

MARGIN = 48  # points
WIDTH, HEIGHT = A4[0] - 2 * MARGIN, A4[1] - 2 * MARGIN
FRAME = 12  # points that the frame keeps free
INK, QUIET, RULE, ACCENT = HexColor("#1c2126"), HexColor("#5a636b"), HexColor("#d5d9dc"), HexColor("#1f5f8b")
ROW = 12  # points, of a line of the chart
LABEL, NUMBER = 120, 52  # points, left and right of the chart's scale
HEADINGS = ("Metric", "Measure", "Value [95% interval]", "If indifferent", "Rank", "No score")
SHARES = (0.27, 0.17, 0.18, 0.1, 0.18, 0.1)  # of the width, for each heading
EMPTY = "–"  # noqa: RUF001 (a dash)


def draw_card(card: OnePageCard, address: str, citation: str) -> bytes:
    """The card as PDF. address: of the model's page; citation: how to cite these numbers."""
    register_fonts()
    content = BytesIO()
    document = SimpleDocTemplate(
        content,
        pagesize=A4,
        leftMargin=MARGIN,
        rightMargin=MARGIN,
        topMargin=MARGIN,
        bottomMargin=MARGIN,
        title=f"{card.name} on Plumbline",
        author="Plumbline",
        subject="Representational harm and toxicity of a language model",
        invariant=1,
    )
    padding = 2 * 6  # of the frame
    document.build([KeepInFrame(WIDTH - padding, HEIGHT - padding, arrange_card(card, address, citation))])
    return content.getvalue()


def arrange_card(card: OnePageCard, address: str, citation: str) -> list[Flowable]:
    """What stands on the page, from top to bottom."""
    parts: list[Flowable] = [
        write("Plumbline: representational harm and toxicity in language models", 8, QUIET),
        write(card.name, 17, strong=True),
        leave_room(4),
    ]
    if card.caution:
        parts += [write(card.caution, 9, strong=True), leave_room(4)]
    parts += [draw_facts(card.facts), leave_room(8)]
    if card.lines:
        parts += [draw_lines(card.lines), leave_room(8)]
    else:
        parts.append(write("No numbers yet.", 9))
    if card.more:
        parts.append(write(f"And {card.more} more on the model's page.", 8, QUIET))
    if card.chart:
        parts += [write(card.chart.title, 9, strong=True), draw_chart(card.chart), *explain_chart(card.chart)]
    link = f'<link href="{escape(address)}" color="#1f5f8b">{escape(address)}</link>'
    notes = (
        "≈ marks what the source does not print and Plumbline worked out. Ranks are among the models named; possible "
        "ranks come from paired tests on the same texts. Numbers of different metric versions cannot be compared."
    )
    return [
        *parts,
        leave_room(8),
        write(notes, 7, QUIET),
        leave_room(4),
        Paragraph(f"Everything about this model: {link}", style(8, INK)),
        write(f"Cite as: {citation}", 8),
    ]


def leave_room(height: int) -> Spacer:
    """Nothing, so high."""
    return Spacer(0, height)


def style(size: int, colour: Any, strong: bool = False) -> ParagraphStyle:
    """The style of a paragraph."""
    return ParagraphStyle(
        f"{size}{strong}", fontName=BOLD if strong else REGULAR, fontSize=size, leading=size * 1.3, textColor=colour
    )


def write(text: str, size: int, colour: Any = INK, strong: bool = False) -> Paragraph:
    """A paragraph of text as it is: others wrote parts of it, so nothing in it is markup."""
    return Paragraph(escape(text), style(size, colour, strong))


def draw_facts(facts: list[tuple[str, str]]) -> Table:
    """What the model is, two facts a line."""
    cells = [[write(label, 8, QUIET), write(text, 8)] for label, text in facts]
    if len(cells) % 2:
        cells.append(["", ""])
    rows = [[*first, *second] for first, second in zip(cells[::2], cells[1::2], strict=True)]
    looks = [("VALIGN", (0, 0), (-1, -1), "TOP"), ("LEFTPADDING", (0, 0), (-1, -1), 0), *narrow()]
    return Table(rows, [WIDTH * share for share in (0.16, 0.34, 0.16, 0.31)], style=TableStyle(looks))


def draw_lines(lines: list[CardLine]) -> Table:
    """The headline of each metric."""
    rows: list[list[Any]] = [[write(heading, 7, QUIET) for heading in HEADINGS]]
    for line in lines:
        rows.append(
            [
                [write(line.metric, 8, strong=True), write(line.origin, 6, QUIET)],
                write(line.measure, 8),
                write(line.value, 8),
                write(line.indifferent or EMPTY, 8),
                write(line.rank, 8),
                write(line.missing or EMPTY, 8),
            ]
        )
    looks = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LINEBELOW", (0, 0), (-1, -1), 0.5, RULE),
        ("LEFTPADDING", (0, 0), (-1, -1), 0),
        *narrow(),
    ]
    return Table(rows, [(WIDTH - FRAME) * share for share in SHARES], style=TableStyle(looks))


def narrow() -> list[tuple[Any, ...]]:
    """Little room around cells."""
    return [("TOPPADDING", (0, 0), (-1, -1), 1.5), ("BOTTOMPADDING", (0, 0), (-1, -1), 1.5)]


def explain_chart(chart: CardChart) -> list[Paragraph]:
    """What its marks are."""
    bars = "Bars are 95% intervals. " if any(line.low is not None for line in chart.lines) else ""
    ticks = "Dotted ticks are what an indifferent model would have." if any(
        line.indifferent is not None for line in chart.lines
    ) else ""  # fmt: skip
    return [write(bars + ticks, 7, QUIET)] if bars or ticks else []


def draw_chart(chart: CardChart) -> Drawing:
    """A line a slice: its label, its interval with value and tick on one scale, and its digits."""
    width = WIDTH - FRAME
    height = ROW * (len(chart.lines) + 1)
    sketch = Drawing(width, height)
    start, end = LABEL, width - NUMBER

    def place(value: float) -> float:
        return float(start + (end - start) * chart.scale.place(value) / 100)

    for number, line in enumerate(chart.lines):
        draw_line(sketch, line, height - ROW * (number + 0.5), (start, end), place)
    for value, anchor in ((chart.scale.start, "start"), (chart.scale.end, "end")):
        sketch.add(
            String(place(value), 2, f"{value:g}", fontName=REGULAR, fontSize=7, fillColor=QUIET, textAnchor=anchor)
        )
    return sketch


def draw_line(sketch: Drawing, line: ChartLine, y: float, ends: tuple[float, float], place: Any) -> None:
    """One line of the chart at height `y`."""
    start, end = ends
    sketch.add(String(0, y - 3, line.label, fontName=REGULAR, fontSize=8, fillColor=INK))
    sketch.add(Line(start, y, end, y, strokeColor=RULE, strokeWidth=0.5))
    if line.low is not None and line.high is not None:
        x = place(line.low)
        sketch.add(Rect(x, y - 1.5, place(line.high) - x, 3, fillColor=ACCENT, strokeColor=None, fillOpacity=0.5))
    if line.indifferent is not None:
        x = place(line.indifferent)
        sketch.add(Line(x, y - 5, x, y + 5, strokeColor=QUIET, strokeDashArray=[1.5, 1.5]))
    x = place(line.value)
    sketch.add(Line(x, y - 4, x, y + 4, strokeColor=INK, strokeWidth=1.5))
    sketch.add(String(end + NUMBER, y - 3, line.text, fontName=REGULAR, fontSize=8, fillColor=INK, textAnchor="end"))
