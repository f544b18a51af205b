"""What a chart shows, as data: panels with axes, marks and a legend.

It is described once and drawn in several ways: `layout` places it on a page of a given width, from which `svg`, `pdf`
and PNG are made, and `plotly` hands the same marks to Plotly for readers who explore a chart. Colours are names of the
stylesheet's tokens; nothing here knows of light and dark. No chart says anything by colour alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Dash = Literal["", "dash", "dot"]
WIDE, PANELS, NARROW = 640, 960, 358  # pixels: a chart, one of panels side by side, and either on a phone


class Ink(StrEnum):
    """A colour, as the stylesheet's token of that name."""

    INK = "ink"
    SOFT = "ink-soft"
    QUIET = "chart-quiet"
    RULE = "rule"
    FAINT = "rule-strong"
    PAPER = "paper"
    RAISED = "raised"
    FIRST = "chart-first"  # blue and orange, which no colour blindness confuses
    SECOND = "chart-second"
    HEAT_INK = "heat-ink"
    HEAT_WORST = "heat-worst"
    HEAT_WORSE = "heat-worse"
    HEAT_BAD = "heat-bad"
    HEAT_LESS = "heat-less"
    HEAT_SAME = "heat-same"
    HEAT_MORE = "heat-more"
    HEAT_GOOD = "heat-good"
    HEAT_BETTER = "heat-better"
    HEAT_BEST = "heat-best"


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and what stands there: lines of text, the first one bold if `strong`.

    number: stands between the text and the plot and is never shortened. link: where the text leads. key: the series
    that it names.
    """

    at: float
    lines: tuple[str, ...]
    number: str = ""
    strong: bool = False
    link: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` (left, or below) to `high`, which may be the smaller one, as of ranks.

    on_top: whether ticks of a horizontal axis stand above the plot. upright: whether its texts turn where they do not
    fit side by side; else some are left out.
    """

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()
    title: str = ""
    logarithmic: bool = False
    grid: bool = True
    on_top: bool = False
    upright: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """One value. size: its radius in pixels. title: what is said of it. name: written beside it where there is room."""

    x: float
    y: float
    symbol: str = "circle"
    ink: Ink = Ink.FIRST
    size: float = 4.0
    title: str = ""
    link: str = ""
    key: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Dots:
    """Values that may be too many to be told apart."""

    x: Sequence[float]
    y: Sequence[float]
    titles: Sequence[str]
    ink: Ink
    size: float
    opacity: float


@dataclass(frozen=True, slots=True)
class Line:
    """Straight from value to value. key: of the series that it belongs to."""

    x: Sequence[float]
    y: Sequence[float]
    ink: Ink = Ink.INK
    width: float = 1.5
    dash: Dash = ""
    title: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Ribbon:
    """What lies between two values at each x."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    ink: Ink = Ink.RULE
    opacity: float = 0.5
    key: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle between two values on each axis; `text` stands in its middle."""

    x: tuple[float, float]
    y: tuple[float, float]
    fill: Ink
    outline: Ink | None = None
    title: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """Writing at a place. dx, dy: pixels to the right and downwards."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    dx: float = 0.0
    dy: float = 0.0
    strong: bool = False
    ink: Ink = Ink.INK


Mark = Spot | Dots | Line | Ribbon | Block | Label


@dataclass(frozen=True, slots=True)
class Key:
    """What a symbol, or a line, stands for."""

    text: str
    ink: Ink
    symbol: str = ""
    dash: Dash = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. height: of it in pixels. right: what stands at its right side. head: pixels over it for labels."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    height: int
    right: tuple[Tick, ...] = ()
    head: int = 0


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: panels one under another, or side by side where there is room for that.

    name: of its files. alternative: what it shows, for who does not see it.
    """

    name: str
    alternative: str
    panels: tuple[Panel, ...]
    legend: tuple[Key, ...] = ()
    beside: bool = False
    long_names: bool = False  # whether it needs the width of panels side by side for names and columns

    @property
    def width(self) -> int:
        """Pixels that it has where there is room."""
        return PANELS if self.beside or self.long_names else WIDE

    @property
    def linked(self) -> bool:
        """Whether anything in it leads elsewhere."""
        return any(
            getattr(item, "link", "")
            for panel in self.panels
            for items in (panel.marks, panel.y.ticks, panel.right)
            for item in items
        )
