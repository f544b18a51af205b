"""The one-page card as it is drawn: each text with its place, font and colour, and each line and bar of its chart."""

from dataclasses import replace
from io import BytesIO

import pytest
from pypdf import PageObject, PdfReader

from leaderboard.one_page_pdf import draw_card
from leaderboard.queries.one_page_cards import CardChart, CardLine, ChartLine, OnePageCard
from leaderboard.rankings.scales import WhiskerScale
from tests.approved_text import compare_with_approved

pytestmark = pytest.mark.either_database

CARD = OnePageCard(
    name="Model A",
    facts=[("Family", "gpt-2"), ("Kind", "causal"), ("Licence", "MIT")],
    caution="Restricted. Its makers asked.",
    lines=[
        CardLine("Safety", "measured here", "safety score", "0.500 [0.400, 0.600]", "0.5", "1 of 2", "3 (3.0%)"),
        CardLine("Toxicity", "published", "toxic fraction", "0.1", "", "2 of 3", ""),
    ],
    more=2,
    chart=CardChart(
        "Safety: safety score",
        [ChartLine("Women", 0.5, "0.500", 0.4, 0.6, 0.45), ChartLine("Asian", 0.7, "0.700", None, None, None)],
        WhiskerScale(0.0, 1.0),
    ),
    headline=None,
)
WOMEN, ASIAN = CARD.chart.lines
BARE = replace(
    CARD, facts=CARD.facts[:2], caution="", lines=[], more=0, chart=replace(CARD.chart, lines=[ASIAN])
)  # without numbers, and without intervals
LONG = replace(
    CARD, lines=CARD.lines * 30, chart=replace(CARD.chart, lines=[replace(WOMEN, indifferent=None)])
)  # made smaller, lest it need a second page
MOST_LINES = 350  # that are compared of a page; the end of a long one is like its beginning
SHOWS_TEXT = {b"Tj", b"TJ"}
SAYS_NOTHING = {b"q", b"Q", b"BT", b"ET", b"T*"}  # where a part begins and ends


def describe_number(value: object) -> str:
    """A number of a drawing to a hundredth of a point; names as they are."""
    try:
        return f"{round(float(str(value)), 2):g}"
    except ValueError:
        return str(value)


def describe_page(page: PageObject) -> list[str]:
    """What is drawn, a line each: texts in words, all else as the operator of PDF and its numbers."""
    lines = []

    def note_operator(operator: bytes, operands: list[object], *_: object) -> None:
        if operator not in SHOWS_TEXT | SAYS_NOTHING:
            lines.append(" ".join([operator.decode(), *map(describe_number, operands)]))

    def note_text(text: str, *_: object) -> None:
        if text.strip():
            lines.append(f"text {text.strip()}")

    page.extract_text(visitor_operand_before=note_operator, visitor_text=note_text)
    return lines


def test_a_card_is_drawn_as_was_approved():
    lines = []
    for title, card in (("a whole card", CARD), ("a bare card", BARE), ("a long card", LONG)):
        pdf = PdfReader(BytesIO(draw_card(card, "https://board.example.org/models/a/", "Plumbline (2026). Model A.")))
        (page,) = pdf.pages
        (link, *_) = [note.get_object() for note in page["/Annots"]]
        facts = {name: pdf.metadata[name] for name in ("/Title", "/Author", "/Subject", "/CreationDate")}
        lines += [
            title,
            f"{page.mediabox}",
            f"{facts}",
            f"link {link['/A']['/URI']}",
            *describe_page(page)[:MOST_LINES],
            "",
        ]
    compare_with_approved("card_drawings.txt", "\n".join(lines))
