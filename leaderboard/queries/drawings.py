"""Small drawings of small numbers: rows of marks on one scale, and tables of won and lost comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

# In units of the drawings, which are about a pixel of a phone.
WIDTH = 360
LABELS = 104  # the column of labels
NOTES = 56  # the column of notes at the end of each row
TOP = 26  # room for the names of lines, or of columns
ROW = 26
BOTTOM = 24  # room for the ends of the scale
CELL_HEIGHT = 32

Look = Literal["full", "open", "square"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A value on the scale. look: full counts, open does not, a square is of another kind."""

    value: float
    look: Look = "full"


@dataclass(frozen=True, slots=True)
class StripRow:
    """Marks in a row, and in words what the row comes to. span: the ends of a line between two values."""

    label: str
    marks: Sequence[Mark]
    note: str = ""
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows of marks on one scale from `low` to `high`, crossed by named lines.

    caption: what is seen, in a sentence or two; it is the text for those who hear the page.
    """

    title: str
    caption: str
    low: float
    high: float
    rows: Sequence[StripRow]
    lines: Sequence[tuple[float, str]] = ()
    template: str = "docs/drawings/strip.html"

    @property
    def width(self) -> int:
        """Of the whole drawing."""
        return WIDTH

    @property
    def height(self) -> int:
        """Of the whole drawing."""
        return TOP + ROW * len(self.rows) + BOTTOM

    @property
    def floor(self) -> int:
        """Where the rows end."""
        return TOP + ROW * len(self.rows)

    @property
    def left(self) -> float:
        """Where the scale begins."""
        return self.place(self.low)

    @property
    def right(self) -> float:
        """Where the scale ends."""
        return self.place(self.high)

    @property
    def notes_x(self) -> int:
        """Where notes begin."""
        return WIDTH - NOTES + 8

    def place(self, value: float) -> float:
        """The x of a value."""
        start, end = LABELS + 8, WIDTH - NOTES - 6
        return round(start + (value - self.low) / (self.high - self.low) * (end - start), 1)

    @property
    def drawn_rows(self) -> list[tuple[StripRow, float, list[tuple[float, Look]], tuple[float, float] | None]]:
        """Each row with its y, its marks by their x, and its line."""
        return [
            (
                row,
                TOP + ROW * (number + 0.5),
                [(self.place(mark.value), mark.look) for mark in row.marks],
                (self.place(row.span[0]), self.place(row.span[1])) if row.span else None,
            )
            for number, row in enumerate(self.rows)
        ]

    @property
    def drawn_lines(self) -> list[tuple[float, str, str]]:
        """Each line by its x, its name, and the side on which the name stands: names of neighbours do not overlap."""
        places = sorted((self.place(value), name) for value, name in self.lines)
        close = any(second - first < 90 for (first, _), (second, _) in pairwise(places))
        anchors = ["end", *["start"] * (len(places) - 1)] if close else ["middle"] * len(places)
        return [(x, name, anchor) for (x, name), anchor in zip(places, anchors, strict=True)]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a comparison came to: 1, a half or 0, or another word; full where it counts."""

    text: str
    look: Literal["full", "half", "open"]


@dataclass(frozen=True, slots=True)
class CellGrid:
    """Rows and columns with a cell for each two of them. caption: as of a strip."""

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    corner: str = ""
    template: str = "docs/drawings/grid.html"

    @property
    def width(self) -> int:
        """Of the whole drawing."""
        return WIDTH

    @property
    def height(self) -> int:
        """Of the whole drawing."""
        return TOP + CELL_HEIGHT * len(self.rows) + 4

    @property
    def cell_width(self) -> float:
        """Of a column."""
        return (WIDTH - LABELS - 8) / len(self.columns)

    @property
    def drawn_columns(self) -> list[tuple[float, str]]:
        """Each column by the x of its middle."""
        return [(LABELS + 8 + self.cell_width * (n + 0.5), name) for n, name in enumerate(self.columns)]

    @property
    def drawn_rows(self) -> list[tuple[str, float, list[tuple[float, float, Cell]]]]:
        """Each row by the y of its middle, with its cells by their left edge and their middle."""
        return [
            (
                label,
                TOP + CELL_HEIGHT * (number + 0.5),
                [(x - self.cell_width / 2, x, cell) for (x, _), cell in zip(self.drawn_columns, cells, strict=True)],
            )
            for number, (label, cells) in enumerate(self.rows)
        ]


Drawing = Strip | CellGrid


def compare_pairs(
    harmful: Sequence[tuple[str, float]], benign: Sequence[tuple[str, float]]
) -> list[tuple[str, list[Cell]]]:
    """Compare each of the first with each of the second: 1 where it is larger, one half where both are equal."""
    win, tie, loss = Cell("1", "full"), Cell("½", "half"), Cell("0", "open")
    return [
        (label, [win if value > other else tie if value == other else loss for _, other in benign])
        for label, value in harmful
    ]
